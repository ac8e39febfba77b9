"""The M(M+1)/2 unordered pairs of inducing points: all that a symmetric M x M statistic needs."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


@lru_cache
def _layout(n_points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second member of every pair, and the position of every (j, j') in that list."""
    first, second = np.triu_indices(n_points)
    position = np.empty((n_points, n_points), dtype=np.int32)
    position[first, second] = position[second, first] = np.arange(len(first))
    return first, second, position


@jax.custom_vjp
def midpoints(points: Float[Array, "M Q"]) -> Float[Array, "R Q"]:
    """(z_j + z_j') / 2 for every pair j <= j'."""
    first, second, _ = _layout(points.shape[0])
    return 0.5 * (points[first] + points[second])


def _midpoints_forward(points):
    return midpoints(points), points.shape[0]


def _midpoints_backward(n_points, cotangent):
    # Written as a gather and a sum: the scatter that automatic differentiation would make is slow on a CPU.
    _, _, position = _layout(n_points)
    both_ways = cotangent[position]
    own = cotangent[np.diagonal(position)]
    return (0.5 * (both_ways.sum(axis=1) + own),)


midpoints.defvjp(_midpoints_forward, _midpoints_backward)


@jax.custom_vjp
def symmetric_matrix(values: Float[Array, "*P R"]) -> Float[Array, "*P M M"]:
    """The symmetric matrix whose upper triangle, row by row, is `values`."""
    n_points = int((np.sqrt(8 * values.shape[-1] + 1) - 1) / 2)
    return values[..., _layout(n_points)[2]]


def _symmetric_forward(values):
    return symmetric_matrix(values), None


def _symmetric_backward(_, cotangent):
    first, second, _ = _layout(cotangent.shape[-1])
    once = jnp.where(first == second, 0.5, 1.0)
    return ((cotangent + jnp.swapaxes(cotangent, -1, -2))[..., first, second] * once,)


symmetric_matrix.defvjp(_symmetric_forward, _symmetric_backward)


@jax.custom_vjp
def upper_triangle(matrix: Float[Array, "*P M M"]) -> Float[Array, "*P R"]:
    """The upper triangle of a symmetric matrix, row by row."""
    first, second, _ = _layout(matrix.shape[-1])
    return matrix[..., first, second]


def _upper_forward(matrix):
    return upper_triangle(matrix), matrix.shape[-1]


def _upper_backward(n_points, cotangent):
    _, _, position = _layout(n_points)
    return (jnp.where(np.triu(np.ones((n_points, n_points), dtype=bool)), cotangent[..., position], 0.0),)


upper_triangle.defvjp(_upper_forward, _upper_backward)


def congruent(left: Float[Array, "K M"], matrices: Float[Array, "*P M M"]) -> Float[Array, "*P K K"]:
    """left A left' for every symmetric A, as two products of one large matrix with a small one."""
    n_points = left.shape[1]
    half = (matrices.reshape(-1, n_points) @ left.T).reshape(*matrices.shape[:-1], -1)
    product = jnp.swapaxes(half, -1, -2).reshape(-1, n_points) @ left.T
    return product.reshape(*matrices.shape[:-2], left.shape[0], left.shape[0])
