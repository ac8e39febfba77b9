"""The fast exponential, its sums, and the pairs of inducing points: values and adjoints against plain code."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgplvm.model.exponentials import exp, exponentials, sum_of_exponentials
from dpgplvm.model.pairs import midpoints, symmetric_matrix, upper_triangle

pytestmark = pytest.mark.usefixtures("float64")

EPS = np.finfo(float).eps
SMALLEST = 2.0**-1020
seeds = st.integers(0, 2**32 - 1)


def relative_error(function, x):
    """Against long double arithmetic: the C library's own rounding must not count."""
    exact = np.exp(np.asarray(x, dtype=np.longdouble))
    return np.abs((np.asarray(function(jnp.asarray(x))) - exact) / exact).astype(float)


# Compiled as a whole, operations are fused and round differently.
one_by_one_and_fused = pytest.mark.parametrize("function", [exp, jax.jit(exp)], ids=["one by one", "fused"])


@one_by_one_and_fused
def test_exp_is_good_to_two_ulps_near_zero(function):
    x = np.random.default_rng(0).uniform(-0.5, 0.5, size=6000)
    assert (relative_error(function, x) <= 2.0 * EPS).all()


@one_by_one_and_fused
@given(seed=seeds)
def test_exp_is_as_good_as_its_argument_over_the_whole_range(function, seed):
    rng = np.random.default_rng(seed)
    smallest = -1020.0 * np.log(2.0)
    x = np.concatenate([rng.uniform(smallest, 700.0, 2000), rng.normal(size=2000), smallest * rng.random(2000) ** 4])
    # log2(e) and its product with x are each rounded once: together at most |x| EPS in the exponent.
    assert (relative_error(function, x) <= (2.0 + np.abs(x)) * EPS).all()


def test_exp_is_exact_at_zero_and_increases_across_the_jumps_of_the_exponent():
    assert float(exp(jnp.asarray(0.0))) == 1.0
    for whole in (-900, -3, 0, 1, 500):
        edge = (whole + 0.5) * np.log(2.0)
        near = edge * (1.0 + 64.0 * EPS * np.arange(-200, 201) * np.sign(whole + 0.5))
        value = np.asarray(exp(jnp.asarray(near)))
        slack = (4.0 + 2.0 * abs(edge)) * EPS * value[1:]
        assert (np.diff(value) >= -slack).all()


@pytest.mark.parametrize("x", [-708.0, -745.5, -1e4, -1e300, -np.inf])
def test_what_would_underflow_is_the_smallest_number(x):
    value, slope = jax.value_and_grad(exp)(jnp.asarray(x))
    assert float(value) == SMALLEST
    assert float(slope) == SMALLEST


def test_not_a_number_stays_not_a_number():
    assert np.isnan(exp(jnp.asarray([np.nan, -np.nan]))).all()
    offset, left, right = jnp.zeros(2), jnp.asarray([[0.0], [np.nan]]), jnp.ones((3, 1))
    value, pull_back = jax.vjp(sum_of_exponentials, offset, left, right)
    assert np.isnan(value).all()
    d_offset, d_left, d_right = pull_back(jnp.ones(3))
    assert np.isnan(d_offset[1])
    assert np.isnan(d_left[1]).all()
    assert np.isnan(d_right).all()
    assert np.isfinite(d_offset[0])


def test_exp_has_derivatives_of_every_order():
    x = jnp.asarray(-1.3)
    for derivative in (jax.grad(exp), jax.grad(jax.grad(exp)), jax.jacfwd(jax.grad(exp))):
        np.testing.assert_allclose(derivative(x), np.exp(-1.3), rtol=1e-14)


def plain_sum(offset, left, right):
    return jnp.exp(offset[:, None] + left @ right.T).sum(axis=0)


def random_exponents(seed, scale):
    rng = np.random.default_rng(seed)
    offset, left, right = -(scale**2) * rng.random(7), scale * rng.normal(size=(7, 3)), rng.normal(size=(5, 3))
    return tuple(map(jnp.asarray, (offset, left, right))), jnp.asarray(rng.normal(size=5))


@given(seed=seeds, scale=st.floats(0.01, 8.0))
def test_sum_and_adjoint_match_automatic_differentiation(seed, scale):
    inputs, cotangent = random_exponents(seed, scale)
    ours, pull_back = jax.vjp(sum_of_exponentials, *inputs)
    plain, plain_pull_back = jax.vjp(plain_sum, *inputs)
    np.testing.assert_allclose(ours, plain, rtol=1e-12)
    np.testing.assert_allclose(sum_of_exponentials(*inputs), plain, rtol=1e-12)
    for found, wanted in zip(pull_back(cotangent), plain_pull_back(cotangent), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


@given(seed=seeds, scale=st.floats(0.01, 8.0))
def test_every_exponential_and_the_adjoint_match_automatic_differentiation(seed, scale):
    inputs, _ = random_exponents(seed, scale)
    cotangent = jnp.asarray(np.random.default_rng(seed).normal(size=(7, 5)))
    ours, pull_back = jax.vjp(exponentials, *inputs)
    plain, plain_pull_back = jax.vjp(lambda offset, left, right: jnp.exp(offset[:, None] + left @ right.T), *inputs)
    np.testing.assert_allclose(ours, plain, rtol=1e-12)
    np.testing.assert_allclose(exponentials(*inputs), plain, rtol=1e-12)
    for found, wanted in zip(pull_back(cotangent), plain_pull_back(cotangent), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


def directional_differences(function, inputs, directions, step=1e-3):
    """Fourth-order central differences along one direction through all inputs."""

    def moved(share):
        return function(*(value + share * step * d for value, d in zip(inputs, directions, strict=True)))

    return (8.0 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12.0 * step)


def test_adjoint_of_the_sum_matches_finite_differences():
    inputs, cotangent = random_exponents(0, 1.0)
    rng = np.random.default_rng(1)
    directions = [jnp.asarray(rng.normal(size=value.shape)) for value in inputs]
    _, pull_back = jax.vjp(sum_of_exponentials, *inputs)
    along = sum(jnp.vdot(part, d) for part, d in zip(pull_back(cotangent), directions, strict=True))
    differences = cotangent @ directional_differences(sum_of_exponentials, inputs, directions)
    np.testing.assert_allclose(along, differences, rtol=1e-8)


def naive_midpoints(points):
    n = len(points)
    return np.array([[0.5 * (points[j] + points[k])] for j in range(n) for k in range(j, n)])[:, 0]


def naive_symmetric_matrix(values, n):
    matrix, entries = np.empty((n, n)), iter(values)
    for j in range(n):
        for k in range(j, n):
            matrix[j, k] = matrix[k, j] = next(entries)
    return matrix


@pytest.mark.parametrize("n", [1, 4])
def test_midpoints_and_their_adjoint(n):
    rng = np.random.default_rng(n)
    points, cotangent = rng.normal(size=(n, 3)), rng.normal(size=(n * (n + 1) // 2, 3))
    found, pull_back = jax.vjp(midpoints, jnp.asarray(points))
    np.testing.assert_allclose(found, naive_midpoints(points), rtol=1e-15)
    # Linear, so that its adjoint is its transpose, column by column of the identity.
    transpose = [np.vdot(naive_midpoints(unit.reshape(n, 3)), cotangent) for unit in np.eye(3 * n)]
    np.testing.assert_allclose(np.ravel(pull_back(jnp.asarray(cotangent))[0]), transpose, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [1, 4])
def test_symmetric_matrix_and_its_adjoint(n):
    rng = np.random.default_rng(n)
    n_pairs = n * (n + 1) // 2
    values, cotangent = rng.normal(size=n_pairs), rng.normal(size=(n, n))
    found, pull_back = jax.vjp(symmetric_matrix, jnp.asarray(values))
    np.testing.assert_array_equal(found, naive_symmetric_matrix(values, n))
    transpose = [np.vdot(naive_symmetric_matrix(unit, n), cotangent) for unit in np.eye(n_pairs)]
    np.testing.assert_allclose(pull_back(jnp.asarray(cotangent))[0], transpose, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("n", [1, 4])
def test_the_upper_triangle_and_its_adjoint(n):
    rng = np.random.default_rng(n)
    n_pairs = n * (n + 1) // 2
    values, cotangent = rng.normal(size=n_pairs), rng.normal(size=n_pairs)
    found, pull_back = jax.vjp(upper_triangle, jnp.asarray(naive_symmetric_matrix(values, n)))
    np.testing.assert_array_equal(found, values)
    # What is symmetric is what matters: along a symmetric change, the adjoint is the transpose.
    slopes = np.asarray(pull_back(jnp.asarray(cotangent))[0])
    along = [np.vdot(slopes, naive_symmetric_matrix(unit, n)) for unit in np.eye(n_pairs)]
    np.testing.assert_allclose(along, cotangent, rtol=1e-13)


def test_many_matrices_are_as_many_times_one():
    rng = np.random.default_rng(3)
    values, cotangents = jnp.asarray(rng.normal(size=(2, 3, 10))), jnp.asarray(rng.normal(size=(2, 3, 4, 4)))
    matrices, pull_back = jax.vjp(symmetric_matrix, values)
    triangles, pull_back_triangles = jax.vjp(upper_triangle, matrices)
    slopes, slopes_of_triangles = pull_back(cotangents)[0], pull_back_triangles(values)[0]
    np.testing.assert_array_equal(triangles, values)
    for at in np.ndindex(2, 3):
        one, pull_back_one = jax.vjp(symmetric_matrix, values[at])
        np.testing.assert_array_equal(matrices[at], one)
        np.testing.assert_array_equal(slopes[at], pull_back_one(cotangents[at])[0])
        np.testing.assert_array_equal(slopes_of_triangles[at], jax.vjp(upper_triangle, one)[1](values[at])[0])


def test_symmetric_matrix_finds_the_number_of_points_for_many_sizes():
    for n in (3, 50, 301, 1000):
        assert jax.eval_shape(symmetric_matrix, jnp.zeros(n * (n + 1) // 2)).shape == (n, n)


def test_adjoints_of_pairs_match_finite_differences():
    rng = np.random.default_rng(2)
    points, direction = jnp.asarray(rng.normal(size=(4, 2))), jnp.asarray(rng.normal(size=(4, 2)))
    weights = jnp.asarray(rng.normal(size=(4, 4)))

    @jax.jit
    def through_both(points):
        return (symmetric_matrix(jnp.sin(midpoints(points)).prod(axis=1)) * weights).sum()

    along = jnp.vdot(jax.grad(through_both)(points), direction)
    np.testing.assert_allclose(along, directional_differences(through_both, [points], [direction]), rtol=1e-8)
