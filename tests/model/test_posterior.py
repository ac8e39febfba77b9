"""The functions of the columns, with gaps and without, against dense algebra with each column's own rows."""

from __future__ import annotations

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
from dpgplvm.model.kernels import NAMED_KERNELS, RBF
from dpgplvm.model.latents import Marginals
from dpgplvm.model.per_column import Columns
from dpgplvm.model.posterior import (
    diagonal_functions,
    functions,
    inducing_weights,
    mean_at,
    moments_at,
    moments_at_points,
)
from dpgplvm.model.state import Free, State
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

KERNELS = sorted(NAMED_KERNELS)
N, D, Q, T = 7, 4, 2, 2
N_INDUCING = {"linear": Q, "rbf": 4, "rbf+linear": 4}  # more than Q, and the linear kernel's K would be singular
JITTER = 1e-3
seeds = st.integers(0, 2**32 - 1)
noises = pytest.mark.parametrize("noise", ["group", "column"])
with_and_without_gaps = pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])


def random_problem(seed, kernel="rbf", noise="group", gaps=True):
    rng = np.random.default_rng(seed)
    free = witness.random_free(kernel, rng, N, Q, N_INDUCING[kernel], T)
    if noise == "column":
        free |= {"log_noise_precision": rng.uniform(-1.0, 3.0, size=D), "log_scale": rng.normal(scale=0.5, size=D)}
    Y = rng.normal(size=(N, D))
    if gaps:
        # Always three patterns, so that what is compiled serves every seed: two columns share theirs, one has no gaps.
        Y[rng.permutation(N)[:2], :2] = np.nan
        Y[rng.permutation(N)[:4], 2] = np.nan
    return free, Y


# Compiling is what takes the time here.
quickly = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def moments(kernel, free, Y, rows, block=None):
    """E[f] and Var[f], each [T, S, D], of the library, for uncertain latents or at points."""
    of_groups = [_moments(kernel, *group_of(kernel, free, t), Table.of(Y), rows, block) for t in range(T)]
    return [np.stack(parts) for parts in zip(*of_groups, strict=True)]


@partial(quickly, static_argnames=("kernel", "block"))
def _moments(kernel, theta, noise, marginals, Z, table, rows, block):
    model = Model(NAMED_KERNELS[kernel], jitter=JITTER)
    diagonal = diagonal_functions(model, theta, noise, marginals, Z, table, block)
    if isinstance(rows, Marginals):
        return moments_at(model, theta, Z, functions(model, theta, Z, diagonal), rows)
    return moments_at_points(model, theta, Z, diagonal, rows)


def group_of(kernel, free, t):
    """What the library asks of a group: its hyperparameters, noise, and what groups share."""
    noise = np.exp(free["log_noise_precision"])
    noise = Columns(noise, np.exp(free["log_scale"])) if "log_scale" in free else noise[t]
    return theta_of(kernel, free, t), noise, Marginals(free["mean"], np.exp(free["log_variance"])), free["inducing"]


def theta_of(kernel, free, t):
    return {name: np.exp(free[name][t]) for name in witness.PARAMETERS[kernel]}


def dense_posterior(K, beta, psi1, psi2, y):
    """beta (K + beta Psi2)^-1 Psi1'y, and K^-1 - (K + beta Psi2)^-1."""
    left = np.linalg.inv(K + beta * psi2)
    return beta * left @ psi1.T @ y, np.linalg.inv(K) - left


def dense_functions(kernel, free, Y):
    """Of every group and column theta and, of s f, the prior's s^2, the mean's weights and the shrinkage."""
    Z, noise = free["inducing"], np.exp(free["log_noise_precision"])
    for t in range(T):
        theta = theta_of(kernel, free, t)
        K = witness.jittered_covariance(kernel, theta, Z, JITTER)
        beta, scale = (noise, np.exp(free["log_scale"])) if "log_scale" in free else (np.full(D, noise[t]), np.ones(D))
        for d, y in enumerate(Y.T):
            rows, s = ~np.isnan(y), scale[d]
            _, psi1, psi2 = witness.psi_statistics(
                kernel, theta, free["mean"][rows], np.exp(free["log_variance"][rows]), Z
            )
            # s f has covariance s^2 k, of which psi1 is linear and psi2 quadratic.
            weights, shrinkage = dense_posterior(s**2 * K, beta[d], s**2 * psi1, s**4 * psi2, y[rows])
            yield t, d, theta, s**2, s**2 * weights, s**4 * shrinkage


def dense_moments(kernel, free, Y, mean, variance):
    """E[f] = psi1 v and Var[f] = psi0 - tr(shrinkage psi2) + v'(psi2 - psi1'psi1)v for every row."""
    found = np.empty((2, T, len(mean), D))
    for t, d, theta, prior, v, shrinkage in dense_functions(kernel, free, Y):
        for n in range(len(mean)):
            row = mean[[n]], variance[[n]]
            psi0, psi1, psi2 = witness.psi_statistics(kernel, theta, *row, free["inducing"])
            found[0, t, n, d] = psi1[0] @ v
            found[1, t, n, d] = prior * psi0 - (shrinkage * psi2).sum() + v @ (psi2 - psi1.T @ psi1) @ v
    return found


def random_rows(seed, n_rows=3, widest=1.0):
    """Uncertain latents of new rows."""
    rng = np.random.default_rng(seed)
    return Marginals(rng.normal(size=(n_rows, Q)), np.exp(rng.uniform(-6.0, np.log(widest), size=(n_rows, Q))))


def assert_moments(found, wanted, rtol):
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@with_and_without_gaps
@noises
@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_where_latents_are_certain_the_moments_are_those_of_the_rows_that_were_observed(kernel, noise, gaps, seed):
    free, Y = random_problem(seed, kernel, noise, gaps)
    X = random_rows(seed).mean
    wanted = np.empty((2, T, len(X), D))
    for t, d, theta, prior, v, shrinkage in dense_functions(kernel, free, Y):
        k = witness.covariance(kernel, theta, X, free["inducing"])
        wanted[0, t, :, d] = k @ v
        wanted[1, t, :, d] = prior * witness.prior_variance(kernel, theta, X) - ((k @ shrinkage) * k).sum(axis=1)
    assert_moments(moments(kernel, free, Y, X), wanted, rtol=1e-8)


@noises
@pytest.mark.parametrize("kernel", KERNELS)
@given(seed=seeds)
def test_moments_of_the_functions_match_dense_algebra(kernel, noise, seed):
    free, Y = random_problem(seed, kernel, noise)
    rows = random_rows(seed)
    assert_moments(moments(kernel, free, Y, rows), dense_moments(kernel, free, Y, *rows), rtol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_moments_of_the_functions_match_quadrature_over_the_latents(kernel):
    """Over x they are a mixture of normals: means average, and variances do with the spread of the means added."""
    free, Y = random_problem(1, kernel, "column")
    rows = random_rows(1, widest=0.2)
    grid, densities = witness.normal_grid(40, Q)
    wanted = np.empty((2, T, len(rows.mean), D))
    for t, d, theta, prior, v, shrinkage in dense_functions(kernel, free, Y):
        for n, (mu, S) in enumerate(zip(*rows, strict=True)):
            x = mu + np.sqrt(S) * grid
            k = witness.covariance(kernel, theta, x, free["inducing"])
            of_f = prior * witness.prior_variance(kernel, theta, x) - ((k @ shrinkage) * k).sum(axis=1)
            wanted[0, t, n, d] = densities @ (k @ v)
            wanted[1, t, n, d] = densities @ (of_f + (k @ v - wanted[0, t, n, d]) ** 2)
    assert_moments(moments(kernel, free, Y, rows), wanted, rtol=1e-7)


def test_a_row_alone_and_among_others_has_the_same_moments():
    free, Y = random_problem(2)
    rows = random_rows(2, n_rows=40)
    together = moments("rbf", free, Y, rows)
    for n in (0, 17, 39):
        alone = moments("rbf", free, Y, Marginals(*(part[[n]] for part in rows)))
        for ours, theirs in zip(alone, together, strict=True):
            np.testing.assert_allclose(ours[:, 0], theirs[:, n], rtol=1e-10, atol=1e-10)


@with_and_without_gaps
def test_blocks_of_rows_change_nothing(gaps):
    free, Y = random_problem(3, "rbf", "column", gaps)
    at_once, in_blocks = (moments("rbf", free, Y, random_rows(3), block) for block in (None, 3))
    assert_moments(in_blocks, at_once, rtol=1e-10)


@noises
def test_where_latents_are_certain_the_mean_is_that_of_the_mean_functions(noise):
    free, Y = random_problem(4, "rbf", noise)
    logs, X = jax.tree.map(jnp.asarray, (free, random_rows(4).mean))
    log_theta = {name: logs[name] for name in witness.PARAMETERS["rbf"]}
    latents = {name: logs[name] for name in ("mean", "log_variance")}
    library = Free(latents, logs["inducing"], log_theta, logs["log_noise_precision"], logs.get("log_scale"))
    phi = np.random.default_rng(4).dirichlet(np.ones(T), size=D)
    model, state = Model(RBF(), jitter=JITTER), State(library, jnp.asarray(phi), dp.prior_sticks(T, dp.Concentration()))
    weights = jax.jit(partial(inducing_weights, model))(state, Table.of(Y))
    mean, _ = moments("rbf", free, Y, Marginals(np.asarray(X), np.full(X.shape, 1e-14)))
    wanted = np.einsum("dt,tsd->sd", phi, mean)
    np.testing.assert_allclose(mean_at(model, state, weights, X), wanted, rtol=1e-9, atol=1e-10)


def test_a_column_that_nobody_observed_is_as_the_prior_says():
    free, Y = random_problem(5, "rbf", "column")
    Y[:, 3] = np.nan
    mean, variance = moments("rbf", free, Y, random_rows(5))
    wanted = np.exp(free["signal_variance"] + 2.0 * free["log_scale"][3])
    np.testing.assert_array_equal(mean[:, :, 3], 0.0)
    np.testing.assert_allclose(variance[:, :, 3], np.tile(wanted[:, None], 3), rtol=1e-12)
