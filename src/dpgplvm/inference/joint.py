"""The paper's density of new rows: the difference of two bounds, L(Y, Y*) - L(Y)."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.climb import Climb, climb
from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.rows import Rows
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State

_MOST_ITERATIONS, _TOLERANCE = 200, 1e-9


class JointBound:
    """Bounds of the training table with rows added to it, hyperparameters and inducing points held."""

    def __init__(self, model: Model, state: State, Y: np.ndarray) -> None:
        self._model, self._state, self._Y = model, state, Y
        # Both bounds at their own optimum of q(X): a training that ended early must not count for the new rows.
        self._alone = self._climbed(state.free, Y)

    def gain(self, rows: Rows, Y: np.ndarray) -> float:
        """What the scaled rows Y add to the bound; `rows` is where their latents start."""
        prior = self._model.latent_prior
        mean, variance = map(np.asarray, marginals_of(self._model, self._alone.state.free.latents))
        both = (jnp.asarray(np.concatenate(pair)) for pair in ((mean, rows.mean), (variance, rows.variance)))
        latents = prior.start(*both)
        together = self._climbed(replace(self._alone.state.free, latents=latents), np.concatenate([self._Y, Y]))
        return together.value - self._alone.value

    def _climbed(self, free: Free, Y: np.ndarray) -> Climb:
        in_play = self._state.in_play
        given = None if self._model.inferred_groups else np.asarray(self._state.phi)
        objective = Objective(self._model, Y, given, None if in_play is None else int(np.sum(in_play)))
        held = {"inducing", "log_noise_precision", "log_scale", *free.log_theta}
        return climb(objective, jax.tree.map(np.asarray, free), _MOST_ITERATIONS, _TOLERANCE, hold=held)
