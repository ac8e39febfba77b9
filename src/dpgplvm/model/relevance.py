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
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model.bound import Model
from dpgplvm.model.kernels.base import standard_normal_draws
from dpgplvm.model.latents import Marginals
from dpgplvm.model.posterior import mean_at
from dpgplvm.model.state import State


class Relevance(NamedTuple):
    """For every column, the share of its predicted variance that varies with each latent, and what of it is linear."""

    total: Float[Array, "D Q"]
    linear: Float[Array, "D Q"]


def relevance(model: Model, state: State, weights: Float[Array, "T M D"], n_draws: int = 2**14) -> Relevance:
    """Relevance of every latent for every column, from quasi-random latent points (to about a hundredth); `weights` are
    those of the columns' mean functions (`inducing_weights`)."""
    centre, spread = spread_of_latents(model.latent_prior.marginals(state.free.latents))
    n_latents = centre.shape[0]
    standard = jnp.asarray(standard_normal_draws(n_draws, 2 * n_latents))
    here, other = centre + spread * standard[:, :n_latents], centre + spread * standard[:, n_latents:]
    f = mean_at(model, state, weights, here)
    predicted = f.var(axis=0)
    # A column that is all noise has no predicted variance to share out.
    variance = jnp.where(predicted > 1e-12, predicted, jnp.inf)

    def of_latent(q) -> tuple[Array, Array]:
        moved = mean_at(model, state, weights, here.at[:, q].set(other[:, q]))
        along = standard[:, q]
        slope = (f - f.mean(axis=0)).T @ along / n_draws
        return 0.5 * ((f - moved) ** 2).mean(axis=0) / variance, slope**2 / ((along**2).mean() * variance)

    total, linear = (shares.T for shares in lax.map(of_latent, jnp.arange(n_latents)))
    # Sampling error can put a linear effect above the total one, or that above the whole.
    total = jnp.minimum(total, 1.0)
    return Relevance(total, jnp.minimum(linear, total))


def spread_of_latents(marginals: Marginals) -> tuple[Float[Array, " Q"], Float[Array, " Q"]]:
    """Mean and standard deviation of each latent over the rows, the uncertainty of the rows included."""
    mean, variance = marginals
    return mean.mean(axis=0), jnp.sqrt(mean.var(axis=0) + variance.mean(axis=0))
