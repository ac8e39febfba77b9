"""The collapsed bound of one group, F[d] for every column d, and its adjoint in closed form.

With K = L L', W = L^-1 Psi2 L^-T, A = I + beta W = La La', C = La^-1 L^-1 Psi1'Y (appendix B of the paper)

    F[d] = -N/2 log 2pi + N/2 log beta - log|La| - beta/2 psi0 + beta/2 tr W - beta/2 y_d'y_d + beta^2/2 |C_d|^2.

The adjoint does not pass through the Cholesky factors. With U = A^-1 L^-1 Psi1'Y and G = I - A^-1 = beta W A^-1 it is

    d/dK    = L^-T [ n/2 (G - beta W) - beta^2/2 U diag(w) U' ] L^-1
    d/dPsi2 = L^-T [ n beta/2 G - beta^3/2 U diag(w) U' ] L^-1

for cotangents w with sum n. Everything is subtracted in this whitened basis, where all of it is of order one: formed
from K^-1 and (K + beta Psi2)^-1 instead, a smooth kernel loses half of the digits.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from dpgplvm.model.statistics import Statistics


class Factors(NamedTuple):
    """The factorised posterior of the inducing outputs of one group."""

    whiten: Float[Array, "M M"]  # L^-1
    whiten_posterior: Float[Array, "M M"]  # La^-1
    projected: Float[Array, "M D"]  # C = La^-1 L^-1 Psi1'Y
    whitened_psi2: Float[Array, "M M"]  # W
    log_determinant: Float[Array, ""]  # log|La|


def factorise(K: Float[Array, "M M"], beta: Float[Array, ""], statistics: Statistics) -> Factors:
    """Factorise once what value, adjoint and predictions all need."""
    identity = jnp.eye(K.shape[0])
    whiten = solve_triangular(jnp.linalg.cholesky(K), identity, lower=True)
    W = whiten @ statistics.psi2 @ whiten.T
    W = 0.5 * (W + W.T)  # a smooth kernel loses two digits of its gradient to what rounding leaves unsymmetric
    La = jnp.linalg.cholesky(identity + beta * W)
    whiten_posterior = solve_triangular(La, identity, lower=True)
    projected = whiten_posterior @ (whiten @ statistics.psi1_y)
    return Factors(whiten, whiten_posterior, projected, W, jnp.log(jnp.diagonal(La)).sum())


@jax.custom_vjp
def column_bounds(K: Float[Array, "M M"], beta: Float[Array, ""], statistics: Statistics) -> Float[Array, " D"]:
    """F[d] for every column; equation (f_d) of the paper. NaN where K is not positive definite."""
    return _value(beta, statistics, factorise(K, beta, statistics))


def _value(beta, statistics, factors):
    n, psi0, _, _, y_squared = statistics
    shared = 0.5 * n * (jnp.log(beta) - jnp.log(2.0 * jnp.pi)) - factors.log_determinant
    shared = shared - 0.5 * beta * psi0 + 0.5 * beta * jnp.trace(factors.whitened_psi2)
    return shared - 0.5 * beta * y_squared + 0.5 * beta**2 * (factors.projected**2).sum(axis=0)


def _forward(K, beta, statistics):
    factors = factorise(K, beta, statistics)
    return _value(beta, statistics, factors), (beta, statistics, factors)


def _backward(saved, w):
    beta, statistics, factors = saved
    n, psi0, _, _, y_squared = statistics
    L_inverse, W = factors.whiten, factors.whitened_psi2
    U = factors.whiten_posterior.T @ factors.projected
    UU = (U * w) @ U.T
    shrinkage = beta * (W @ factors.whiten_posterior.T) @ factors.whiten_posterior  # G
    shrinkage = 0.5 * (shrinkage + shrinkage.T)
    total = w.sum()
    d_K = L_inverse.T @ (0.5 * total * (shrinkage - beta * W) - 0.5 * beta**2 * UU) @ L_inverse
    d_psi2 = L_inverse.T @ (0.5 * total * beta * shrinkage - 0.5 * beta**3 * UU) @ L_inverse
    d_beta = (
        0.5 * total * (n / beta + (shrinkage * W).sum() - psi0)
        - 0.5 * w @ y_squared
        + beta * w @ (factors.projected**2).sum(axis=0)
        - 0.5 * beta**2 * (UU * W).sum()
    )
    d_statistics = Statistics(
        n_rows=0.5 * total * (jnp.log(beta) - jnp.log(2.0 * jnp.pi)),
        psi0=-0.5 * total * beta,
        psi1_y=beta**2 * (L_inverse.T @ U) * w,
        psi2=d_psi2,
        y_squared=-0.5 * beta * w,
    )
    return d_K, d_beta, d_statistics


column_bounds.defvjp(_forward, _backward)
