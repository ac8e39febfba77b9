"""The evidence lower bound, whole and term by term.

    ELBO = sum_{d,t} phi[d,t] F[d,t] - KL(q(X) || p(X)) + L_DP(phi, a, b, w) + log p(hyperparameters)

The *grouped* bound above is mean-field with q(u_d | z_d) optimal for every z_d: a true lower bound, with T kernels. The
*mixed* bound is the paper's tilde notation: every column gets hyperparameters averaged over its groups, theta_d =
sum_t phi[d,t] theta_t, and a kernel of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from dpgplvm.model import sticks as dp
from dpgplvm.model.by_column import bounds_with_gaps
from dpgplvm.model.collapsed import column_bounds
from dpgplvm.model.hyperprior import Hyperprior
from dpgplvm.model.kernels import Kernel, Parameters
from dpgplvm.model.latents import LatentPrior, Marginals, StandardNormal
from dpgplvm.model.per_column import Columns, bounds_of_columns
from dpgplvm.model.state import Free, State
from dpgplvm.model.statistics import gather
from dpgplvm.model.table import Table

Noise = Float[Array, ""] | Columns  # of the group, or of every column


@dataclass(frozen=True)
class Model:
    """The choices that define a model; hashable, so that compiled functions can be keyed by it."""

    kernel: Kernel
    latent_prior: LatentPrior = StandardNormal()
    hyperprior: Hyperprior = Hyperprior()
    concentration: dp.Concentration = dp.Concentration()
    inferred_groups: bool = True  # False: the assignments are given, and there is no Dirichlet process
    jitter: float = 1e-6  # added to K, as a share of its mean diagonal


class Terms(NamedTuple):
    """The bound, term by term; `total` is their sum."""

    likelihood: Float[Array, ""]  # sum_{d,t} phi F
    latents: Float[Array, ""]  # -KL(q(X) || p(X))
    dirichlet_process: dp.StickTerms | None
    hyperprior: Float[Array, ""]  # log p(theta, beta)

    @property
    def total(self) -> Float[Array, ""]:
        return sum(jax.tree.leaves(self), start=jnp.zeros(()))


def group_bounds(
    model: Model,
    theta: Parameters,
    noise: Noise,
    marginals: Marginals,
    inducing: Float[Array, "M Q"],
    table: Table,
    jitter: Float[Array, ""] | None = None,
    block: int | None = None,
) -> Float[Array, " D"]:
    """F[:, t]: the collapsed bound of every column under one group's hyperparameters."""
    K = covariance_of_inducing(model, theta, inducing, jitter)
    statistics = gather(model.kernel, theta, marginals.mean, marginals.variance, inducing, table, block)
    if isinstance(noise, Columns):
        return bounds_of_columns(K, noise, statistics, table.pattern)
    if table.pattern is not None:
        return bounds_with_gaps(K, jnp.full(table.pattern.shape, noise), statistics, table.pattern)
    return column_bounds(K, noise, statistics)


def covariance_of_inducing(
    model: Model, theta: Parameters, inducing: Float[Array, "M Q"], jitter: Float[Array, ""] | None = None
) -> Float[Array, "M M"]:
    """K_uu, with `jitter` (the model's own, by default) times its mean diagonal added to its diagonal."""
    K = model.kernel.value(theta, inducing, inducing)
    share = model.jitter if jitter is None else jitter
    return K + share * jnp.trace(K) / K.shape[0] * jnp.eye(K.shape[0])


def grouped_bounds(
    model: Model, free: Free, marginals: Marginals, table: Table, block: int | None = None
) -> Float[Array, "D T"]:
    """F[d, t] of all groups, one after the other: a batched Cholesky can hang on the CPU, so this is never a vmap."""

    def one_group(group):
        t, log_theta = group
        theta, noise = jax.tree.map(jnp.exp, (log_theta, free.log_noise(t)))
        return group_bounds(model, theta, noise, marginals, free.inducing, table, block=block)

    return lax.map(one_group, (jnp.arange(free.n_groups), free.log_theta)).T


def mixed_bounds(
    model: Model,
    theta: Parameters,
    noise_precision: Float[Array, " T"],
    phi: Float[Array, "D T"],
    marginals: Marginals,
    inducing: Float[Array, "M Q"],
    table: Table,
    block: int | None = None,
) -> Float[Array, " D"]:
    """F_d with hyperparameters averaged over groups: D kernels, one column each."""

    @jax.checkpoint
    def one_column(column):
        theta_d, noise_precision_d, *rows = column
        alone = Table(*(values[:, None] for values in rows), *([] if len(rows) == 1 else [jnp.zeros(1, dtype=int)]))
        return group_bounds(model, theta_d, noise_precision_d, marginals, inducing, alone, block=block)[0]

    rows = [table.values.T] if table.observed is None else [table.values.T, table.observed.T[table.pattern]]
    return lax.map(one_column, (*mix(phi, theta, noise_precision), *rows))


def mix(
    phi: Float[Array, "D T"], theta: Parameters, noise_precision: Float[Array, " T"]
) -> tuple[Parameters, Float[Array, " D"]]:
    """E_q(z_d) of the hyperparameters, for every column."""
    return jax.tree.map(lambda values: phi @ values, (theta, noise_precision))


def elbo_terms(model: Model, state: State, table: Table, mixed: bool = False, block: int | None = None) -> Terms:
    """The bound at `state`, term by term: one differentiable function of everything in it."""
    free, phi = state.free, jnp.asarray(state.phi)
    marginals = model.latent_prior.marginals(free.latents)
    if mixed:
        theta, noise_precision = jax.tree.map(jnp.exp, (free.log_theta, free.log_noise_precision))
        F_d = mixed_bounds(model, theta, noise_precision, phi, marginals, free.inducing, table, block)
        likelihood = F_d.sum()
    else:
        F = grouped_bounds(model, free, marginals, table, block)
        likelihood = (phi * F).sum()
    return Terms(likelihood, *other_terms(model, state))


def other_terms(model: Model, state: State) -> tuple[Array, dp.StickTerms | None, Array]:
    """Every term of the bound but the likelihood."""
    free = state.free
    log_prior = model.hyperprior.of_groups(model.kernel, free)
    return (
        -model.latent_prior.divergence(free.latents),
        dp.terms(jnp.asarray(state.phi), state.sticks, model.concentration) if model.inferred_groups else None,
        (log_prior if state.in_play is None else state.in_play * log_prior).sum() + model.hyperprior.of_columns(free),
    )
