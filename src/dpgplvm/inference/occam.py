"""The Occam factor: groupings are compared with the hyperparameters of every group integrated out.

At a mode, a wide prior density rewards every further group, because a weight that is switched off sits where the
density is high. Integrated over instead (Laplace, in log space, group by group), a group pays for each number it has
free.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State

_STEP = 1e-3
OCCUPIED = 0.5  # columns, added up over their probabilities, from which on a group counts


def corrected_bound(model: Model, Y: np.ndarray, state: State, value: float, n_in_play: int) -> float:
    """The bound with log p(theta_t) of every group replaced by its Laplace evidence; empty groups add nothing."""
    free = jax.tree.map(jnp.asarray, state.free)
    occupied = np.asarray(state.phi).sum(axis=0) > OCCUPIED
    log_prior = np.asarray(model.hyperprior.log_density(model.kernel, free.log_theta, free.log_noise_precision))
    curvatures = group_curvatures(model, Y, state, n_in_play)
    n_free = curvatures.shape[1]
    # Never flatter than the prior alone: away from a mode the likelihood can curve the wrong way.
    hyperprior = model.hyperprior
    flattest = 0.5 / max(hyperprior.relevance, hyperprior.scale, hyperprior.noise) ** 2
    log_determinants = np.log(np.maximum(np.linalg.eigvalsh(curvatures), flattest)).sum(axis=1)
    evidence = log_prior + 0.5 * n_free * np.log(2.0 * np.pi) - 0.5 * log_determinants
    return float(value - log_prior[:n_in_play].sum() + evidence[occupied].sum())


def group_curvatures(model: Model, Y: np.ndarray, state: State, n_in_play: int) -> np.ndarray:
    """[T, n, n] negative Hessian of the bound in the logs of each group's own n hyperparameters, assignments held.

    Groups do not interact there, so one pair of gradients serves the same coordinate of all of them.
    """
    objective = Objective(model, Y, np.asarray(state.phi), n_in_play)
    free = jax.tree.map(np.asarray, state.free)
    at = _own(free)
    columns = []
    for i in range(at.shape[1]):
        step = np.zeros_like(at)
        step[:, i] = _STEP
        up = _own(objective.evaluate(_with_own(free, at + step)).gradient)
        down = _own(objective.evaluate(_with_own(free, at - step)).gradient)
        columns.append((down - up) / (2 * _STEP))
    curvature = np.stack(columns, axis=2)
    return 0.5 * (curvature + curvature.transpose(0, 2, 1))


def _own(free: Free) -> np.ndarray:
    """[T, n]: the logs of what each group has for itself."""
    leaves = jax.tree.leaves((free.log_theta, free.log_noise_precision))
    return np.concatenate([np.asarray(leaf).reshape(len(leaf), -1) for leaf in leaves], axis=1)


def _with_own(free: Free, own: np.ndarray) -> Free:
    leaves, structure = jax.tree.flatten((free.log_theta, free.log_noise_precision))
    ends = np.cumsum([leaf[0].size for leaf in leaves])[:-1]
    pieces = np.split(own, ends, axis=1)
    shaped = [jnp.asarray(piece.reshape(leaf.shape)) for piece, leaf in zip(pieces, leaves, strict=True)]
    log_theta, log_noise_precision = jax.tree.unflatten(structure, shaped)
    return Free(free.latents, free.inducing, log_theta, log_noise_precision)
