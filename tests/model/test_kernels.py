"""Psi statistics against quadrature, sampling and the paper's formulas, and what a kernel without closed forms gets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import TypeCheckError

from dpgplvm.model.kernels import NAMED_KERNELS, RBF, Kernel, Linear, Parameter
from dpgplvm.model.kernels.base import standard_normal_draws
from dpgplvm.model.statistics import gather
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

KERNELS = sorted(NAMED_KERNELS)
N, M, Q = 3, 4, 2
seeds = st.integers(0, 2**32 - 1)


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

    psi0, psi1, psi2, psi2_of_rows = Kernel.psi0, Kernel.psi1, Kernel.psi2, Kernel.psi2_of_rows


class FinelySampledRBF(SampledRBF):
    n_draws = 8192


class SampledLinear(Linear):
    psi0, psi1, psi2, psi2_of_rows = Kernel.psi0, Kernel.psi1, Kernel.psi2, Kernel.psi2_of_rows


def random_theta(kernel, rng, n_latents=Q, smallest=0.01, largest=30.0):
    def log_uniform(low, high, *shape):
        return np.exp(rng.uniform(np.log(low), np.log(high), size=shape))

    return {
        name: log_uniform(smallest, largest, n_latents) if name in witness.PER_LATENT else log_uniform(0.1, 5.0)
        for name in witness.PARAMETERS[kernel]
    }


def random_latents(rng, smallest=1e-6, largest=3.0, n_latents=Q):
    variance = np.exp(rng.uniform(np.log(smallest), np.log(largest), size=(N, n_latents)))
    return rng.normal(size=(N, n_latents)), variance, 1.5 * rng.normal(size=(M, n_latents))


def statistics(kernel, theta, mean, variance, Z):
    """psi0, psi1, psi2 and psi2 of every row of the library, from and to NumPy."""
    theta, *rows_and_points = jax.tree.map(jnp.asarray, (theta, mean, variance, Z))
    found = kernel.psi0(theta, *rows_and_points[:2]), kernel.psi1(theta, *rows_and_points)
    found += kernel.psi2(theta, *rows_and_points), kernel.psi2_of_rows(theta, *rows_and_points)
    return [np.asarray(value) for value in found]


def by_quadrature(value, diagonal, mean, variance, Z, grid, weights):
    """The statistics of any kernel, row by row, on a grid for the standard normal."""
    psi0, psi1, psi2 = [], [], []
    for mu, S in zip(mean, variance, strict=True):
        X = mu + np.sqrt(S) * grid
        k = value(X, Z)
        psi0.append(weights @ diagonal(X))
        psi1.append(weights @ k)
        psi2.append((weights[:, None] * k).T @ k)
    return np.array(psi0), np.array(psi1), sum(psi2), in_pairs(psi2)


def in_pairs(matrices):
    """Of every symmetric matrix its entries m <= m', row by row."""
    return np.array([[matrix[m, k] for m in range(len(matrix)) for k in range(m, len(matrix))] for matrix in matrices])


def in_paper(kernel, theta):
    """k and its diagonal, from the witness."""
    return (lambda X, Z: witness.covariance(kernel, theta, X, Z)), (lambda X: witness.prior_variance(kernel, theta, X))


def trapezoids(theta, variance):
    """A product grid on which sums of Gaussian bumps integrate to rounding error.

    The trapezoid rule converges as exp(-2 pi^2 (width/step)^2). Gauss-Hermite would need thousands of nodes where an
    ARD weight of 30 meets a variance of 3.
    """
    weights = theta.get("ard_weights", np.ones(variance.shape[1]))
    axes, densities = [], []
    for narrowest in 1.0 / np.sqrt(1.0 + 2.0 * weights * variance.max(axis=0)):
        t = np.arange(-9.0, 9.0, 0.6 * narrowest)
        axes.append(t)
        densities.append(0.6 * narrowest * np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi))
    return tuple(
        np.stack([part.ravel() for part in np.meshgrid(*parts, indexing="ij")], axis=1) for parts in (axes, densities)
    )


def assert_statistics(found, wanted, rtol=1e-9):
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


def check_against_quadrature(kernel, theta, mean, variance, Z):
    grid, densities = trapezoids(theta, variance)
    wanted = by_quadrature(*in_paper(kernel, theta), mean, variance, Z, grid, densities.prod(axis=1))
    assert_statistics(statistics(NAMED_KERNELS[kernel], theta, mean, variance, Z), wanted)


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_statistics_match_quadrature(kernel, seed):
    rng = np.random.default_rng(seed)
    check_against_quadrature(kernel, random_theta(kernel, rng), *random_latents(rng))


@pytest.mark.parametrize("variance", [1e-6, 3.0])
@pytest.mark.parametrize("weight", [0.01, 30.0])
@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_match_quadrature_at_the_extremes(kernel, weight, variance):
    rng = np.random.default_rng(1)
    mean, _, Z = random_latents(rng)
    theta = {
        name: np.full(Q, weight) if name in witness.PER_LATENT else value
        for name, value in random_theta(kernel, rng).items()
    }
    check_against_quadrature(kernel, theta, mean, np.full((N, Q), variance), Z)


@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_match_gauss_hermite_in_three_latents(kernel):
    rng = np.random.default_rng(2)
    theta = random_theta(kernel, rng, n_latents=3, smallest=0.05, largest=0.5)
    latents = random_latents(rng, largest=0.5, n_latents=3)
    wanted = by_quadrature(*in_paper(kernel, theta), *latents, *witness.normal_grid(24, 3))
    assert_statistics(statistics(NAMED_KERNELS[kernel], theta, *latents), wanted)


@pytest.mark.parametrize("kernel", KERNELS)
def test_statistics_match_sampling(kernel):
    rng = np.random.default_rng(3)
    theta, (mean, variance, Z) = random_theta(kernel, rng, largest=3.0), random_latents(rng, smallest=0.05)
    n_draws = 100_000
    X = mean + np.sqrt(variance) * rng.normal(size=(n_draws, N, Q))
    value, diagonal = in_paper(kernel, theta)
    k = value(X.reshape(-1, Q), Z).reshape(n_draws, N, M)
    squares = np.einsum("snm,snk->snmk", k, k)[..., *np.triu_indices(M)]
    sampled = diagonal(X.reshape(-1, Q)).reshape(n_draws, N), k, np.einsum("snm,snk->smk", k, k), squares
    for found, draws in zip(statistics(NAMED_KERNELS[kernel], theta, mean, variance, Z), sampled, strict=True):
        draws = np.ascontiguousarray(np.moveaxis(draws, 0, -1))  # NumPy adds up in pairs only along the last axis
        standard_error = draws.std(axis=-1) / np.sqrt(n_draws)
        assert (np.abs(found - draws.mean(axis=-1)) <= 5.0 * standard_error + 1e-12).all()


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_statistics_and_gradients_match_the_paper(kernel, seed):
    rng = np.random.default_rng(seed)
    mean, variance, Z = random_latents(rng, smallest=1e-3)
    at = {**random_theta(kernel, rng), "mean": mean, "variance": variance, "Z": Z}
    weights = random_weights(rng)

    def in_paper(at):
        rows = at["mean"], at["variance"]
        found = witness.prior_variance(kernel, at, *rows), witness.psi1(kernel, at, *rows, at["Z"])
        alone = [witness.psi2(kernel, at, *(part[[n]] for part in rows), at["Z"]) for n in range(N)]
        found += sum(alone), in_pairs(alone)
        return combined(found, weights)

    value, gradient = weighted_statistics(NAMED_KERNELS[kernel], jax.tree.map(jnp.asarray, at), weights)
    np.testing.assert_allclose(value, in_paper(at), rtol=1e-9)
    for name, wanted in witness.derivatives(in_paper, at).items():
        np.testing.assert_allclose(gradient[name], wanted, rtol=1e-8, atol=1e-10 * np.abs(wanted).max(), err_msg=name)


def random_weights(rng):
    return [rng.normal(size=shape) for shape in ((N,), (N, M), (M, M), (N, M * (M + 1) // 2))]


def combined(found, weights):
    """One number made of all statistics."""
    return sum((weight * value).sum() for weight, value in zip(weights, found, strict=True))


@partial(jax.jit, static_argnames="kernel")
def weighted_statistics(kernel, at, weights):
    """That number, and its gradient in everything."""

    def of_kernel(at):
        rows = at["mean"], at["variance"]
        found = kernel.psi0(at, *rows), kernel.psi1(at, *rows, at["Z"])
        found += kernel.psi2(at, *rows, at["Z"]), kernel.psi2_of_rows(at, *rows, at["Z"])
        return combined(found, weights)

    return jax.value_and_grad(of_kernel)(at)


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
    return kernel.psi2_of_rows(theta, mean, variance, Z), kernel.psi2(theta, mean, variance, Z)


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


@pytest.mark.parametrize("kernel", KERNELS)
def test_value_and_diagonal_match_the_paper(kernel):
    rng = np.random.default_rng(4)
    theta, (X, _, Z) = random_theta(kernel, rng), random_latents(rng)
    value, diagonal = in_paper(kernel, theta)
    ours = NAMED_KERNELS[kernel]
    theta = jax.tree.map(jnp.asarray, theta)
    np.testing.assert_allclose(ours.value(theta, jnp.asarray(X), jnp.asarray(Z)), value(X, Z), rtol=1e-13)
    np.testing.assert_allclose(ours.diagonal(theta, jnp.asarray(X)), diagonal(X), rtol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_slopes_are_those_of_the_values(kernel, seed):
    """Far from the origin too; the witness differentiates the values automatically."""
    rng = np.random.default_rng(seed)
    theta, kernel = random_theta(kernel, rng), NAMED_KERNELS[kernel]
    X, Z = 20.0 + rng.normal(size=(N, Q)), 20.0 + rng.normal(size=(M, Q))
    weights, directions = rng.normal(size=(M, 5)), rng.normal(size=(3, Q))
    at = jax.tree.map(jnp.asarray, (theta, X, Z, weights, directions))
    found, wanted = kernel.slopes(*at), Kernel.slopes(kernel, *at)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


def test_shapes_are_enforced_while_testing():
    rng = np.random.default_rng(10)
    theta, (mean, variance, Z) = jax.tree.map(jnp.asarray, (random_theta("rbf", rng), random_latents(rng)))
    with pytest.raises(TypeCheckError, match="variance"):
        RBF().psi1(theta, mean, variance[:, :1], Z)


def test_far_from_the_origin_no_digits_are_lost():
    rng = np.random.default_rng(5)
    theta, (mean, variance, Z) = random_theta("rbf", rng), random_latents(rng)
    here = statistics(RBF(), theta, mean, variance, Z)
    there = statistics(RBF(), theta, mean + 1024.0, variance, Z + 1024.0)
    assert_statistics(there, here)


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
