"""The collapsed bound of one group, and its mean functions, with a factorisation for every column.

With gaps, columns have sums over rows of their own, so nothing can be diagonalised for all of them at once. The bound
is the same as without, with N_d, psi0_d and Psi2_d of the rows in which column d was observed: with K = L L',
W_d = L^-1 Psi2_d L^-T, A_d = I + beta_d W_d = La La' and C_d = La^-1 L^-1 Psi1'y_d

    F[d] = N_d/2 log(beta_d / 2pi) - log|La| - beta_d/2 (psi0_d - tr W_d + y_d'y_d) + beta_d^2/2 |C_d|^2.

Its adjoint is that of `collapsed`, in the same whitened basis, column by column. Columns with no weight in the group
have none, and are not computed.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from dpgplvm.model.pairs import congruent
from dpgplvm.model.statistics import Statistics

# Columns that weigh less than this in a group add nothing to its adjoint that a float would show.
_NO_WEIGHT = 1e-15
_ROUNDING = 1e-6


class Whitened(NamedTuple):
    """What the columns of a group share."""

    whiten: Float[Array, "M M"]  # L^-1
    psi2: Float[Array, "P M M"]  # W
    projected: Float[Array, "M D"]  # L^-1 Psi1'Y


def _whitened(K: Float[Array, "M M"], statistics: Statistics) -> Whitened:
    whiten = solve_triangular(jnp.linalg.cholesky(K), jnp.eye(K.shape[0]), lower=True)
    W = congruent(whiten, statistics.psi2)
    # Rounded to be symmetric: of a smooth kernel's gradient, that saves two digits.
    return Whitened(whiten, 0.5 * (W + jnp.swapaxes(W, 1, 2)), whiten @ statistics.psi1_y)


def mean_weights(
    K: Float[Array, "M M"],
    beta: Float[Array, " D"],
    statistics: Statistics,
    pattern: Int[Array | np.ndarray, " D"] | None,
) -> Float[Array, "M D"]:
    """beta (K + beta Psi2)^-1 Psi1'y of every column, for given noise precisions: E[f] = k(., Z) times this."""
    if pattern is None:
        statistics = statistics._replace(psi2=statistics.psi2[None])
        pattern = jnp.zeros(beta.shape, dtype=int)
    basis = _whitened(K, statistics)

    def one_column(column):
        beta, p, projected = column
        La_inverse = _inverse_of_factor(beta, basis.psi2[p])
        return beta * (basis.whiten.T @ (La_inverse.T @ (La_inverse @ projected)))

    return lax.map(one_column, (beta, pattern, basis.projected.T)).T


@jax.custom_vjp
def bounds_with_gaps(
    K: Float[Array, "M M"], beta: Float[Array, " D"], statistics: Statistics, pattern: Int[Array | np.ndarray, " D"]
) -> Float[Array, " D"]:
    """F[d] for every column; NaN where K is not positive definite."""
    return _forward(K, beta, statistics, pattern)[0]


def _forward(K, beta, statistics, pattern):
    basis = _whitened(K, statistics)

    def one_column(column):
        beta, p, projected = column
        La = _factor(beta, basis.psi2[p])
        C = solve_triangular(La, projected[:, None], lower=True)[:, 0]
        return jnp.log(jnp.diagonal(La)).sum(), C @ C

    log_determinant, squared = lax.map(one_column, (beta, pattern, basis.projected.T))
    n, psi0 = statistics.n_rows[pattern], statistics.psi0[pattern]
    trace = jnp.trace(basis.psi2, axis1=1, axis2=2)[pattern]
    F = 0.5 * n * (jnp.log(beta) - jnp.log(2.0 * jnp.pi)) - log_determinant
    F = F - 0.5 * beta * (psi0 - trace + statistics.y_squared - beta * squared)
    # As in `per_column`: a column cannot be explained by more than there is of it, whatever rounding says.
    possible = (beta * squared <= statistics.y_squared * (1.0 + _ROUNDING)) & (trace <= psi0 * (1.0 + _ROUNDING))
    return jnp.where(possible, F, jnp.nan), (beta, statistics, pattern, basis)


def _backward(saved, w):
    beta, statistics, pattern, basis = saved
    n_points = basis.whiten.shape[0]
    n, psi0 = statistics.n_rows[pattern], statistics.psi0[pattern]

    def one_column(column):
        w, beta, p, projected = column
        W = basis.psi2[p]
        La_inverse = _inverse_of_factor(beta, W)
        C = La_inverse @ projected
        U = La_inverse.T @ C
        G = _shrinkage(beta, W, La_inverse)
        UU = U[:, None] * U
        d_W = w * (0.5 * beta * G - 0.5 * beta**3 * UU)
        d_K = w * (0.5 * (G - beta * W) - 0.5 * beta**2 * UU)
        d_beta = 0.5 * (G * W).sum() + beta * C @ C - 0.5 * beta**2 * U @ W @ U
        return d_W, d_K, d_beta, U

    def without_weight(column):
        nothing = jnp.zeros((n_points, n_points))
        return nothing, nothing, jnp.zeros(()), jnp.zeros(n_points)

    def add_column(total, column):
        d_W, d_K = total
        has_weight = jnp.abs(column[0]) > _NO_WEIGHT
        of_W, of_K, d_beta, U = lax.cond(has_weight, one_column, without_weight, column)
        return (d_W.at[column[2]].add(of_W), d_K + of_K), (d_beta, U)

    start = jnp.zeros(basis.psi2.shape), jnp.zeros((n_points, n_points))
    (d_W, d_K), (d_beta, U) = lax.scan(add_column, start, (w, beta, pattern, basis.projected.T))

    def of_patterns(values):
        return jnp.zeros(statistics.n_rows.shape).at[pattern].add(values)

    d_statistics = Statistics(
        n_rows=of_patterns(0.5 * w * (jnp.log(beta) - jnp.log(2.0 * jnp.pi))),
        psi0=of_patterns(-0.5 * w * beta),
        psi1_y=basis.whiten.T @ (U.T * (w * beta**2)),
        psi2=congruent(basis.whiten.T, d_W),
        y_squared=-0.5 * beta * w,
    )
    d_beta = w * (d_beta + 0.5 * (n / beta - psi0 - statistics.y_squared))
    return basis.whiten.T @ d_K @ basis.whiten, d_beta, d_statistics, None


bounds_with_gaps.defvjp(_forward, _backward)


def _factor(beta: Float[Array, ""], W: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """La with La La' = I + beta W."""
    return jnp.linalg.cholesky(jnp.eye(W.shape[0]) + beta * W, symmetrize_input=False)


def _inverse_of_factor(beta: Float[Array, ""], W: Float[Array, "M M"]) -> Float[Array, "M M"]:
    return solve_triangular(_factor(beta, W), jnp.eye(W.shape[0]), lower=True)


def _shrinkage(beta: Float[Array, ""], W: Float[Array, "M M"], La_inverse: Float[Array, "M M"]) -> Float[Array, "M M"]:
    """G = I - A^-1 = beta W A^-1, without the difference."""
    G = beta * (W @ La_inverse.T) @ La_inverse
    return 0.5 * (G + G.T)
