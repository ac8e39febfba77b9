"""Groupings of the columns as places to climb from, and what became of them."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.axes import gradient_moments
from dpgplvm.inference.climb import Climb, climb
from dpgplvm.inference.objective import Objective, rows_per_block
from dpgplvm.inference.occam import OCCUPIED, corrected_bound
from dpgplvm.inference.outcome import Outcome
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State
from dpgplvm.numerics import NumericalError


class Interrupted(Exception):
    """Ends a search; what it had reached is kept by whoever runs it."""


class Grouping(NamedTuple):
    """A fitted grouping: its groups come first and largest first, and spare groups follow."""

    climb: Climb
    corrected: float  # the bound with the Occam factor
    n_groups: int
    bounds: np.ndarray  # F [D, T]

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.climb.state.phi).argmax(axis=1)

    @property
    def free(self) -> Free:
        return self.climb.state.free


class Problem(NamedTuple):
    """What every grouping of one fit shares."""

    model: Model
    Y: np.ndarray

    def fit(self, start: Free, labels: np.ndarray, n_held: int, n_free: int, tol: float) -> Grouping:
        """Climb with the columns held in these groups, then with assignments inferred among them."""
        n_groups = labels.max() + 1
        if n_held:
            one_hot = np.eye(len(start.log_noise_precision))[labels]
            held = climb(Objective(self.model, self.Y, one_hot, n_groups), start, n_held, tol)
            if held.outcome is Outcome.INTERRUPTED:
                raise Interrupted
            start = held.state.free
        ended = climb(Objective(self.model, self.Y, n_in_play=n_groups), start, n_free, tol)
        if ended.outcome is Outcome.INTERRUPTED:
            raise Interrupted
        return self.judge(ended)

    def try_to_fit(self, start: Free, labels: np.ndarray, n_held: int, n_free: int, tol: float) -> Grouping | None:
        """The same, or None where the bound cannot be evaluated: one place among many to climb from."""
        try:
            return self.fit(start, labels, n_held, n_free, tol)
        except NumericalError:
            return None

    def judge(self, ended: Climb) -> Grouping:
        """Empty groups put aside, the others sorted by size, which the stick-breaking prior favours, and the bound
        corrected."""
        phi = np.asarray(ended.state.phi)
        sizes = phi.sum(axis=0)
        order = np.argsort(-sizes, kind="stable")
        n_groups = int((sizes > OCCUPIED).sum())
        free = reordered(ended.state.free, order)
        tidy = Objective(self.model, self.Y, n_in_play=n_groups).evaluate(free)
        state = jax.tree.map(np.asarray, tidy.state)
        ended = ended._replace(state=state, terms=tidy.terms, value=tidy.value)
        corrected = corrected_bound(self.model, self.Y, state, tidy.value, n_groups)
        return Grouping(ended, corrected, n_groups, np.asarray(tidy.bounds))

    def moments(self, state: State) -> np.ndarray:
        """[D, Q, Q] second moments of the gradients of the columns' mean functions."""
        n_rows, n_columns = self.Y.shape
        block = rows_per_block(n_rows, n_columns, state.free.inducing.shape[0])
        return np.asarray(gradient_moments(self.model, state, self.Y, block))


def reordered(free: Free, order: np.ndarray) -> Free:
    """The same latents with the groups in another order."""
    log_theta, log_noise_precision = jax.tree.map(
        lambda value: jnp.asarray(np.asarray(value)[order]), (free.log_theta, free.log_noise_precision)
    )
    return Free(free.latents, free.inducing, log_theta, log_noise_precision)


def start_from_labels(model: Model, free: Free, labels: np.ndarray, moments: np.ndarray) -> Free:
    """A start for a grouping: every group listens as its columns do on average; spare groups as all columns do.

    A unit-variance RBF process with ARD weight gamma has gradients of mean square gamma, so the mean square gradients
    of a group's columns, in units of their predicted variance, are its weights.
    """
    listens = np.diagonal(moments, axis1=1, axis2=2)
    truncation = len(free.log_noise_precision)
    members = [labels == t if t <= labels.max() else np.ones(len(labels), dtype=bool) for t in range(truncation)]
    weights = np.log([np.clip(listens[own].mean(axis=0), 1e-3, 10.0) for own in members])
    log_theta = {
        name: jnp.asarray(weights)
        if parameter.role == "relevance"
        else jnp.full_like(free.log_theta[name], np.asarray(free.log_theta[name])[: labels.max() + 1].mean())
        for name, parameter in model.kernel.parameters.items()
    }
    noise = jnp.full(truncation, np.asarray(free.log_noise_precision)[0])
    return Free(free.latents, free.inducing, log_theta, noise)
