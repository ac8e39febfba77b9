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

pytestmark = pytest.mark.usefixtures("float64")

N, D, Q, M = 12, 3, 2, 4


def random_inputs(seed, kernel="rbf"):
    rng = np.random.default_rng(seed)
    free = witness.random_free(kernel, rng, N, Q, M, T=1)
    theta = {name: np.exp(free[name][0]) for name in witness.PARAMETERS[kernel]}
    inputs = (theta, free["mean"], np.exp(free["log_variance"]), free["inducing"], rng.normal(size=(N, D)))
    return jax.tree.map(jnp.asarray, inputs)


def assert_close(found, wanted, rtol):
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
def test_sums_match_the_paper(kernel):
    theta, mean, variance, Z, Y = random_inputs(0, kernel)
    found = gather(NAMED_KERNELS[kernel], theta, mean, variance, Z, Y)
    in_numpy = jax.tree.map(np.asarray, (theta, mean, variance))
    Z, Y = np.asarray(Z), np.asarray(Y)
    assert float(found.n_rows) == N
    np.testing.assert_allclose(found.psi0, witness.psi0(kernel, *in_numpy), rtol=1e-12)
    np.testing.assert_allclose(found.psi1_y, witness.psi1(kernel, *in_numpy, Z).T @ Y, rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(found.psi2, witness.psi2(kernel, *in_numpy, Z), rtol=1e-10)
    np.testing.assert_allclose(found.y_squared, [y @ y for y in Y.T], rtol=1e-13)


@partial(jax.jit, static_argnames="block")
def value_and_pull_back(inputs, cotangent, block):
    theta, mean, variance, Z, Y = inputs
    value, pull_back = jax.vjp(lambda *inputs: gather(RBF(), *inputs, block=block), theta, mean, variance, Z, Y)
    return value, pull_back(cotangent)


# Blocks that divide the rows, and that leave a rest.
@pytest.mark.parametrize("block", [4, 5])
def test_blocks_change_nothing(block):
    inputs = random_inputs(1)
    rng = np.random.default_rng(2)
    shapes = jax.eval_shape(lambda: gather(RBF(), *inputs))
    cotangent = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), shapes)
    at_once, in_blocks = (value_and_pull_back(inputs, cotangent, size) for size in (None, block))
    assert_close(in_blocks[0], at_once[0], rtol=1e-12)
    assert_close(in_blocks[1], at_once[1], rtol=1e-11)


@pytest.mark.parametrize("block", [1, N, N + 1])
def test_blocks_may_be_single_rows_or_the_whole_table(block):
    inputs = random_inputs(2)
    assert_close(gather(RBF(), *inputs, block=block), gather_at_once(*inputs), rtol=1e-12)


gather_at_once = jax.jit(partial(gather, RBF()))


@given(seed=st.integers(0, 2**32 - 1))
def test_rows_can_be_permuted(seed):
    theta, mean, variance, Z, Y = random_inputs(seed)
    order = np.random.default_rng(seed).permutation(N)
    shuffled = gather_at_once(theta, mean[order], variance[order], Z, Y[order])
    assert_close(shuffled, gather_at_once(theta, mean, variance, Z, Y), rtol=1e-12)


@given(seed=st.integers(0, 2**32 - 1))
def test_halves_add_up(seed):
    theta, mean, variance, Z, Y = random_inputs(seed)
    first, second = (
        gather_at_once(theta, mean[rows], variance[rows], Z, Y[rows]) for rows in (slice(0, N // 2), slice(N // 2, N))
    )
    whole = gather_at_once(theta, mean, variance, Z, Y)
    assert_close(jax.tree.map(jnp.add, first, second), whole, rtol=1e-12)
