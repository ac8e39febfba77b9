"""Noise and scale of every column: against the paper's equation for one column at a time, and the shared bound."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from adjoints import as_statistics
from hypothesis import given
from per_column_problems import (
    JITTER,
    KERNELS,
    D,
    M,
    N,
    Q,
    T,
    as_arrays,
    in_paper,
    random_group,
    random_problem,
    seeds,
)
from scipy.stats import multivariate_normal

from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import Model, group_bounds
from dpgplvm.model.by_column import mean_weights
from dpgplvm.model.collapsed import column_bounds, factorise
from dpgplvm.model.kernels import NAMED_KERNELS, RBF
from dpgplvm.model.latents import Marginals
from dpgplvm.model.per_column import Columns, bounds_of_columns, diagonalise
from dpgplvm.model.posterior import inducing_weights
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_bounds_match_the_paper_column_by_column(kernel, seed):
    K, psi, Y, columns, _ = random_group(seed, kernel)
    found = bounds_of_columns(*as_arrays(K, columns, psi, Y))
    wanted = [in_paper(K, beta, scale, psi, y) for beta, scale, y in zip(*columns, Y.T, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_a_scale_is_a_signal_variance(kernel, seed):
    """s f with f of covariance k is a function of covariance s^2 k: psi1 grows with s^2, psi2 with s^4."""
    K, (psi0, psi1, psi2), Y, columns, _ = random_group(seed, kernel)
    found = bounds_of_columns(*as_arrays(K, columns, (psi0, psi1, psi2), Y))
    wanted = [
        witness.column_bound(s**2 * K, beta, s**2 * psi0, s**2 * psi1, s**4 * psi2, y)
        for beta, s, y in zip(*columns, Y.T, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_with_one_noise_for_all_it_is_the_shared_bound(kernel, seed):
    K, psi, Y, (noise, _), _ = random_group(seed, kernel)
    K, columns, statistics = as_arrays(K, Columns(np.full(D, noise[0]), np.ones(D)), psi, Y)
    shared = column_bounds(K, jnp.asarray(noise[0]), statistics)
    np.testing.assert_allclose(bounds_of_columns(K, columns, statistics), shared, rtol=1e-10)


def test_the_spectrum_is_what_it_says():
    K, psi, Y, _, _ = random_group(4)
    spectrum = diagonalise(jnp.asarray(K), as_statistics(psi, Y))
    np.testing.assert_allclose(spectrum.whiten @ K @ spectrum.whiten.T, np.eye(M), atol=1e-11)
    white = spectrum.whiten @ psi[2] @ spectrum.whiten.T
    np.testing.assert_allclose(white, np.diag(spectrum.eigenvalues), atol=1e-10 * np.abs(white).max())
    np.testing.assert_allclose(spectrum.projected, spectrum.whiten @ psi[1].T @ Y, rtol=1e-10)


@jax.jit
def mean_weights_of_columns(K, columns, statistics):
    """Of y itself, as `posterior` does it."""
    noise, scale = columns
    return mean_weights(K, noise * scale**2, statistics, None)


@given(seed=seeds)
def test_mean_weights_match_a_direct_solve(seed):
    K, (psi0, psi1, psi2), Y, columns, _ = random_group(seed)
    found = mean_weights_of_columns(*as_arrays(K, columns, (psi0, psi1, psi2), Y))
    wanted = []
    for beta, s, y in zip(*columns, Y.T, strict=True):
        of_f = np.linalg.solve(K + beta * s**2 * psi2, beta * s * psi1.T @ y)  # y = s f + noise
        wanted.append(s * of_f)
    wanted = np.array(wanted).T
    np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-8 * np.abs(wanted).max())


def test_with_one_noise_for_all_the_mean_weights_are_shared():
    K, psi, Y, _, _ = random_group(5)
    statistics = as_statistics(psi, Y)
    columns = Columns(jnp.full(D, 3.0), jnp.ones(D))
    found = mean_weights_of_columns(jnp.asarray(K), columns, statistics)
    factors = factorise(jnp.asarray(K), jnp.asarray(3.0), statistics)
    shared = 3.0 * factors.whiten.T @ (factors.whiten_posterior.T @ factors.projected)
    np.testing.assert_allclose(found, shared, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_with_certain_latents_as_inducing_points_the_bound_is_exact(kernel):
    rng = np.random.default_rng(6)
    theta = {name: np.exp(values[0]) for name, values in witness.random_free(kernel, rng, N, Q, N, T=1).items()}
    X, Y = rng.normal(size=(N, Q)), rng.normal(size=(N, D))
    columns = Columns(rng.uniform(0.5, 5.0, size=D), rng.uniform(0.5, 2.0, size=D))
    marginals = Marginals(jnp.asarray(X), jnp.full((N, Q), 1e-14))
    model = Model(NAMED_KERNELS[kernel], jitter=1e-11)
    arguments = jax.tree.map(jnp.asarray, (theta, columns))
    inducing = jnp.asarray(X[: NAMED_KERNELS[kernel].rank(Q)])  # more would make the linear kernel's K singular
    found = group_bounds(model, *arguments, marginals, inducing, Table(Y))
    K = witness.covariance(kernel, theta, X, X)
    wanted = [
        multivariate_normal.logpdf(y, cov=s**2 * K + np.eye(N) / beta) for beta, s, y in zip(*columns, Y.T, strict=True)
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_covariance_that_is_not_positive_definite_gives_not_a_number():
    _, psi, Y, columns, _ = random_group(7)
    assert np.isnan(bounds_of_columns(*as_arrays(-np.eye(M), columns, psi, Y))).all()


with_and_without_gaps = pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])


@with_and_without_gaps
def test_what_only_rounding_can_say_is_not_a_number(gaps):
    """That a column is explained by more than there is of it, or that its function varies less than not at all."""
    K, psi, Y, columns, _ = random_group(13)
    K, columns, statistics = as_arrays(K, columns, psi, Y)
    pattern = None
    if gaps:
        pattern = jnp.zeros(D, dtype=int)
        of_patterns = {name: getattr(statistics, name)[None] for name in ("n_rows", "psi0", "psi2")}
        statistics = statistics._replace(**of_patterns)
    too_little = statistics._replace(y_squared=statistics.y_squared.at[1].set(0.0))
    certain = statistics._replace(psi0=0.0 * statistics.psi0)
    assert np.isfinite(bounds_of_columns(K, columns, statistics, pattern)).all()
    np.testing.assert_array_equal(np.isnan(bounds_of_columns(K, columns, too_little, pattern)), np.arange(D) == 1)
    assert np.isnan(bounds_of_columns(K, columns, certain, pattern)).all()


@with_and_without_gaps
def test_at_absurd_precisions_a_bound_is_small_or_not_a_number(gaps):
    """A smooth kernel with hardly any jitter: rounding in Psi2 is multiplied by 1e13 and more, and then by beta."""
    rng = np.random.default_rng(8)
    n_rows, n_inducing = 30, 20
    X, Z = rng.normal(size=(n_rows, Q)), rng.normal(size=(n_inducing, Q))
    Y = np.sin(X @ rng.normal(size=(Q, D)))
    if gaps:
        Y[0, 0] = np.nan
    marginals = Marginals(jnp.asarray(X), jnp.full((n_rows, Q), 1e-6))
    theta = {"ard_weights": jnp.full(Q, 0.05), "signal_variance": jnp.asarray(1.0)}
    bounds = partial(jax.jit, static_argnums=0)(group_bounds)
    found = {}
    for jitter in (1e-15, 1e-13, 1e-11, 1e-6):
        for log_precision in (2.0, 20.0, 40.0, 80.0, 160.0):
            columns = Columns(jnp.full(D, np.exp(log_precision)), jnp.ones(D))
            F = np.asarray(bounds(Model(RBF()), theta, columns, marginals, jnp.asarray(Z), Table.of(Y), jitter))
            # The noise alone can put no more on a row than log beta / 2.
            assert (np.isnan(F) | (0.5 * n_rows * log_precision > F)).all(), (jitter, log_precision, F)
            found[jitter, log_precision] = F
    assert np.isnan(found[1e-15, 160.0]).any()
    assert np.isfinite(found[1e-6, 2.0]).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_bound_of_a_state_is_the_papers_column_by_column(kernel):
    model = Model(NAMED_KERNELS[kernel], jitter=JITTER)
    free, Y = random_problem(10, kernel)
    evaluation = Objective(model, Y).evaluate(free)
    mean, S, Z = free.latents["mean"], np.exp(free.latents["log_variance"]), np.asarray(free.inducing)
    scale = np.exp(np.asarray(free.log_scale))
    noise = np.exp(np.asarray(free.log_noise_precision))
    for t in range(T):
        theta = {name: np.exp(np.asarray(values[t])) for name, values in free.log_theta.items()}
        wanted = [
            witness.group_bounds(kernel, theta, noise[d] * s**2, np.asarray(mean), S, Z, Y[:, [d]] / s, JITTER)[0]
            - N * np.log(s)
            for d, s in enumerate(scale)
        ]
        np.testing.assert_allclose(evaluation.bounds[:, t], wanted, rtol=1e-8)


def test_weights_of_a_state_are_those_of_its_columns():
    model = Model(RBF(), jitter=JITTER)
    free, Y = random_problem(12, "rbf")
    state = jax.tree.map(jnp.asarray, Objective(model, Y, np.full((D, T), 1.0 / T)).evaluate(free).state)
    found = inducing_weights(model, state, Table(jnp.asarray(Y)))
    mean, S, Z = np.asarray(free.latents["mean"]), np.exp(free.latents["log_variance"]), np.asarray(free.inducing)
    for t in range(T):
        theta = {name: np.exp(np.asarray(values[t])) for name, values in free.log_theta.items()}
        K = witness.covariance("rbf", theta, Z, Z)
        K = K + JITTER * np.trace(K) / len(Z) * np.eye(len(Z))
        psi1, psi2 = (psi("rbf", theta, mean, S, Z) for psi in (witness.psi1, witness.psi2))
        for d in range(D):
            beta = np.exp(float(free.log_noise_precision[d] + 2.0 * free.log_scale[d]))
            wanted = beta * np.linalg.solve(K + beta * psi2, psi1.T @ Y[:, d])
            np.testing.assert_allclose(found[t, :, d], wanted, rtol=1e-6, atol=1e-7 * np.abs(wanted).max())
