"""Gradients of the bound with noise and scale of every column: against automatic, exact and finite differences."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from adjoints import assert_adjoint_matches_differences, assert_derivatives, in_names_of_the_paper
from hypothesis import given
from jax.scipy.linalg import solve_triangular
from per_column_problems import (
    JITTER,
    KERNELS,
    D,
    M,
    N,
    T,
    as_arrays,
    in_paper,
    random_group,
    random_problem,
    seeds,
)

from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import Model, elbo_terms
from dpgplvm.model.kernels import NAMED_KERNELS, RBF
from dpgplvm.model.per_column import bounds_of_columns
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")


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
        **in_names_of_the_paper(d_statistics, Y),
    }
    assert_derivatives(found, wanted)


def test_adjoint_matches_finite_differences_in_every_input():
    K, psi, Y, columns, rng = random_group(3)
    assert_adjoint_matches_differences(bounds_of_columns, (as_arrays(K, columns, psi, Y)), rng)


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
