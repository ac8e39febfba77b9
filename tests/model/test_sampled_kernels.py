"""Kernels without closed forms: their psi statistics are averages over draws, which converge fast."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from psi_statistics import (
    KERNELS,
    M,
    N,
    Q,
    by_quadrature,
    combined,
    in_pairs,
    in_paper,
    psi2_of_rows,
    random_latents,
    random_theta,
    random_weights,
    seeds,
    statistics,
    weighted_statistics,
)

from dpgplvm.model.kernels import NAMED_KERNELS, RBF, Kernel, Linear, Parameter, RBFLinear
from dpgplvm.model.kernels.base import standard_normal_draws
from dpgplvm.model.statistics import gather
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")


@dataclass(frozen=True)
class Matern(Kernel):
    """Matern 3/2, written as a user would: no closed forms."""

    parameters = {
        "ard_weights": Parameter(per_latent=True, role="relevance"),
        "signal_variance": Parameter(per_latent=False, role="scale"),
    }

    def value(self, theta, X, Z):
        squared = ((X[:, None] - Z[None]) ** 2 * theta["ard_weights"]).sum(axis=-1)
        # The small number keeps the gradient of the root finite where a draw meets an inducing point.
        distance = jnp.sqrt(3.0 * squared + 1e-20)
        return theta["signal_variance"] * (1.0 + distance) * jnp.exp(-distance)

    def diagonal(self, theta, X):
        return jnp.full(X.shape[0], theta["signal_variance"])


class FineMatern(Matern):
    n_draws = 8192


class SampledRBF(RBF):
    """The RBF kernel without its closed forms."""

    psi0, psi1, psi2 = Kernel.psi0, Kernel.psi1, Kernel.psi2
    psi2_features, psi2_of_features = Kernel.psi2_features, Kernel.psi2_of_features


class FinelySampledRBF(SampledRBF):
    n_draws = 8192


class SampledLinear(Linear):
    psi0, psi1, psi2 = Kernel.psi0, Kernel.psi1, Kernel.psi2
    psi2_features, psi2_of_features = Kernel.psi2_features, Kernel.psi2_of_features


# Each with the name of its hyperparameters in the witness.
SAMPLED = {
    "sampled rbf": (SampledRBF(), "rbf"),
    "sampled linear": (SampledLinear(), "linear"),
    "matern": (Matern(), "rbf"),
}


def on_its_draws(kernel, theta, mean, variance, Z):
    """The statistics of a kernel without closed forms: sums over its draws."""
    functions = matern_in_numpy(theta) if kernel == "matern" else in_paper(SAMPLED[kernel][1], theta)
    n_draws = Kernel.n_draws
    return by_quadrature(
        *functions, mean, variance, Z, standard_normal_draws(n_draws, Q), np.full(n_draws, 1.0 / n_draws)
    )


@pytest.mark.parametrize("kernel", [*KERNELS, *SAMPLED])
@given(seed=seeds)
def test_psi2_of_rows_is_psi2_of_each_row_alone_and_adds_up(kernel, seed):
    ours, name = SAMPLED.get(kernel) or (NAMED_KERNELS[kernel], kernel)
    rng = np.random.default_rng(seed)
    theta, (mean, variance, Z) = random_theta(name, rng), random_latents(rng)
    of_rows, whole = psi2_by_rows_and_whole(ours, theta, mean, variance, Z)
    if kernel in SAMPLED:
        wanted = on_its_draws(kernel, theta, mean, variance, Z)[-1]
    else:
        wanted = in_pairs([witness.psi2(kernel, theta, mean[[n]], variance[[n]], Z) for n in range(N)])
    for n in range(N):
        np.testing.assert_allclose(of_rows[n], wanted[n], rtol=1e-9, atol=1e-9 * np.abs(wanted[n]).max())
    np.testing.assert_allclose(of_rows.sum(axis=0), in_pairs([whole])[0], rtol=1e-9, atol=1e-9 * np.abs(whole).max())


@partial(jax.jit, static_argnames="kernel")
def psi2_by_rows_and_whole(kernel, theta, mean, variance, Z):
    return psi2_of_rows(kernel, theta, mean, variance, Z), kernel.psi2(theta, mean, variance, Z)


@pytest.mark.parametrize("parent", [Linear, RBFLinear])
@pytest.mark.parametrize("name", ["psi2_features", "psi2_of_features"])
def test_features_and_what_is_made_of_them_are_given_together(parent, name):
    with pytest.raises(TypeError, match=r"Half has psi2_features of .* and psi2_of_features of .*: give both"):
        type("Half", (parent,), {name: getattr(RBF, name)})
    both = {name: getattr(RBF, name) for name in ("psi2_features", "psi2_of_features")}
    assert issubclass(type("Whole", (parent,), both), parent)
    # Where nothing but entries of the matrix was said, new features are such as well.
    assert issubclass(type("Entries", (RBF,), {"psi2_features": RBF.psi2_features}), RBF)


def test_features_of_several_arrays_need_what_makes_matrices_of_them():
    several = type("Several", (RBF,), {"psi2_features": RBFLinear.psi2_features})()
    with pytest.raises(TypeError, match=r"psi2_features of Several gives several arrays.*: override psi2_of_features"):
        several.psi2_of_features({}, jnp.zeros((M, 2)), (jnp.zeros((1, 3)), jnp.zeros((1, 2))))


@pytest.mark.parametrize("kernel", [*KERNELS, *SAMPLED])
@given(seed=seeds)
def test_features_times_their_weights_add_up_to_the_product_of_the_matrices(kernel, seed):
    ours, name = SAMPLED.get(kernel) or (NAMED_KERNELS[kernel], kernel)
    rng = np.random.default_rng(seed)
    theta, latents, matrices = random_theta(name, rng), random_latents(rng), rng.normal(size=(5, M, M))
    matrices = matrices + matrices.swapaxes(1, 2)
    found, of_rows = products_of_features(ours, theta, *latents, matrices)
    once = np.where(np.equal(*np.triu_indices(M)), 1.0, 2.0)
    wanted = of_rows @ (in_pairs(matrices) * once).T
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(of_rows).max())


@partial(jax.jit, static_argnames="kernel")
def products_of_features(kernel, theta, mean, variance, Z, matrices):
    features = kernel.psi2_features(theta, mean, variance, Z), kernel.weights_of_features(theta, Z, matrices)
    products = jax.tree.map(lambda part, weights: part @ weights.T, *features)
    return sum(jax.tree.leaves(products)), psi2_of_rows(kernel, theta, mean, variance, Z)


@pytest.mark.parametrize("kernel", SAMPLED)
@given(seed=seeds)
def test_sampled_statistics_and_gradients_are_those_of_their_draws(kernel, seed):
    ours, name = SAMPLED[kernel]
    rng = np.random.default_rng(seed)
    mean, variance, Z = random_latents(rng, smallest=1e-3)
    at = {**random_theta(name, rng), "mean": mean, "variance": variance, "Z": Z}
    weights = random_weights(rng)

    def in_numpy(at):
        return combined(on_its_draws(kernel, at, at["mean"], at["variance"], at["Z"]), weights)

    value, gradient = weighted_statistics(ours, jax.tree.map(jnp.asarray, at), weights)
    np.testing.assert_allclose(value, in_numpy(at), rtol=1e-9)
    for part, wanted in witness.derivatives(in_numpy, at).items():
        np.testing.assert_allclose(gradient[part], wanted, rtol=1e-8, atol=1e-10 * np.abs(wanted).max(), err_msg=part)


def matern_in_numpy(theta):
    def value(X, Z):
        distance = np.sqrt(3.0 * ((X[:, None] - Z[None]) ** 2 * theta["ard_weights"]).sum(axis=-1))
        return theta["signal_variance"] * (1.0 + distance) * np.exp(-distance)

    return value, lambda X: np.full(len(X), theta["signal_variance"])


def root_mean_square_error(found, wanted):
    """Of psi1 and psi2 together, each in units of its largest entry; psi0 of a stationary kernel has no error."""
    pairs = zip(found[1:3], wanted[1:3], strict=True)
    return np.sqrt(np.mean([((a - b) ** 2).mean() / (b**2).max() for a, b in pairs]))


@pytest.mark.parametrize(
    ("coarse", "fine", "in_numpy"),
    [(Matern(), FineMatern(), matern_in_numpy), (SampledRBF(), FinelySampledRBF(), partial(in_paper, "rbf"))],
    ids=["matern", "rbf"],
)
@given(seed=seeds)
def test_sampled_statistics_converge_faster_than_plain_sampling(coarse, fine, in_numpy, seed):
    rng = np.random.default_rng(seed)
    theta, latents = random_theta("rbf", rng, largest=2.0), random_latents(rng, smallest=0.05, largest=0.5)
    kernel = in_numpy(theta)
    exact = by_quadrature(*kernel, *latents, *witness.normal_grid(100, Q))

    def plain_error(n_draws):
        draws = rng.normal(size=(n_draws, Q)), np.full(n_draws, 1.0 / n_draws)
        return root_mean_square_error(by_quadrature(*kernel, *latents, *draws), exact)

    plain = np.mean([plain_error(coarse.n_draws) for _ in range(20)])
    assert root_mean_square_error(statistics(coarse, theta, *latents), exact) < plain
    # 128 times the draws: plain sampling would gain a factor of 11.
    assert root_mean_square_error(statistics(fine, theta, *latents), exact) < plain / 50.0


def test_mirrored_draws_make_odd_moments_exact():
    rng = np.random.default_rng(8)
    theta, latents = random_theta("linear", rng), random_latents(rng)
    np.testing.assert_allclose(
        statistics(SampledLinear(), theta, *latents)[1], statistics(Linear(), theta, *latents)[1], rtol=1e-12
    )
    draws = standard_normal_draws(64, 5)
    np.testing.assert_array_equal(draws[:32], -draws[32:])
    np.testing.assert_array_equal(draws, standard_normal_draws(64, 5))


def test_a_user_kernel_is_differentiable_in_everything():
    rng = np.random.default_rng(9)
    theta, (mean, variance, Z) = random_theta("rbf", rng, largest=2.0), random_latents(rng, smallest=0.01)
    at = jax.tree.map(jnp.asarray, {**theta, "mean": mean, "variance": variance, "Z": Z})
    Y = jnp.asarray(rng.normal(size=(N, 2)))
    weights = jnp.asarray(rng.normal(size=(M, 2))), jnp.asarray(rng.normal(size=(M, M)))

    @jax.jit
    def combined(at):
        found = gather(Matern(), at, at["mean"], at["variance"], at["Z"], Table(Y))
        return found.psi0 + (found.psi1_y * weights[0]).sum() + (found.psi2 * weights[1]).sum()

    gradient = jax.grad(combined)(at)
    direction = jax.tree.map(lambda value: jnp.asarray(rng.normal(size=value.shape)), at)

    def moved(step):
        return combined(jax.tree.map(lambda value, towards: value + step * value.std() * towards, at, direction))

    along = sum(jnp.vdot(gradient[name], direction[name]) * at[name].std() for name in at)
    differences = (8.0 * (moved(1e-4) - moved(-1e-4)) - (moved(2e-4) - moved(-2e-4))) / 12e-4
    np.testing.assert_allclose(along, differences, rtol=1e-7)
