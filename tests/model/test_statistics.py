"""Rows enter as sums: in blocks or at once, in any order, in parts that are added up."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import witness
from hypothesis import given
from hypothesis import strategies as st

from dpgplvm.model.kernels import NAMED_KERNELS, RBF
from dpgplvm.model.statistics import gather
from dpgplvm.model.table import Table

pytestmark = pytest.mark.usefixtures("float64")

N, D, Q, M = 12, 3, 2, 4


with_and_without_gaps = pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])


def random_inputs(seed, kernel="rbf", gaps=False):
    rng = np.random.default_rng(seed)
    free = witness.random_free(kernel, rng, N, Q, M, T=1)
    theta = {name: np.exp(free[name][0]) for name in witness.PARAMETERS[kernel]}
    Y = rng.normal(size=(N, D))
    if gaps:
        # Always two patterns, of columns 0 and 2 and of column 1, so that what is compiled serves every seed.
        Y[rng.permutation(N)[:4], ::2] = np.nan
        Y[rng.permutation(N)[:7], 1] = np.nan
    inputs = (theta, free["mean"], np.exp(free["log_variance"]), free["inducing"], Table.of(Y))
    return jax.tree.map(jnp.asarray, inputs)


def rows_of(table, rows):
    """The same columns, with the same patterns, in some of the rows."""
    return table._replace(values=table.values[rows], observed=None if table.observed is None else table.observed[rows])


def assert_close(found, wanted, rtol):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
def test_sums_match_the_paper(kernel):
    theta, mean, variance, Z, table = random_inputs(0, kernel)
    found = gather(NAMED_KERNELS[kernel], theta, mean, variance, Z, table)
    in_numpy = jax.tree.map(np.asarray, (theta, mean, variance))
    Z, Y = np.asarray(Z), np.asarray(table.values)
    assert float(found.n_rows) == N
    np.testing.assert_allclose(found.psi0, witness.psi0(kernel, *in_numpy), rtol=1e-12)
    np.testing.assert_allclose(found.psi1_y, witness.psi1(kernel, *in_numpy, Z).T @ Y, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.psi2, witness.psi2(kernel, *in_numpy, Z), rtol=1e-10)
    np.testing.assert_allclose(found.y_squared, [y @ y for y in Y.T], rtol=1e-13)


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
def test_with_gaps_sums_are_over_the_rows_that_were_observed(kernel):
    theta, mean, variance, Z, table = random_inputs(3, kernel, gaps=True)
    found = gather(NAMED_KERNELS[kernel], theta, mean, variance, Z, table)
    theta, mean, variance, Z, table = jax.tree.map(np.asarray, (theta, mean, variance, Z, table))
    assert found.n_rows.shape == (2,)
    for d, p in enumerate(table.pattern):
        rows = table.observed[:, p] == 1.0
        in_rows, y = (theta, mean[rows], variance[rows]), table.values[rows, d]
        assert float(found.n_rows[p]) == rows.sum() == (5 if d == 1 else 8)
        np.testing.assert_allclose(found.psi0[p], witness.psi0(kernel, *in_rows), rtol=1e-12)
        np.testing.assert_allclose(found.psi1_y[:, d], witness.psi1(kernel, *in_rows, Z).T @ y, rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(found.psi2[p], witness.psi2(kernel, *in_rows, Z), rtol=1e-10)
        np.testing.assert_allclose(found.y_squared[d], y @ y, rtol=1e-13)


@partial(jax.jit, static_argnames="block")
def value_and_pull_back(inputs, cotangent, block):
    *moved, table = inputs

    def of_moved(theta, mean, variance, Z, values):
        return gather(RBF(), theta, mean, variance, Z, table._replace(values=values), block=block)

    value, pull_back = jax.vjp(of_moved, *moved, table.values)
    return value, pull_back(cotangent)


# Blocks that divide the rows, and that leave a rest.
@with_and_without_gaps
@pytest.mark.parametrize("block", [4, 5])
def test_blocks_change_nothing(block, gaps):
    inputs = random_inputs(1, gaps=gaps)
    rng = np.random.default_rng(2)
    shapes = jax.eval_shape(lambda: gather(RBF(), *inputs))
    cotangent = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), shapes)
    at_once, in_blocks = (value_and_pull_back(inputs, cotangent, size) for size in (None, block))
    assert_close(in_blocks[0], at_once[0], rtol=1e-12)
    assert_close(in_blocks[1], at_once[1], rtol=1e-11)


@with_and_without_gaps
@pytest.mark.parametrize("block", [1, N, N + 1])
def test_blocks_may_be_single_rows_or_the_whole_table(block, gaps):
    inputs = random_inputs(2, gaps=gaps)
    assert_close(gather(RBF(), *inputs, block=block), gather_at_once(*inputs), rtol=1e-12)


gather_at_once = jax.jit(partial(gather, RBF()))


@with_and_without_gaps
@given(seed=st.integers(0, 2**32 - 1))
def test_rows_can_be_permuted(gaps, seed):
    theta, mean, variance, Z, table = random_inputs(seed, gaps=gaps)
    order = np.random.default_rng(seed).permutation(N)
    shuffled = gather_at_once(theta, mean[order], variance[order], Z, rows_of(table, order))
    assert_close(shuffled, gather_at_once(theta, mean, variance, Z, table), rtol=1e-12)


@with_and_without_gaps
@given(seed=st.integers(0, 2**32 - 1))
def test_halves_add_up(gaps, seed):
    theta, mean, variance, Z, table = random_inputs(seed, gaps=gaps)
    first, second = (
        gather_at_once(theta, mean[rows], variance[rows], Z, rows_of(table, rows))
        for rows in (slice(0, N // 2), slice(N // 2, N))
    )
    whole = gather_at_once(theta, mean, variance, Z, table)
    assert_close(jax.tree.map(jnp.add, first, second), whole, rtol=1e-12)
