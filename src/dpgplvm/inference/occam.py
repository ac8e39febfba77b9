"""The Occam factor: groupings are compared with the hyperparameters of every group integrated out.

At a mode, a wide prior density rewards every further group, because a weight that is switched off sits where the
density is high. Integrated over instead (Laplace, in log space, group by group), a group pays for each number it has
free.

A latent that no row uses is no part of the model: groups do not pay for its weights. Noise and scale of columns are as
many in every grouping, and stay at their mode.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.compiling import compiles_fast
from dpgplvm.inference.objective import Evaluation, Objective
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free

_STEP = 1e-4
OCCUPIED = 0.5  # columns, added up over their probabilities, from which on a group counts
_USED = 0.02  # nats a row from which on a latent counts


def corrected_bound(model: Model, Y: np.ndarray, here: Evaluation, n_in_play: int, brief: bool = False) -> float:
    """The bound with log p(theta_t) of every group replaced by its Laplace evidence; empty groups add nothing."""
    free = here.state.free
    occupied = np.asarray(here.state.phi).sum(axis=0) > OCCUPIED
    log_prior = np.asarray(_log_prior(model, free))
    counted = counted_numbers(model, free)
    curvatures = group_curvatures(model, Y, here, n_in_play, np.flatnonzero(counted), brief)
    # Never flatter than half the widest prior: away from a mode the likelihood can curve the wrong way.
    hyperprior = model.hyperprior
    flattest = 0.5 / max(hyperprior.relevance, hyperprior.scale, hyperprior.noise) ** 2
    log_determinants = np.log(np.maximum(np.linalg.eigvalsh(curvatures), flattest)).sum(axis=1)
    # Laplace in log space wants the density of the logs, whichever of the two the bound itself has.
    of_logs = np.asarray(_log_prior(replace(model, hyperprior=replace(hyperprior, density="log")), free))
    evidence = of_logs[:, counted].sum(axis=1) + 0.5 * counted.sum() * np.log(2.0 * np.pi) - 0.5 * log_determinants
    return float(here.value - log_prior[:n_in_play].sum() + evidence[occupied].sum())


def group_curvatures(
    model: Model,
    Y: np.ndarray,
    here: Evaluation,
    n_in_play: int,
    numbers: np.ndarray | None = None,
    brief: bool = False,
) -> np.ndarray:
    """[T, n, n] negative Hessian of the bound in the logs of n of each group's own hyperparameters, assignments held.

    `numbers` says which; None: all. Groups do not interact there, so one difference of gradients serves the same
    coordinate of all of them.
    """
    objective = Objective(model, Y, np.asarray(here.state.phi), n_in_play, brief=brief)
    free = jax.tree.map(np.asarray, here.state.free)
    at, slope = own_numbers(model, free), own_numbers(model, here.gradient)
    numbers = np.arange(at.shape[1]) if numbers is None else numbers
    curvature = np.empty((len(at), len(numbers), len(numbers)))
    for column, i in enumerate(numbers):
        step = np.zeros_like(at)
        step[:, i] = _STEP
        ahead = own_numbers(model, objective.evaluate(with_own_numbers(model, free, at + step)).gradient)
        curvature[:, :, column] = (slope - ahead)[:, numbers] / _STEP
    return 0.5 * (curvature + curvature.transpose(0, 2, 1))


def used_latents(model: Model, free: Free) -> np.ndarray:
    """[Q] whether the rows know more of a latent than its prior does."""
    mean, variance = map(np.asarray, marginals_of(model, free.latents))
    return 0.5 * (mean**2 + variance - 1.0 - np.log(variance)).mean(axis=0) > _USED


@compiles_fast("model")
def _log_prior(model: Model, free: Free) -> Array:
    return model.hyperprior.of_numbers(model.kernel, free)


def counted_numbers(model: Model, free: Free) -> np.ndarray:
    """[n] which of a group's numbers it pays for."""
    used = used_latents(model, free)
    parts = [used if parameter.per_latent else [True] for parameter in model.kernel.parameters.values()]
    return np.concatenate([*parts, [] if free.of_columns else [True]]).astype(bool)


def own_numbers(model: Model, free: Free) -> np.ndarray:
    """[T, n]: the logs of a group's own numbers, the kernel's hyperparameters in their order, then the noise."""
    leaves = [free.log_theta[name] for name in model.kernel.parameters]
    leaves += [] if free.of_columns else [free.log_noise_precision]
    return np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in leaves], axis=1)


def with_own_numbers(model: Model, free: Free, own: np.ndarray) -> Free:
    """The same with other numbers of the groups."""
    log_theta, at = dict(free.log_theta), 0
    for name in model.kernel.parameters:
        width = free.log_theta[name][0].size
        log_theta[name] = jnp.asarray(own[:, at : at + width].reshape(free.log_theta[name].shape))
        at += width
    noise = free.log_noise_precision if free.of_columns else jnp.asarray(own[:, at])
    return Free(free.latents, free.inducing, log_theta, noise, free.log_scale)
