"""Which latents a column listens to, in the same units for every kernel.

Let f be a column's posterior mean function, and let the latents vary independently, each as it does over the rows. The
relevance of latent q is the share of the variance of f that is lost when q stops varying,

    relevance_q = E[ Var(f | all other latents) ] / Var(f),

the total effect of a Sobol decomposition. It is 0 for a latent that f ignores, 1 for the only one it uses, and the sum
over latents exceeds 1 by what they do together. The linear part is the variance of the best straight line along q,
Cov(f, x_q)^2 / (Var(x_q) Var(f)), which is never more than the relevance.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from dpgplvm.model.bound import Model
from dpgplvm.model.kernels.base import standard_normal_draws
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import inducing_weights, mean_at
from dpgplvm.model.state import State


class Relevance(NamedTuple):
    """For every column, the share of its predicted variance that varies with each latent, and what of it is linear."""

    total: Float[Array, "D Q"]
    linear: Float[Array, "D Q"]
    predicted: Float[Array, " D"]  # the predicted variance itself, in the model's units


def relevance(
    model: Model, state: State, Y: Float[Array, "N D"], n_draws: int = 2**14, block: int | None = None
) -> Relevance:
    """Relevance of every latent for every column, from quasi-random latent points (to about a hundredth)."""
    weights = inducing_weights(model, state, Y, block)
    centre, spread = spread_of_latents(model.latent_prior.marginals(state.free.latents))
    n_latents = centre.shape[0]
    standard = standard_normal_draws(n_draws, 2 * n_latents)
    here, other = centre + spread * standard[:, :n_latents], centre + spread * standard[:, n_latents:]
    f = mean_at(model, state, weights, here)
    predicted = f.var(axis=0)
    # A column that is all noise has no predicted variance to share out.
    variance = jnp.where(predicted > 1e-12, predicted, jnp.inf)
    total, linear = [], []
    for q in range(n_latents):
        moved = mean_at(model, state, weights, here.at[:, q].set(other[:, q]))
        total.append(0.5 * ((f - moved) ** 2).mean(axis=0) / variance)
        slope = (f - f.mean(axis=0)).T @ standard[:, q] / n_draws
        linear.append(slope**2 / (np.mean(standard[:, q] ** 2) * variance))
    linear_share = jnp.stack(linear, axis=1)
    # Sampling error can put a linear effect above the total one, or that above the whole.
    total_share = jnp.minimum(jnp.stack(total, axis=1), 1.0)
    return Relevance(total_share, jnp.minimum(linear_share, total_share), predicted)


def spread_of_latents(marginals: Marginals) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Mean and standard deviation of each latent over the rows, the uncertainty of the rows included."""
    mean, variance = marginals
    return mean.mean(axis=0), jnp.sqrt(mean.var(axis=0) + variance.mean(axis=0))
