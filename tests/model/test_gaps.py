"""Tables with gaps: the bound is the paper's for every column, on the rows that the column was observed in."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st
from jax.scipy.linalg import solve_triangular

from dpgplvm.inference.objective import Objective
from dpgplvm.model import sticks as dp
from dpgplvm.model.bound import Model, elbo_terms
from dpgplvm.model.by_column import bounds_with_gaps
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.state import Free, State
from dpgplvm.model.statistics import Statistics
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

KERNELS = sorted(NAMED_KERNELS)
N, D, Q, T = 6, 5, 2, 2
N_INDUCING = {"linear": Q, "rbf": 3, "rbf+linear": 3}  # more than Q, and the linear kernel's K would be singular
M = N_INDUCING["rbf"]
seeds = st.integers(0, 2**32 - 1)
noises = pytest.mark.parametrize("noise", ["group", "column"])
# A column without gaps but for a row that nobody observed, two with the same gaps, one with others, and one of nothing.
OBSERVED = np.array([[1, 1, 1, 0, 0], [1, 0, 0, 1, 0], [1, 1, 1, 1, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 0], [0] * D])
# Compiling is what takes the time here.
quickly = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


def random_problem(seed, kernel="rbf", noise="group"):
    """The witness's free parameters, assignments, and a table with the gaps above, each in a random place."""
    rng = np.random.default_rng(seed)
    free = witness.random_free(kernel, rng, N, Q, N_INDUCING[kernel], T)
    if noise == "column":
        free |= {"log_noise_precision": rng.uniform(-1.0, 2.0, size=D), "log_scale": rng.normal(scale=0.5, size=D)}
    observed = OBSERVED[rng.permutation(N)][:, rng.permutation(D)]
    return free, rng.dirichlet(np.ones(T), size=D), np.where(observed, rng.normal(size=(N, D)), np.nan)


def as_free(kernel, free):
    free = {name: jnp.asarray(value) for name, value in free.items()}
    latents = {name: free[name] for name in ("mean", "log_variance")}
    log_theta = {name: free[name] for name in witness.PARAMETERS[kernel]}
    return Free(latents, free["inducing"], log_theta, free["log_noise_precision"], free.get("log_scale"))


def as_witness(free):
    """The library's free parameters, or their gradient, as the witness's."""
    flat = {
        **free.latents,
        **free.log_theta,
        "inducing": free.inducing,
        "log_noise_precision": free.log_noise_precision,
    }
    return flat if free.log_scale is None else flat | {"log_scale": free.log_scale}


def model_of(kernel):
    """Gaps are no concern of the Dirichlet process."""
    return Model(NAMED_KERNELS[kernel], inferred_groups=False)


def value_and_gradient(kernel, free, phi, table, mixed=False, block=None):
    state = State(as_free(kernel, free), phi, dp.prior_sticks(T, dp.Concentration()))
    return _value_and_gradient(model_of(kernel), state, table, mixed, block)


@partial(quickly, static_argnames=("model", "mixed", "block"))
def _value_and_gradient(model, state, table, mixed, block):
    def total(free, phi):
        return elbo_terms(model, replace(state, free=free, phi=phi), table, mixed, block).total

    value, (of_free, of_phi) = jax.value_and_grad(total, argnums=(0, 1))(state.free, state.phi)
    return value, {**as_witness(of_free), "phi": of_phi}


def in_paper(kernel, free, phi, Y, mixed=False):
    terms = witness.elbo(kernel, free, phi, (np.ones(T - 1), np.ones(T - 1), 1.0, 1.0), Y, mixed)
    return terms["likelihood"] + terms["latents"] + terms["hyperprior"]


def assert_same(found, wanted, rtol):
    for name, value in wanted.items():
        atol = rtol * np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=rtol, atol=atol, err_msg=name)


@given(seed=seeds, n_rows=st.integers(1, 8), n_columns=st.integers(1, 8), share=st.floats(0.05, 1.0))
def test_a_table_knows_its_gaps_once_for_columns_that_share_them(seed, n_rows, n_columns, share):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n_rows, n_columns))
    gaps = rng.random(Y.shape) < share
    gaps[rng.integers(n_rows), rng.integers(n_columns)] = True
    Y[gaps] = np.nan
    table = Table.of(Y)
    np.testing.assert_array_equal(table.values, np.where(gaps, 0.0, Y))
    np.testing.assert_array_equal(table.observed[:, table.pattern], np.where(gaps, 0.0, 1.0))
    assert table.observed.dtype == float
    assert table.observed.shape == (n_rows, len({tuple(column) for column in gaps.T}))
    assert all(map(np.array_equal, table.row_blocks(), (table.values, table.observed)))


def test_a_table_without_gaps_has_no_patterns():
    Y = np.random.default_rng(0).normal(size=(N, D))
    table = Table.of(Y)
    np.testing.assert_array_equal(table.values, Y)
    assert (table.observed, table.pattern) == (None, None)
    assert len(table.row_blocks()) == 1


BOUNDS = {"group": ("group", False), "mixed": ("group", True), "column": ("column", False)}
# The objective, below, has every kernel with noise of columns.
every_bound = pytest.mark.parametrize(
    ("kernel", "bound"),
    [*product(KERNELS, ("group", "mixed")), ("rbf", "column")],
)


@every_bound
@given(seed=seeds)
def test_the_bound_is_the_papers_on_the_rows_that_were_observed(kernel, bound, seed):
    noise, mixed = BOUNDS[bound]
    free, phi, Y = random_problem(seed, kernel, noise)
    found, _ = value_and_gradient(kernel, free, phi, Table.of(Y), mixed)
    np.testing.assert_allclose(found, in_paper(kernel, free, phi, Y, mixed), rtol=1e-8)


@every_bound
def test_gradients_match_the_paper_on_the_rows_that_were_observed(kernel, bound):
    noise, mixed = BOUNDS[bound]
    free, phi, Y = random_problem(1, kernel, noise)
    _, found = value_and_gradient(kernel, free, phi, Table.of(Y), mixed)
    at = {**free, "phi": phi}
    wanted = witness.derivatives(lambda at: in_paper(kernel, at, at["phi"], Y, mixed), at)
    assert_same(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(("kernel", "noise"), [*((kernel, "column") for kernel in KERNELS), ("rbf", "group")])
def test_the_objective_and_its_gradient_match_the_paper_on_the_rows_that_were_observed(kernel, noise):
    free, phi, Y = random_problem(2, kernel, noise)
    evaluation = Objective(model_of(kernel), Y, phi).evaluate(as_free(kernel, free))
    np.testing.assert_allclose(evaluation.value, in_paper(kernel, free, phi, Y), rtol=1e-8)
    wanted = witness.derivatives(lambda at: in_paper(kernel, at, phi, Y), free)
    assert_same(as_witness(evaluation.gradient), wanted, rtol=1e-6)


def random_statistics(seed):
    """K, precisions of the columns, and statistics with gaps, from the witness; and the columns' patterns."""
    free, _, Y = random_problem(seed)
    theta, Z = {name: np.exp(free[name][0]) for name in witness.PARAMETERS["rbf"]}, free["inducing"]
    table, rows = Table.of(Y), (free["mean"], np.exp(free["log_variance"]))
    of_patterns = [(n == 1.0, *(part[n == 1.0] for part in rows)) for n in table.observed.T]
    statistics = Statistics(
        n_rows=np.array([n.sum() for n, *_ in of_patterns], dtype=float),
        psi0=np.array([witness.psi0("rbf", theta, *rows) for _, *rows in of_patterns]),
        psi1_y=witness.psi1("rbf", theta, *rows, Z).T @ table.values,
        psi2=np.array([witness.psi2("rbf", theta, *rows, Z) for _, *rows in of_patterns], dtype=float),
        y_squared=np.nansum(Y**2, axis=0),
    )
    beta = np.exp(np.random.default_rng(seed).uniform(-2.0, 4.0, size=D))
    inputs = witness.jittered_covariance("rbf", theta, Z, jitter=1e-2), beta, statistics
    return jax.tree.map(jnp.asarray, inputs), table.pattern


def column_by_column(K, beta, statistics, pattern):
    """Every column with factorisations of its own, for automatic differentiation."""
    L = jnp.linalg.cholesky(K)

    def one_column(column):
        beta, p, psi1_y, y_squared = column
        n, psi0, psi2 = (part[p] for part in (statistics.n_rows, statistics.psi0, statistics.psi2))
        W = solve_triangular(L, solve_triangular(L, psi2, lower=True).T, lower=True)
        La = jnp.linalg.cholesky(jnp.eye(M) + beta * W)
        C = solve_triangular(La, solve_triangular(L, psi1_y, lower=True), lower=True)
        F = 0.5 * n * jnp.log(beta / (2.0 * jnp.pi)) - jnp.log(jnp.diagonal(La)).sum()
        return F - 0.5 * beta * (psi0 - jnp.trace(W) + y_squared) + 0.5 * beta**2 * (C**2).sum()

    return jax.lax.map(one_column, (beta, pattern, statistics.psi1_y.T, statistics.y_squared))


@quickly
def both_adjoints(inputs, pattern, weights):
    ours, pull_back = jax.vjp(lambda *inputs: bounds_with_gaps(*inputs, pattern), *inputs)
    plain, plain_pull_back = jax.vjp(lambda *inputs: column_by_column(*inputs, pattern), *inputs)
    return (ours, pull_back(weights)), (plain, plain_pull_back(weights))


@given(seed=seeds, weightless=st.sets(st.integers(0, D - 1)))
def test_adjoint_matches_automatic_differentiation(seed, weightless):
    inputs, pattern = random_statistics(seed)
    weights = np.random.default_rng(seed).normal(size=D)
    weights[list(weightless)] = 0.0
    ours, plain = both_adjoints(inputs, pattern, weights)
    np.testing.assert_allclose(ours[0], plain[0], rtol=1e-10)
    for found, wanted in zip(jax.tree.leaves(ours[1]), jax.tree.leaves(plain[1]), strict=True):
        # Only symmetric changes of a symmetric matrix mean anything.
        wanted = 0.5 * (wanted + wanted.swapaxes(-1, -2)) if wanted.shape[-2:] == (M, M) else wanted
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9 * np.abs(wanted).max())


def test_columns_that_weigh_nothing_are_not_computed():
    inputs, pattern = random_statistics(3)
    weights = np.array([1.0, 0.0, 0.5, 0.0, 2.0])
    without = inputs[2]._replace(psi1_y=jnp.where(weights == 0.0, jnp.nan, inputs[2].psi1_y))
    (_, found), _ = both_adjoints((*inputs[:2], without), pattern, weights)
    (_, wanted), _ = both_adjoints(inputs, pattern, weights)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-13), found, wanted)


def test_adjoint_matches_finite_differences_in_every_input():
    inputs, pattern = random_statistics(4)
    rng = np.random.default_rng(4)
    weights = rng.normal(size=D)
    leaves, structure = jax.tree.flatten(inputs)
    for i, slope in enumerate(jax.tree.leaves(both_adjoints(inputs, pattern, weights)[0][1])):
        direction = rng.normal(size=leaves[i].shape) * np.abs(leaves[i])
        direction = direction + direction.swapaxes(-1, -2) if direction.shape[-2:] == (M, M) else direction
        step = 1e-4 * float(jnp.abs(leaves[i]).max()) / np.abs(direction).max()

        def moved(share, i=i, direction=direction, step=step):
            changed = [*leaves[:i], leaves[i] + share * step * direction, *leaves[i + 1 :]]
            return weights @ both_adjoints(jax.tree.unflatten(structure, changed), pattern, weights)[0][0]

        differences = (8.0 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12.0 * step)
        np.testing.assert_allclose(jnp.vdot(slope, direction), differences, rtol=1e-5, err_msg=str(i))


@noises
def test_patterns_without_gaps_are_no_patterns(noise):
    free, phi, Y = random_problem(5, "rbf", noise)
    table, complete = Table.of(Y), np.where(np.isnan(Y), 0.3, Y)
    found = value_and_gradient("rbf", free, phi, Table(complete, np.ones(table.observed.shape), table.pattern))
    wanted = value_and_gradient("rbf", free, phi, Table.of(complete))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9)
    assert_same(found[1], wanted[1], rtol=1e-9)


@pytest.mark.parametrize("mixed", [False, True], ids=["grouped", "mixed"])
def test_blocks_of_rows_change_nothing(mixed):
    free, phi, Y = random_problem(6)
    at_once, in_blocks = (value_and_gradient("rbf", free, phi, Table.of(Y), mixed, block) for block in (None, 4))
    np.testing.assert_allclose(in_blocks[0], at_once[0], rtol=1e-12)
    assert_same(in_blocks[1], at_once[1], rtol=1e-9)


@noises
@given(seed=seeds)
def test_rows_and_columns_can_be_permuted_with_their_gaps(noise, seed):
    free, phi, Y = random_problem(seed, "rbf", noise)
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(N), rng.permutation(D)
    order = {"mean": rows, "log_variance": rows, "phi": columns}
    order |= {"log_noise_precision": columns, "log_scale": columns} if noise == "column" else {}

    def permuted(at):
        return {name: value[order[name]] if name in order else value for name, value in at.items()}

    value, gradient = value_and_gradient("rbf", free, phi, Table.of(Y))
    found = value_and_gradient("rbf", permuted(free), phi[columns], Table.of(Y[rows][:, columns]))
    np.testing.assert_allclose(found[0], value, rtol=1e-11)
    assert_same(found[1], permuted(gradient), rtol=1e-8)


@noises
def test_a_row_that_nobody_observed_adds_its_divergence_and_nothing_else(noise):
    free, phi, Y = random_problem(7, "rbf", noise)
    (empty,) = np.flatnonzero(np.isnan(Y).all(axis=1))

    def without_it(at):
        return at | {name: np.delete(at[name], empty, axis=0) for name in ("mean", "log_variance")}

    without = in_paper("rbf", without_it(free), phi, np.delete(Y, empty, axis=0))
    at_prior = {name: np.where(np.arange(N)[:, None] == empty, 0.0, free[name]) for name in ("mean", "log_variance")}
    of_others = []
    for at in (free, free | at_prior):
        value, gradient = value_and_gradient("rbf", at, phi, Table.of(Y))
        mu, S = at["mean"][empty], np.exp(at["log_variance"][empty])
        np.testing.assert_allclose(value, without - witness.divergence(mu[None], S[None]), rtol=1e-8)
        np.testing.assert_allclose(gradient["mean"][empty], -mu, atol=1e-14)
        np.testing.assert_allclose(gradient["log_variance"][empty], 0.5 * (1.0 - S), atol=1e-14)
        of_others.append(without_it(gradient))
    np.testing.assert_allclose(value, without, rtol=1e-8)  # the last one is at the prior
    assert_same(*of_others, rtol=1e-11)


def test_a_covariance_that_is_not_positive_definite_gives_not_a_number():
    (_, beta, statistics), pattern = random_statistics(8)
    assert np.isnan(bounds_with_gaps(-jnp.eye(M), beta, statistics, pattern)).all()
