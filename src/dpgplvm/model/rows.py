"""The likelihood of single rows, given the functions that a fit has learned.

With q(u) fixed, rows are independent of each other. A row's expected log likelihood is linear in its psi statistics,
and so in the features of which psi2 is made,

    sum_d E[log p(y_d | x)] = sum_t (constant_t + linear_t . psi1_t - quadratic_t . features_t / 2 - level_t psi0_t / 2)

so the columns are summed up once, before anything is optimised; columns that are missing in a row are left out of its
sums.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import Features, Parameters
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import Functions


class RowCoefficients(NamedTuple):
    """What the columns of one group say about the latents of every row."""

    linear: Float[Array, "S M"]
    quadratic: Features  # of S rows
    level: Float[Array, " S"]
    constant: Float[Array, " S"]


def row_coefficients(
    functions: Functions,
    shares: Float[Array, " K"],
    noise_precision: Float[Array, " K"],
    values: Float[Array, "S K"],
    observed: Float[Array, "S K"],
) -> RowCoefficients:
    """Sums over the observed ones of the K columns, which belong to the group with probabilities `shares`; `values` are
    zero where they are missing."""
    weight = shares * noise_precision
    height = 0.5 * shares * (jnp.log(noise_precision) - jnp.log(2.0 * jnp.pi))
    return RowCoefficients(
        linear=(values * weight) @ functions.weights.T,
        quadratic=jax.tree.map(lambda part: (observed * weight) @ part, functions.squares),
        level=observed @ (weight * functions.prior),
        constant=observed @ height - 0.5 * values**2 @ weight,
    )


def row_likelihoods(
    model: Model,
    theta: Parameters,
    inducing: Float[Array, "M Q"],
    coefficients: RowCoefficients,
    rows: Marginals,
) -> Float[Array, " S"]:
    """What the columns of one group add to the bound of every row, under these marginals of its latents."""
    linear, quadratic, level, constant = coefficients
    psi1 = model.kernel.psi1(theta, rows.mean, rows.variance, inducing)
    features = model.kernel.psi2_features(theta, rows.mean, rows.variance, inducing)
    squares = jax.tree.map(lambda part, weights: (part * weights).sum(axis=1), features, quadratic)
    uncertain = sum(jax.tree.leaves(squares), start=level * model.kernel.psi0(theta, rows.mean, rows.variance))
    return constant + (linear * psi1).sum(axis=1) - 0.5 * uncertain
