"""The collapsed bound of one group when every column has a noise and a scale of its own.

y_d = s_d f_d + noise of precision beta_d. Columns of a group share K and Psi2, so one eigendecomposition serves all of
them: with K = L L' and L^-1 Psi2 L^-T = U diag(l) U', and P = U' L^-1 Psi1'Y,

    log|I + beta_d W| = sum_m log(1 + beta_d l_m),    |C_d|^2 = sum_m P_md^2 / (1 + beta_d l_m),

and a column costs O(M). The adjoint is taken in the same basis, where eigenvalues that coincide do no harm.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float, Int

from dpgplvm.model.by_column import bounds_with_gaps
from dpgplvm.model.statistics import Statistics

_ROUNDING = 1e-6


class Columns(NamedTuple):
    """What every column has for itself."""

    noise_precision: Float[Array, " D"]  # beta_d
    scale: Float[Array, " D"]  # s_d


class Spectrum(NamedTuple):
    """One group's posterior in the basis in which it is diagonal for every column."""

    whiten: Float[Array, "M M"]  # U' L^-1
    eigenvalues: Float[Array, " M"]  # l
    projected: Float[Array, "M D"]  # P


def diagonalise(K: Float[Array, "M M"], statistics: Statistics) -> Spectrum:
    """Diagonalise once what value, adjoint and predictions all need."""
    whiten = solve_triangular(jnp.linalg.cholesky(K), jnp.eye(K.shape[0]), lower=True)
    W = whiten @ statistics.psi2 @ whiten.T
    eigenvalues, U = jnp.linalg.eigh(0.5 * (W + W.T))
    whiten = U.T @ whiten
    return Spectrum(whiten, jnp.maximum(eigenvalues, 0.0), whiten @ statistics.psi1_y)


def bounds_of_columns(
    K: Float[Array, "M M"],
    columns: Columns,
    statistics: Statistics,
    pattern: Int[Array | np.ndarray, " D"] | None = None,
) -> Float[Array, " D"]:
    """F[d] for every column, with gaps where `pattern` says which; NaN where K is not positive definite."""
    scale = columns.scale
    beta = columns.noise_precision * scale**2
    unscaled = statistics._replace(psi1_y=statistics.psi1_y / scale, y_squared=statistics.y_squared / scale**2)
    if pattern is None:
        return _bounds(K, beta, unscaled) - statistics.n_rows * jnp.log(scale)
    return bounds_with_gaps(K, beta, unscaled, pattern) - statistics.n_rows[pattern] * jnp.log(scale)


@jax.custom_vjp
def _bounds(K: Float[Array, "M M"], beta: Float[Array, " D"], statistics: Statistics) -> Float[Array, " D"]:
    return _forward(K, beta, statistics)[0]


def _forward(K, beta, statistics):
    spectrum = diagonalise(K, statistics)
    n, psi0, _, _, y_squared = statistics
    _, eigenvalues, P = spectrum
    grown = beta * eigenvalues[:, None]
    F = 0.5 * n * (jnp.log(beta) - jnp.log(2.0 * jnp.pi)) - 0.5 * jnp.log1p(grown).sum(axis=0)
    explained = beta * (P**2 / (1.0 + grown)).sum(axis=0)
    F = F - 0.5 * beta * (psi0 - eigenvalues.sum() + y_squared - explained)
    # A column cannot be explained by more than there is of it. Where rounding says so, at absurd precisions, the bound
    # would be without limit: no number is better than a wrong one.
    F = jnp.where(
        (explained <= y_squared * (1.0 + _ROUNDING)) & (eigenvalues.sum() <= psi0 * (1.0 + _ROUNDING)), F, jnp.nan
    )
    return F, (beta, statistics, spectrum)


def _backward(saved, w):
    beta, statistics, (whiten, eigenvalues, P) = saved
    n, psi0, _, _, y_squared = statistics
    left = 1.0 / (1.0 + beta * eigenvalues[:, None])  # [M, D]: what the data leave of the prior's variance
    shrinkage = 1.0 - left
    V = P * left
    per_direction = 0.5 * shrinkage @ (w * beta)
    d_psi2 = jnp.diag(per_direction) - 0.5 * (V * (w * beta**3)) @ V.T
    d_K = -jnp.diag(per_direction * eigenvalues) - 0.5 * (V * (w * beta**2)) @ V.T
    d_beta = 0.5 * (n / beta + eigenvalues @ shrinkage - psi0 - y_squared)
    d_beta = d_beta + beta * (P * V).sum(axis=0) - 0.5 * beta**2 * (eigenvalues @ V**2)
    d_statistics = Statistics(
        n_rows=0.5 * w @ (jnp.log(beta) - jnp.log(2.0 * jnp.pi)),
        psi0=-0.5 * w @ beta,
        psi1_y=whiten.T @ (V * (w * beta**2)),
        psi2=whiten.T @ d_psi2 @ whiten,
        y_squared=-0.5 * beta * w,
    )
    return whiten.T @ d_K @ whiten, w * d_beta, d_statistics


_bounds.defvjp(_forward, _backward)
