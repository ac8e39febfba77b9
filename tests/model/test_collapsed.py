"""The collapsed bound of a group: against the paper's equation, exact Gaussian processes, and extended precision."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from adjoints import as_statistics, assert_adjoint_matches_differences, assert_derivatives, in_names_of_the_paper
from hypothesis import given
from hypothesis import strategies as st
from jax.scipy.linalg import solve_triangular
from scipy.stats import multivariate_normal

from dpgplvm.model.bound import Model, group_bounds
from dpgplvm.model.by_column import mean_weights
from dpgplvm.model.collapsed import column_bounds, factorise
from dpgplvm.model.kernels import NAMED_KERNELS, RBF
from dpgplvm.model.latents import Marginals
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

KERNELS = sorted(NAMED_KERNELS)
N, D, Q, M = 6, 3, 2, 4
seeds = st.integers(0, 2**32 - 1)


def random_group(seed, kernel="rbf"):
    """K, beta and psi statistics of a group, from the witness, and a table."""
    rng = np.random.default_rng(seed)
    K, psi, free = witness.random_group(kernel, rng, N, Q, M)
    return K, np.exp(free["log_noise_precision"][0]), psi, rng.normal(size=(N, D)), rng


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_bounds_match_the_paper(kernel, seed):
    K, beta, psi, Y, _ = random_group(seed, kernel)
    found = column_bounds(jnp.asarray(K), jnp.asarray(beta), as_statistics(psi, Y))
    np.testing.assert_allclose(found, [witness.column_bound(K, beta, *psi, y) for y in Y.T], rtol=1e-9)


def through_cholesky(K, beta, statistics):
    """Appendix B's last line, for automatic differentiation."""
    n, psi0, psi1_y, psi2, y_squared = statistics
    L = jnp.linalg.cholesky(K)
    W = solve_triangular(L, solve_triangular(L, psi2, lower=True).T, lower=True)
    La = jnp.linalg.cholesky(jnp.eye(K.shape[0]) + beta * W)
    C = solve_triangular(La, solve_triangular(L, psi1_y, lower=True), lower=True)
    shared = 0.5 * n * jnp.log(beta / (2.0 * jnp.pi)) - jnp.log(jnp.diagonal(La)).sum()
    shared = shared - 0.5 * beta * (psi0 - jnp.trace(W))
    return shared - 0.5 * beta * y_squared + 0.5 * beta**2 * (C**2).sum(axis=0)


@jax.jit
def both_adjoints(K, beta, statistics, weights):
    ours, pull_back = jax.vjp(column_bounds, K, beta, statistics)
    plain, plain_pull_back = jax.vjp(through_cholesky, K, beta, statistics)
    return (ours, pull_back(weights)), (plain, plain_pull_back(weights))


@given(seed=seeds)
def test_adjoint_matches_automatic_differentiation(seed):
    K, beta, psi, Y, rng = random_group(seed)
    weights = jnp.asarray(rng.random(D))
    ours, plain = both_adjoints(jnp.asarray(K), jnp.asarray(beta), as_statistics(psi, Y), weights)
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-10)
    for found, wanted in zip(jax.tree.leaves(ours[1]), jax.tree.leaves(plain[1]), strict=True):
        # Only symmetric changes of a symmetric matrix mean anything.
        wanted = 0.5 * (wanted + wanted.T) if wanted.shape == (M, M) else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9 * np.abs(wanted).max())


@given(seed=seeds)
def test_adjoint_matches_derivatives_of_the_paper(seed):
    K, beta, psi, Y, rng = random_group(seed)
    weights = rng.normal(size=D)
    _, pull_back = jax.vjp(column_bounds, jnp.asarray(K), jnp.asarray(beta), as_statistics(psi, Y))
    d_K, d_beta, d_statistics = pull_back(jnp.asarray(weights))

    def in_paper(at):
        psi = at["psi0"], at["psi1"], 0.5 * (at["psi2"] + at["psi2"].T)
        bounds = [witness.column_bound(0.5 * (at["K"] + at["K"].T), at["beta"], *psi, y) for y in Y.T]
        return weights @ np.array(bounds)

    at = dict(zip(("K", "beta", "psi0", "psi1", "psi2"), (K, beta, *psi), strict=True))
    wanted = witness.derivatives(in_paper, at)
    found = {
        "K": d_K,
        "beta": d_beta,
        **in_names_of_the_paper(d_statistics, Y),
    }
    assert_derivatives(found, wanted)


def test_adjoint_matches_finite_differences_in_every_input():
    K, beta, psi, Y, rng = random_group(1)
    assert_adjoint_matches_differences(column_bounds, (jnp.asarray(K), jnp.asarray(beta), as_statistics(psi, Y)), rng)


def test_factors_are_what_they_say():
    K, beta, psi, Y, _ = random_group(2)
    statistics = as_statistics(psi, Y)
    factors = factorise(jnp.asarray(K), jnp.asarray(beta), statistics)
    posterior = np.linalg.inv(K + beta * psi[2])
    np.testing.assert_allclose(factors.whiten @ K @ factors.whiten.T, np.eye(M), atol=1e-11)
    root = factors.whiten_posterior @ factors.whiten
    np.testing.assert_allclose(root.T @ root, posterior, rtol=1e-8, atol=1e-10)
    weights = beta * posterior @ psi[1].T @ Y
    found = mean_weights(jnp.asarray(K), jnp.full(D, beta), statistics, None)
    np.testing.assert_allclose(found, weights, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(beta * root.T @ factors.projected, weights, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(
        2.0 * factors.log_determinant, np.linalg.slogdet(np.eye(M) + beta * np.linalg.inv(K) @ psi[2])[1], rtol=1e-9
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_certain_latents_as_inducing_points_the_bound_is_exact(kernel):
    rng = np.random.default_rng(3)
    theta = {name: np.exp(values[0]) for name, values in witness.random_free(kernel, rng, N, Q, N, T=1).items()}
    X, Y, beta = rng.normal(size=(N, Q)), rng.normal(size=(N, D)), 3.0
    marginals = Marginals(jnp.asarray(X), jnp.full((N, Q), 1e-14))
    model = Model(NAMED_KERNELS[kernel], jitter=1e-11)
    found = group_bounds(
        model, jax.tree.map(jnp.asarray, theta), jnp.asarray(beta), marginals, jnp.asarray(X), Table(Y)
    )
    K = witness.covariance(kernel, theta, X, X) + np.eye(N) / beta
    np.testing.assert_allclose(found, [multivariate_normal.logpdf(y, cov=K) for y in Y.T], rtol=1e-6)


def test_a_covariance_that_is_not_positive_definite_gives_not_a_number():
    _, beta, psi, Y, _ = random_group(4)
    found = column_bounds(-jnp.eye(M), jnp.asarray(beta), as_statistics(psi, Y))
    assert np.isnan(found).all()


def bounds_in_extended_precision(at, Y, jitter):
    """F of every column for an RBF kernel, in 80-bit complex numbers and by textbook Cholesky."""
    at = {name: np.asarray(value, dtype=np.clongdouble) for name, value in at.items()}
    Y = Y.astype(np.longdouble)
    Z, mu, S, beta = at["Z"], at["mean"], at["variance"], at["beta"]
    K = witness.covariance("rbf", at, Z, Z)
    K = K + jitter * at["signal_variance"] * np.eye(len(Z))
    psi1, psi2 = (function("rbf", at, mu, S, Z) for function in (witness.psi1, witness.psi2))
    L = cholesky(K)
    La = cholesky(K + beta * psi2)
    half = forward_substitution(La, psi1.T @ Y)
    white = forward_substitution(L, forward_substitution(L, psi2).T)
    shared = len(Y) / np.longdouble(2) * np.log(beta / (2 * np.longdouble(np.pi)))
    shared = shared + np.log(np.diagonal(L)).sum() - np.log(np.diagonal(La)).sum()
    shared = shared - beta * (len(mu) * at["signal_variance"] - np.trace(white)) / 2
    return shared - beta * (Y**2).sum(axis=0) / 2 + beta**2 * (half**2).sum(axis=0) / 2


def cholesky(A):
    L = np.zeros_like(A)
    for j in range(len(A)):
        L[j, j] = np.sqrt(A[j, j] - (L[j, :j] ** 2).sum())
        for i in range(j + 1, len(A)):
            L[i, j] = (A[i, j] - (L[i, :j] * L[j, :j]).sum()) / L[j, j]
    return L


def forward_substitution(L, B):
    X = np.zeros(B.shape, dtype=L.dtype)
    for i in range(len(L)):
        X[i] = (B[i] - L[i, :i] @ X[:i]) / L[i, i]
    return X


def smooth_problem(weight):
    rng = np.random.default_rng(5)
    n_rows, n_inducing = 12, 10
    X = rng.normal(size=(n_rows, Q))
    at = {
        "ard_weights": np.full(Q, weight),
        "signal_variance": np.array(1.3),
        "beta": np.array(100.0),
        "mean": X,
        "variance": np.full((n_rows, Q), 0.05),
        "Z": rng.normal(size=(n_inducing, Q)),
    }
    Y = np.stack([X[:, 0], X[:, 0] * X[:, 1], np.sin(X[:, 1])], axis=1) + 0.1 * rng.normal(size=(n_rows, D))
    return at, Y, Model(RBF())


@partial(jax.jit, static_argnames="model")
def bound_and_gradient(model, at, table):
    def total(at):
        return group_bounds(model, at, at["beta"], Marginals(at["mean"], at["variance"]), at["Z"], table).sum()

    return jax.value_and_grad(total)(at)


def without_gaps(Y):
    return Table(Y)


def as_if_with_gaps(Y):
    """One pattern in which nothing is missing: every column has a factorisation of its own."""
    return Table(Y, np.ones((len(Y), 1)), np.zeros(Y.shape[1], dtype=int))


both_ways = pytest.mark.parametrize("as_table", [without_gaps, as_if_with_gaps])


# 1e-6 of the variance is added to K, so that rounding in Psi2 is multiplied by a million: eight digits are left.
@both_ways
@pytest.mark.parametrize("weight", [0.01, 0.25])
def test_smooth_kernels_keep_their_digits(weight, as_table):
    at, Y, model = smooth_problem(weight)
    value, _ = bound_and_gradient(model, jax.tree.map(jnp.asarray, at), as_table(Y))
    np.testing.assert_allclose(
        float(value), float(bounds_in_extended_precision(at, Y, model.jitter).sum().real), rtol=1e-9
    )


@both_ways
@pytest.mark.parametrize("weight", [0.01, 0.25])
def test_smooth_kernels_keep_the_digits_of_their_gradient(weight, as_table):
    at, Y, model = smooth_problem(weight)
    _, gradient = bound_and_gradient(model, jax.tree.map(jnp.asarray, at), as_table(Y))
    wanted = derivatives_in_extended_precision(at, Y, model.jitter)
    for name, value in wanted.items():
        tolerance = 1e-5 * max(1.0, np.abs(value).max())
        np.testing.assert_allclose(gradient[name], value, rtol=0, atol=tolerance, err_msg=name)


def derivatives_in_extended_precision(at, Y, jitter):
    gradient = {}
    for name, value in at.items():
        gradient[name] = np.zeros(value.shape)
        for index in np.ndindex(value.shape):
            moved = np.array(value, dtype=np.clongdouble)
            moved[index] += 1e-30j
            gradient[name][index] = bounds_in_extended_precision({**at, name: moved}, Y, jitter).sum().imag / 1e-30
    return gradient
