"""q(u): what the fitted functions are, and their mean at given latents."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model.bound import Model, covariance_of_inducing
from dpgplvm.model.collapsed import factorise, mean_weights
from dpgplvm.model.per_column import Columns, diagonalise, mean_weights_of_columns
from dpgplvm.model.state import State
from dpgplvm.model.statistics import gather


def inducing_weights(
    model: Model, state: State, Y: Float[Array, "N D"], block: int | None = None
) -> Float[Array, "T M D"]:
    """beta (K + beta Psi2)^-1 Psi1'Y: the mean function of column d in group t is k(., Z) times this; 0 in groups that
    no column uses."""
    free = state.free
    marginals = model.latent_prior.marginals(free.latents)

    def one_group(group):
        t, log_theta = group
        theta, noise = jax.tree.map(jnp.exp, (log_theta, free.log_noise(t)))
        K = covariance_of_inducing(model, theta, free.inducing)
        statistics = gather(model.kernel, theta, *marginals, free.inducing, Y, block)
        if isinstance(noise, Columns):
            return mean_weights_of_columns(noise, diagonalise(K, statistics))
        return mean_weights(noise, factorise(K, noise, statistics))

    def unless_empty(group):
        weights = jnp.zeros((free.inducing.shape[0], Y.shape[1]))
        return lax.cond(_occupied(jnp.asarray(state.phi)[:, group[0]]), one_group, lambda _: weights, group)

    return lax.map(unless_empty, (jnp.arange(free.n_groups), free.log_theta))


def mean_at(model: Model, state: State, weights: Float[Array, "T M D"], X: Float[Array, "S Q"]) -> Float[Array, "S D"]:
    """Posterior mean of every column at the latent points X, mixed over its groups."""

    def add_group(total, group):
        log_theta, weights, phi = group

        def with_group(total):
            values = model.kernel.value(jax.tree.map(jnp.exp, log_theta), X, state.free.inducing)
            return total + phi * (values @ weights)

        return lax.cond(_occupied(phi), with_group, lambda total: total, total), None

    nothing = jnp.zeros((X.shape[0], weights.shape[-1]))
    total, _ = lax.scan(add_group, nothing, (state.free.log_theta, weights, state.phi.T))
    return total


def _occupied(phi: Float[Array, " D"]) -> Array:
    """Whether any column uses the group at all: groups that none uses are not worth computing."""
    return phi.max() > 1e-12
