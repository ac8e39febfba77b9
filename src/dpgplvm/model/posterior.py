"""q(u): what the fitted functions are, and what they predict at given or uncertain latents."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from dpgplvm.model.bound import Model, Noise, covariance_of_inducing
from dpgplvm.model.by_column import mean_weights
from dpgplvm.model.kernels import Features, Parameters
from dpgplvm.model.latents import Marginals
from dpgplvm.model.per_column import Columns, diagonalise
from dpgplvm.model.state import State
from dpgplvm.model.statistics import Statistics, gather
from dpgplvm.model.table import Table


class Functions(NamedTuple):
    """What predictions need of the functions of K columns of one group. With the psi statistics of a row,

    E[f_k] = psi1 weights_k,    E[f_k^2] = prior_k psi0 + features . squares_k

    with the features of the kernel, in which psi2 is linear.
    """

    weights: Float[Array, "M K"]
    squares: Features  # of K columns
    prior: Float[Array, " K"]  # s^2


class Diagonal(NamedTuple):
    """The functions of K columns of one group where the latent x is certain, without a matrix for every column: with
    a = whiten_p k(Z, x), which all columns with the pattern p of gaps share,

    E[f_k] = weights_k . a,    Var[f_k] = prior_k k(x, x) - shrinkage_k . a^2.

    All of it is of order one, where `Functions` has large numbers that cancel.
    """

    whiten: Float[Array, "P M M"]
    weights: Float[Array, "K M"]
    shrinkage: Float[Array, "K M"]
    prior: Float[Array, " K"]  # s^2
    pattern: Int[Array, " K"]


def inducing_weights(model: Model, state: State, table: Table, block: int | None = None) -> Float[Array, "T M D"]:
    """beta (K + beta Psi2)^-1 Psi1'Y: the mean function of column d in group t is k(., Z) times this; 0 in groups that
    no column uses."""
    free = state.free
    nothing = jnp.zeros((free.inducing.shape[0], table.values.shape[1]))
    marginals = model.latent_prior.marginals(free.latents)

    def weights(group):
        t, log_theta = group
        theta, noise = jax.tree.map(jnp.exp, (log_theta, free.log_noise(t)))
        K, statistics, columns = _learned_by_group(model, theta, noise, marginals, free.inducing, table, block)
        return mean_weights(K, columns.noise_precision * columns.scale**2, statistics, table.pattern)

    def unless_empty(group):
        return lax.cond(_occupied(jnp.asarray(state.phi)[:, group[0]]), weights, lambda _: nothing, group)

    return lax.map(unless_empty, (jnp.arange(free.n_groups), free.log_theta))


def functions(model: Model, theta: Parameters, inducing: Float[Array, "M Q"], diagonal: Diagonal) -> Functions:
    """What they are for latents that are uncertain."""
    whiten = diagonal.whiten[diagonal.pattern]
    weights = (diagonal.weights[:, None, :] @ whiten)[:, 0]
    shrinkage = jnp.swapaxes(whiten * diagonal.shrinkage[:, :, None], 1, 2) @ whiten
    second = weights[:, :, None] * weights[:, None, :] - shrinkage
    return Functions(weights.T, model.kernel.weights_of_features(theta, inducing, second), diagonal.prior)


def diagonal_functions(
    model: Model,
    theta: Parameters,
    noise: Noise,
    marginals: Marginals,
    inducing: Float[Array, "M Q"],
    table: Table,
    block: int | None = None,
) -> Diagonal:
    """The functions of all columns of `table` in a group with these hyperparameters."""
    K, statistics, (noise_precision, scale) = _learned_by_group(model, theta, noise, marginals, inducing, table, block)
    psi2, pattern = statistics.psi2, table.pattern
    if pattern is None:
        psi2, pattern = psi2[None], np.zeros(len(scale), dtype=int)
    whiten, eigenvalues, projected = lax.map(lambda psi2: diagonalise(K, statistics._replace(psi2=psi2)), psi2)
    beta = (noise_precision * scale**2)[:, None]
    grown = beta * eigenvalues[pattern]
    return Diagonal(
        whiten=whiten,
        weights=beta * projected[pattern, :, np.arange(len(pattern))] / (1.0 + grown),
        shrinkage=(scale**2)[:, None] * grown / (1.0 + grown),
        prior=scale**2,
        pattern=jnp.asarray(pattern),
    )


def _learned_by_group(
    model: Model,
    theta: Parameters,
    noise: Noise,
    marginals: Marginals,
    inducing: Float[Array, "M Q"],
    table: Table,
    block: int | None,
) -> tuple[Float[Array, "M M"], Statistics, Columns]:
    """What the posterior of the functions is made of: covariance, statistics, and every column's noise and scale."""
    K = covariance_of_inducing(model, theta, inducing)
    statistics = gather(model.kernel, theta, marginals.mean, marginals.variance, inducing, table, block)
    one = jnp.ones(table.values.shape[1])
    return K, statistics, noise if isinstance(noise, Columns) else Columns(noise * one, one)


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


def moments_at(
    model: Model, theta: Parameters, inducing: Float[Array, "M Q"], functions: Functions, rows: Marginals
) -> tuple[Float[Array, "S K"], Float[Array, "S K"]]:
    """Mean and variance of the functions of a group's columns, for rows whose latents are uncertain."""
    weights, squares, prior = functions
    mean = model.kernel.psi1(theta, rows.mean, rows.variance, inducing) @ weights
    features = model.kernel.psi2_features(theta, rows.mean, rows.variance, inducing)
    explained = jax.tree.map(lambda part, weights: part @ weights.T, features, squares)
    second = sum(jax.tree.leaves(explained), start=model.kernel.psi0(theta, rows.mean, rows.variance)[:, None] * prior)
    return mean, jnp.maximum(second - mean**2, 0.0)


def moments_at_points(
    model: Model, theta: Parameters, inducing: Float[Array, "M Q"], diagonal: Diagonal, X: Float[Array, "S Q"]
) -> tuple[Float[Array, "S K"], Float[Array, "S K"]]:
    """The same where the latents are certain."""
    values = model.kernel.value(theta, X, inducing)
    prior = model.kernel.diagonal(theta, X)[:, None] * diagonal.prior
    whiten, weights, shrinkage, _, pattern = diagonal
    if whiten.shape[0] == 1:
        whitened = values @ whiten[0].T
        mean, explained = whitened @ weights.T, whitened**2 @ shrinkage.T
    else:
        whitened = (values @ whiten.reshape(-1, whiten.shape[2]).T).reshape(-1, *whiten.shape[:2])[:, pattern]
        mean, explained = (whitened * weights).sum(axis=2), (whitened**2 * shrinkage).sum(axis=2)
    return mean, jnp.maximum(prior - explained, 0.0)


def slopes_at_points(
    model: Model,
    theta: Parameters,
    inducing: Float[Array, "M Q"],
    functions: Functions,
    X: Float[Array, "S Q"],
    directions: Float[Array, "V Q"],
) -> Float[Array, "V S K"]:
    """Derivatives of the mean functions of a group's columns along some directions."""
    return model.kernel.slopes(theta, X, inducing, functions.weights, directions)


def covariances_at_points(
    model: Model, theta: Parameters, inducing: Float[Array, "M Q"], diagonal: Diagonal, X: Float[Array, "S Q"]
) -> tuple[Float[Array, "S K"], Float[Array, "K S S"]]:
    """Means of the functions of a group's columns at certain latents, and how they vary together there."""
    whitened = (model.kernel.value(theta, X, inducing) @ jnp.swapaxes(diagonal.whiten, 1, 2))[diagonal.pattern]
    mean = jnp.einsum("ksm,km->sk", whitened, diagonal.weights)
    explained = (whitened * diagonal.shrinkage[:, None]) @ jnp.swapaxes(whitened, 1, 2)
    return mean, diagonal.prior[:, None, None] * model.kernel.value(theta, X, X) - explained


def _occupied(phi: Float[Array, " D"]) -> Array:
    """Whether any column uses the group at all: groups that none uses are not worth computing."""
    return phi.max() > 1e-12
