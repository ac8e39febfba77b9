"""q(u): what the fitted functions are, and their mean at given latents."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model.bound import Model, covariance_of_inducing
from dpgplvm.model.collapsed import factorise, mean_weights
from dpgplvm.model.state import State
from dpgplvm.model.statistics import gather


def inducing_weights(
    model: Model, state: State, Y: Float[Array, "N D"], block: int | None = None
) -> Float[Array, "T M D"]:
    """beta (K + beta Psi2)^-1 Psi1'Y: the mean function of column d in group t is k(., Z) times this."""
    free = state.free
    marginals = model.latent_prior.marginals(free.latents)

    def one_group(group):
        theta, beta = group
        K = covariance_of_inducing(model, theta, free.inducing)
        statistics = gather(model.kernel, theta, *marginals, free.inducing, Y, block)
        return mean_weights(beta, factorise(K, beta, statistics))

    return lax.map(one_group, jax.tree.map(jnp.exp, (free.log_theta, free.log_noise_precision)))


def mean_at(model: Model, state: State, weights: Float[Array, "T M D"], X: Float[Array, "S Q"]) -> Float[Array, "S D"]:
    """Posterior mean of every column at the latent points X, mixed over its groups."""

    def add_group(total, group):
        log_theta, weights, phi = group
        values = model.kernel.value(jax.tree.map(jnp.exp, log_theta), X, state.free.inducing)
        return total + phi * (values @ weights), None

    nothing = jnp.zeros((X.shape[0], weights.shape[-1]))
    total, _ = lax.scan(add_group, nothing, (state.free.log_theta, weights, state.phi.T))
    return total
