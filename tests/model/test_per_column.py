"""Noise and scale of every column: against the paper's equation for one column at a time, and the shared bound."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from jax.scipy.linalg import solve_triangular
from scipy.stats import multivariate_normal

from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import Model, elbo_terms, group_bounds
from dpgplvm.model.by_column import mean_weights
from dpgplvm.model.collapsed import column_bounds, factorise
from dpgplvm.model.kernels import NAMED_KERNELS, RBF
from dpgplvm.model.latents import Marginals
from dpgplvm.model.per_column import Columns, bounds_of_columns, diagonalise
from dpgplvm.model.posterior import inducing_weights
from dpgplvm.model.state import Free
from dpgplvm.model.statistics import Statistics
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

KERNELS = sorted(NAMED_KERNELS)
N, D, Q, M, T = 6, 5, 2, 4, 3
JITTER = 1e-6
seeds = st.integers(0, 2**32 - 1)


def random_group(seed, kernel="rbf"):
    """K and psi statistics of a group, from the witness, a table, and noise and scale of its columns."""
    rng = np.random.default_rng(seed)
    K, psi, _ = witness.random_group(kernel, rng, N, Q, M)
    columns = Columns(np.exp(rng.uniform(-2.0, 4.0, size=D)), np.exp(rng.uniform(-1.5, 1.5, size=D)))
    return K, psi, rng.normal(size=(N, D)), columns, rng


def as_statistics(psi, Y):
    psi0, psi1, psi2 = psi
    return jax.tree.map(jnp.asarray, Statistics(float(len(Y)), psi0, psi1.T @ Y, psi2, (Y**2).sum(axis=0)))


def as_arrays(K, columns, psi, Y):
    return jnp.asarray(K), jax.tree.map(jnp.asarray, columns), as_statistics(psi, Y)


def in_paper(K, beta, scale, psi, y):
    """The density of y is that of y / s, with a precision that is s^2 as large, divided by s for every row."""
    return witness.column_bound(K, beta * scale**2, *psi, y / scale) - len(y) * np.log(scale)


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


def column_by_column(K, columns, statistics):
    """Every column with factorisations of its own, for automatic differentiation."""
    n, psi0, psi1_y, psi2, y_squared = statistics
    L = jnp.linalg.cholesky(K)
    W = solve_triangular(L, solve_triangular(L, psi2, lower=True).T, lower=True)
    bounds = []
    for d in range(D):
        s = columns.scale[d]
        beta = columns.noise_precision[d] * s**2
        La = jnp.linalg.cholesky(jnp.eye(M) + beta * W)
        C = solve_triangular(La, solve_triangular(L, psi1_y[:, d] / s, lower=True), lower=True)
        F = 0.5 * n * jnp.log(beta / (2.0 * jnp.pi)) - jnp.log(jnp.diagonal(La)).sum() - n * jnp.log(s)
        bounds.append(F - 0.5 * beta * (psi0 - jnp.trace(W) + y_squared[d] / s**2) + 0.5 * beta**2 * (C**2).sum())
    return jnp.stack(bounds)


@jax.jit
def both_adjoints(K, columns, statistics, weights):
    ours, pull_back = jax.vjp(bounds_of_columns, K, columns, statistics)
    plain, plain_pull_back = jax.vjp(column_by_column, K, columns, statistics)
    return (ours, pull_back(weights)), (plain, plain_pull_back(weights))


def assert_same_adjoint(inputs, weights):
    ours, plain = both_adjoints(*inputs, jnp.asarray(weights))
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-10)
    for found, wanted in zip(jax.tree.leaves(ours[1]), jax.tree.leaves(plain[1]), strict=True):
        # Only symmetric changes of a symmetric matrix mean anything.
        wanted = 0.5 * (wanted + wanted.T) if wanted.shape == (M, M) else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9 * np.abs(wanted).max())


@given(seed=seeds)
def test_adjoint_matches_automatic_differentiation(seed):
    K, psi, Y, columns, rng = random_group(seed)
    assert_same_adjoint(as_arrays(K, columns, psi, Y), rng.normal(size=D))


def coinciding(rng, eigenvalues):
    """K and Psi2 that are diagonal in the same basis, with these eigenvalues of K^-1 Psi2, and what goes with them."""
    root = rng.normal(size=(M, M)) + 2.0 * np.eye(M)
    basis = np.linalg.qr(rng.normal(size=(M, M)))[0]
    white = basis * np.asarray(eigenvalues) @ basis.T
    psi1 = rng.normal(size=(N, M)) @ (0.3 * basis * np.sqrt(eigenvalues)).T @ root.T
    return root @ root.T, (float(np.sum(eigenvalues)) + 1.0, psi1, root @ white @ root.T)


@pytest.mark.parametrize(
    "eigenvalues",
    [(2.0, 2.0, 2.0, 2.0), (3.0, 3.0, 0.5, 0.5), (4.0, 1.0, 0.0, 0.0), (1.0, 1.0 + 1e-13, 1.0 - 1e-13, 0.2)],
    ids=["all", "pairs", "zeros", "nearly"],
)
def test_adjoint_where_eigenvalues_coincide(eigenvalues):
    """The derivative of an eigenvector does not exist there; that of the bound does."""
    _, _, Y, columns, rng = random_group(1)
    K, psi = coinciding(rng, eigenvalues)
    assert_same_adjoint(as_arrays(K, columns, psi, Y), rng.normal(size=D))


@pytest.mark.parametrize("eigenvalues", [None, (2.0, 2.0, 2.0, 2.0)], ids=["random", "coinciding"])
def test_adjoint_matches_derivatives_of_the_paper(eigenvalues):
    K, psi, Y, columns, rng = random_group(2)
    if eigenvalues is not None:
        K, psi = coinciding(rng, eigenvalues)
    weights = rng.normal(size=D)
    _, pull_back = jax.vjp(bounds_of_columns, *as_arrays(K, columns, psi, Y))
    d_K, d_columns, d_statistics = pull_back(jnp.asarray(weights))

    def total(at):
        psi = at["psi0"], at["psi1"], 0.5 * (at["psi2"] + at["psi2"].T)
        K = 0.5 * (at["K"] + at["K"].T)
        each = zip(at["noise"], at["scale"], Y.T, strict=True)
        return weights @ np.array([in_paper(K, beta, scale, psi, y) for beta, scale, y in each])

    at = dict(zip(("K", "noise", "scale", "psi0", "psi1", "psi2"), (K, *columns, *psi), strict=True))
    wanted = witness.derivatives(total, at)
    found = {
        "K": d_K,
        "noise": d_columns.noise_precision,
        "scale": d_columns.scale,
        "psi0": d_statistics.psi0,
        "psi1": Y @ d_statistics.psi1_y.T,  # the chain rule through Psi1'Y
        "psi2": d_statistics.psi2,
    }
    for name, value in found.items():
        size = np.abs(wanted[name]).max()
        np.testing.assert_allclose(value, wanted[name], rtol=1e-7, atol=1e-8 * size, err_msg=name)


def test_adjoint_matches_finite_differences_in_every_input():
    K, psi, Y, columns, rng = random_group(3)
    inputs = as_arrays(K, columns, psi, Y)
    weights = jnp.asarray(rng.normal(size=D))
    _, pull_back = jax.vjp(bounds_of_columns, *inputs)
    leaves, structure = jax.tree.flatten(inputs)
    bounds = jax.jit(bounds_of_columns)
    for i, slope in enumerate(jax.tree.leaves(pull_back(weights))):
        direction = rng.normal(size=leaves[i].shape)
        direction = direction + direction.T if leaves[i].shape == (M, M) else direction * np.abs(leaves[i])
        step = 1e-4 * float(jnp.abs(leaves[i]).max()) / np.abs(direction).max()

        def moved(share, i=i, direction=direction, step=step):
            changed = [*leaves[:i], leaves[i] + share * step * direction, *leaves[i + 1 :]]
            return weights @ bounds(*jax.tree.unflatten(structure, changed))

        differences = (8.0 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12.0 * step)
        np.testing.assert_allclose(jnp.vdot(slope, direction), differences, rtol=1e-5, err_msg=str(i))


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


def random_problem(seed, kernel):
    rng = np.random.default_rng(seed)
    n_inducing = Q if kernel == "linear" else 3  # more, and the linear kernel's K would be singular
    free = witness.random_free(kernel, rng, N, Q, n_inducing, T)
    free = Free(
        latents={name: jnp.asarray(free[name]) for name in ("mean", "log_variance")},
        inducing=jnp.asarray(free["inducing"]),
        log_theta={name: jnp.asarray(free[name]) for name in witness.PARAMETERS[kernel]},
        log_noise_precision=jnp.asarray(rng.uniform(-1.0, 2.0, size=D)),
        log_scale=jnp.asarray(rng.normal(scale=0.5, size=D)),
    )
    return free, rng.normal(size=(N, D))


@partial(jax.jit, static_argnames="model")
def bound_and_gradient(model, state, table):
    return jax.value_and_grad(lambda free: elbo_terms(model, replace(state, free=free), table).total)(state.free)


@pytest.mark.parametrize(("kernel", "held"), [*((kernel, False) for kernel in KERNELS), ("rbf", True)])
def test_gradient_of_the_objective_is_that_of_the_bound(kernel, held):
    model = Model(NAMED_KERNELS[kernel], jitter=JITTER)
    free, Y = random_problem(9, kernel)
    phi = np.random.default_rng(0).dirichlet(np.ones(T), size=D) if held else None
    evaluation = Objective(model, Y, phi).evaluate(free)
    value, gradient = bound_and_gradient(model, jax.tree.map(jnp.asarray, evaluation.state), Table(Y))
    np.testing.assert_allclose(evaluation.value, value, rtol=1e-11)
    assert jax.tree.structure(evaluation.gradient) == jax.tree.structure(gradient)
    for (path, found), wanted in zip(
        jax.tree_util.tree_leaves_with_path(evaluation.gradient), jax.tree.leaves(gradient), strict=True
    ):
        atol = 1e-8 * np.abs(wanted).max()
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=atol, err_msg=str(path))
        assert np.abs(found).max() > 0.0, path


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


def test_gradient_of_the_objective_matches_differences_of_the_profiled_value():
    """Envelope theorem: the assignments move as well, but add nothing to the slope."""
    model = Model(RBF(), jitter=JITTER)
    free, Y = random_problem(11, "rbf")
    rng = np.random.default_rng(1)
    # Every column listens a little to each group, or else nothing would move.
    nearly = {name: value[:1] + 0.1 * rng.normal(size=value.shape) for name, value in free.log_theta.items()}
    free = replace(free, log_theta=nearly)
    direction = jax.tree.map(lambda value: rng.normal(size=value.shape), free)
    objective, step = Objective(model, Y), 1e-3

    def evaluate(share):
        return objective.evaluate(jax.tree.map(lambda value, way: value + share * step * way, free, direction))

    here, one, minus_one, two, minus_two = (evaluate(share) for share in (0, 1, -1, 2, -2))
    assert np.abs(one.state.phi - here.state.phi).max() > 1e-5
    slope = sum(jax.tree.leaves(jax.tree.map(np.vdot, here.gradient, direction)))
    differences = (8.0 * (one.value - minus_one.value) - (two.value - minus_two.value)) / (12.0 * step)
    np.testing.assert_allclose(slope, differences, rtol=1e-6)


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
