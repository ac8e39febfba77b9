"""Posterior means against dense algebra, and relevance against Sobol indices that are known."""

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

from dpgplvm.model import sticks as dp
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS, Kernel, Parameter
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import inducing_weights, mean_at
from dpgplvm.model.relevance import relevance, spread_of_latents
from dpgplvm.model.state import Free, State
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

N, D, Q, T = 8, 3, 2, 2
N_INDUCING = {"linear": Q, "rbf": 4, "rbf+linear": 4}
JITTER = 1e-6
ERROR = 0.02  # what relevance promises, twice over


compiled_weights = partial(jax.jit, static_argnames="model")(inducing_weights)
compiled_relevance = partial(jax.jit, static_argnames="model")(
    lambda model, state, table: relevance(model, state, inducing_weights(model, state, table))
)
compiled_mean = partial(jax.jit, static_argnames="model")(mean_at)


def random_point(seed, kernel):
    rng = np.random.default_rng(seed)
    free = witness.random_free(kernel, rng, N, Q, N_INDUCING[kernel], T)
    return free, rng.dirichlet(np.ones(T), size=D), rng.normal(size=(N, D))


def as_state(free, phi, names):
    free = jax.tree.map(jnp.asarray, free)
    latents = {"mean": free["mean"], "log_variance": free["log_variance"]}
    log_theta = {name: free[name] for name in names}
    sticks = dp.prior_sticks(T, dp.Concentration())
    return State(Free(latents, free["inducing"], log_theta, free["log_noise_precision"]), jnp.asarray(phi), sticks)


def relevance_of(kernel, free, phi, Y):
    found = compiled_relevance(Model(NAMED_KERNELS[kernel]), as_state(free, phi, witness.PARAMETERS[kernel]), Table(Y))
    return np.asarray(found.total), np.asarray(found.linear)


def dense_weights(kernel, free, Y):
    """beta (K + beta Psi2)^-1 Psi1'Y of every group."""
    S, Z = np.exp(free["log_variance"]), free["inducing"]
    weights = []
    for t in range(T):
        theta, beta = theta_of(kernel, free, t), np.exp(free["log_noise_precision"][t])
        K = witness.covariance(kernel, theta, Z, Z)
        K = K + JITTER * np.trace(K) / len(Z) * np.eye(len(Z))
        psi1, psi2 = (psi(kernel, theta, free["mean"], S, Z) for psi in (witness.psi1, witness.psi2))
        weights.append(beta * np.linalg.solve(K + beta * psi2, psi1.T @ Y))
    return np.array(weights)


def theta_of(kernel, free, t):
    return {name: np.exp(free[name][t]) for name in witness.PARAMETERS[kernel]}


def dense_mean(kernel, free, phi, Y, X):
    """sum_t phi[d,t] k_t(X, Z) w_t."""
    weights = dense_weights(kernel, free, Y)
    values = [witness.covariance(kernel, theta_of(kernel, free, t), X, free["inducing"]) for t in range(T)]
    return sum(phi[:, t] * (values[t] @ weights[t]) for t in range(T))


def spread(free):
    """Every row is a Gaussian, and the rows are equally likely: mean and standard deviation of the mixture."""
    mean, second = free["mean"].mean(axis=0), (free["mean"] ** 2 + np.exp(free["log_variance"])).mean(axis=0)
    return mean, np.sqrt(second - mean**2)


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
@given(seed=st.integers(0, 2**32 - 1))
def test_posterior_means_match_dense_algebra(kernel, seed):
    free, phi, Y = random_point(seed, kernel)
    model, state = Model(NAMED_KERNELS[kernel], jitter=JITTER), as_state(free, phi, witness.PARAMETERS[kernel])
    weights = compiled_weights(model, state, Table(Y))
    wanted = dense_weights(kernel, free, Y)
    np.testing.assert_allclose(weights, wanted, rtol=1e-6, atol=1e-7 * np.abs(wanted).max())
    X = np.random.default_rng(seed).normal(size=(5, Q))
    wanted = dense_mean(kernel, free, phi, Y, X)
    np.testing.assert_allclose(compiled_mean(model, state, weights, X), wanted, rtol=1e-7, atol=1e-8 * np.abs(Y).max())


def test_spread_counts_the_rows_and_their_uncertainty():
    free, _, _ = random_point(0, "rbf")
    found = spread_of_latents(Marginals(jnp.asarray(free["mean"]), jnp.exp(jnp.asarray(free["log_variance"]))))
    for ours, theirs in zip(found, spread(free), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_linear_functions_have_the_shares_of_their_slopes(seed):
    free, phi, Y = random_point(seed, "linear")
    # A linear function is known from its values at the corners.
    slopes = dense_mean("linear", free, phi, Y, np.eye(Q))
    variances = (slopes * spread(free)[1][:, None]).T ** 2
    wanted = variances / variances.sum(axis=1, keepdims=True)
    total, linear = relevance_of("linear", free, phi, Y)
    np.testing.assert_allclose(total, wanted, atol=ERROR)
    np.testing.assert_allclose(linear, wanted, atol=ERROR)


def sobol_by_quadrature(function, centre, scale, n_nodes=80):
    """Total effects and linear parts of a function of two independent normals, on a product grid."""
    points, weights = witness.normal_grid(n_nodes, 2)
    f = function(centre + scale * points).reshape(n_nodes, n_nodes, -1)
    axis = weights.reshape(n_nodes, n_nodes).sum(axis=1)
    nodes = points.reshape(n_nodes, n_nodes, 2)[:, 0, 0]
    mean = np.einsum("i,j,ijd->d", axis, axis, f)
    variance = np.einsum("i,j,ijd->d", axis, axis, (f - mean) ** 2)
    total, linear = [], []
    for along in (0, 1):
        f_along = np.moveaxis(f, along, 0)
        given_others = f_along - np.einsum("i,ijd->jd", axis, f_along)
        total.append(np.einsum("i,j,ijd->d", axis, axis, given_others**2) / variance)
        linear.append(np.einsum("i,j,ijd->d", axis * nodes, axis, f_along) ** 2 / variance)
    return np.array(total).T, np.array(linear).T


@pytest.mark.parametrize("kernel", ["rbf", "rbf+linear"])
@given(seed=st.integers(0, 2**32 - 1))
def test_curved_functions_have_their_sobol_indices(kernel, seed):
    free, phi, Y = random_point(seed, kernel)
    wanted = sobol_by_quadrature(partial(dense_mean, kernel, free, phi, Y), *spread(free))
    for ours, theirs in zip(relevance_of(kernel, free, phi, Y), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=ERROR)


@dataclass(frozen=True)
class Product(Kernel):
    """A kernel with one function: the product of the first two latents."""

    parameters = {"signal_variance": Parameter(per_latent=False, role="scale")}

    def value(self, theta, X, Z):
        return theta["signal_variance"] * self._product(X)[:, None] * self._product(Z)[None]

    def diagonal(self, theta, X):
        return theta["signal_variance"] * self._product(X) ** 2

    def _product(self, X):
        return X[:, 0] * X[:, 1]


@pytest.mark.parametrize(("n_latents", "centre"), [(2, 0.0), (2, (1.5, -0.4)), (5, 0.0)])
def test_a_product_is_shared_by_both_latents(n_latents, centre):
    rng = np.random.default_rng(1)
    free = witness.random_free("rbf", rng, N, n_latents, 4, T)
    free["mean"] = free["mean"] - free["mean"].mean(axis=0) + centre
    state = as_state(free, rng.dirichlet(np.ones(T), size=D), ["signal_variance"])
    found = compiled_relevance(Model(Product()), state, Table(rng.normal(size=(N, D))))
    m, s = (part[:2] for part in spread(free))
    variance = np.prod(m**2 + s**2) - np.prod(m**2)
    wanted = s**2 * (m**2 + s**2)[::-1] / variance  # E[Var(x1 x2 | x2)] = s1^2 E[x2^2]
    np.testing.assert_allclose(found.total[:, :2], np.tile(wanted, (D, 1)), atol=ERROR)
    np.testing.assert_allclose(found.linear[:, :2], np.tile((s * m[::-1]) ** 2 / variance, (D, 1)), atol=ERROR)
    np.testing.assert_allclose(found.total[:, 2:], 0.0, atol=1e-4)


@pytest.mark.parametrize("kernel", ["rbf", "rbf+linear"])
def test_a_latent_that_is_ignored_has_no_relevance(kernel):
    free, phi, Y = random_point(2, kernel)
    for name in set(witness.PARAMETERS[kernel]) & set(witness.PER_LATENT):
        free[name][:, 1] = np.log(1e-14)
    total, _ = relevance_of(kernel, free, phi, Y)
    np.testing.assert_allclose(total[:, 0], 1.0, atol=ERROR)
    np.testing.assert_allclose(total[:, 1], 0.0, atol=1e-4)  # the sampled slope along it is not quite zero


def test_a_column_that_is_all_noise_has_no_relevance():
    free, phi, Y = random_point(3, "rbf")
    Y[:, 0] = 0.0
    free["signal_variance"][1] = np.log(1e-9)
    phi[1] = [0.0, 1.0]
    for part in relevance_of("rbf", free, phi, Y):
        np.testing.assert_array_equal(part[:2], 0.0)
        assert (part[2] > 0.0).all()


@given(seed=st.integers(0, 2**32 - 1))
def test_the_linear_part_is_never_more_than_the_whole(seed):
    total, linear = relevance_of("rbf+linear", *random_point(seed, "rbf+linear"))
    assert (linear >= 0.0).all()
    assert (linear <= total).all()
    assert (total <= 1.0).all()
