"""Groupings of the columns as places to climb from, and what became of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from dpgplvm.inference.axes import Slopes, slopes
from dpgplvm.inference.climb import NO_CEILING, Callback, Ceiling, Climb, climb
from dpgplvm.inference.compiled import marginals_of, weights_of
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.occam import OCCUPIED, corrected_bound
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical
from dpgplvm.inference.progress import SILENT, Reporter
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State
from dpgplvm.numerics import NumericalError

# A climb is given up when it would have to be faster than in its last so many iterations to get where it should.
_ITERATIONS_WATCHED = 6
# Columns that go back to where they were have answered the question, unless their latents gained this much by it.
GAIN_OF_LATENTS = 5.0
# Weights times this, variances of latents and shares of noise no less than these, and so many iterations: functions
# smooth enough to unfold.
_SMOOTHER, _VAGUE, _NOISY, _SMOOTH = 0.3, 0.1, 0.1, 120
# Iterations and tolerance of hyperparameters that have new columns.
_SETTLING, _SETTLED = 40, 1e-7


class _Hopeless(Exception):
    """Ends a climb that will not get where it should."""


class _Watch:
    """Gives up a climb that is too slow to reach the bound that is wanted in the iterations that it has."""

    def __init__(self, wanted: float, n_iterations: int) -> None:
        self._wanted, self._n_iterations = wanted, n_iterations
        self._values: list[float] = []

    def __call__(self, iteration: int, value: float) -> None:
        self._values.append(value)
        if len(self._values) > _ITERATIONS_WATCHED:
            gain = (value - self._values[-1 - _ITERATIONS_WATCHED]) / _ITERATIONS_WATCHED
            if value + gain * (self._n_iterations - iteration) < self._wanted:
                raise _Hopeless


class Interrupted(Exception):
    """Ends a search; whoever runs it keeps the best of what was reached before and of where this climb was."""

    def __init__(self, problem: Problem, reached: Climb) -> None:
        super().__init__(problem, reached)
        self.problem, self.reached = problem, reached


class Grouping(NamedTuple):
    """A fitted grouping: its groups come first and largest first, and spare groups follow."""

    model: Model  # whose kernel is not that of every grouping of a search
    climb: Climb
    corrected: float  # the bound with the Occam factor
    n_groups: int
    bounds: np.ndarray  # F [D, T]

    @property
    def occam_per_group(self) -> float:
        return (self.climb.value - self.corrected) / self.n_groups

    @property
    def labels(self) -> np.ndarray:
        return np.asarray(self.climb.state.phi).argmax(axis=1)

    @property
    def free(self) -> Free:
        return self.climb.state.free

    @property
    def most_groups(self) -> int:
        """How many there can be."""
        return min(len(self.bounds), self.free.n_groups)

    def ended(self, outcome: Outcome) -> Grouping:
        """The same grouping with another outcome of its climb."""
        return self._replace(climb=self.climb._replace(outcome=outcome))


class Problem(NamedTuple):
    """What every grouping of one fit shares."""

    model: Model
    Y: np.ndarray
    ceiling: Ceiling = NO_CEILING
    reporter: Reporter = SILENT
    brief: bool = False  # some dozens of evaluations are all that is asked for

    def fit(
        self,
        start: Free,
        labels: np.ndarray,
        n_held: int,
        n_free: int,
        tol: float,
        watch: Callback | None = None,
    ) -> Grouping:
        """Climb with the columns held in these groups, then with assignments inferred among them."""
        return self._inferred(self._held(start, labels, n_held, tol, watch), labels, n_free, tol, watch)

    def try_to_beat(
        self, best: Grouping, start: Free, labels: np.ndarray, n_held: int, n_free: int, tol: float
    ) -> Grouping | None:
        """The same, or None: where the bound cannot be evaluated, as soon as it is plain that it stays below, or where
        columns that are free go back to the groups that they came from and next to nothing is won by it."""
        wanted = best.corrected + best.occam_per_group * (labels.max() + 1)
        try:
            start = self._held(start, labels, n_held, tol, _Watch(wanted, n_held + n_free))
            if not np.array_equal(canonical(labels), canonical(best.labels)):
                freed = self.objective(labels.max() + 1).evaluate(start)
                back = np.array_equal(canonical(np.asarray(freed.state.phi).argmax(axis=1)), canonical(best.labels))
                if back and freed.value < best.climb.value + GAIN_OF_LATENTS:
                    return None
            return self._inferred(start, labels, n_free, tol, _Watch(wanted, n_free))
        except (NumericalError, _Hopeless):
            return None

    def objective(self, n_in_play: int, assignments: np.ndarray | None = None) -> Objective:
        return Objective(self.model, self.Y, assignments, n_in_play, brief=self.brief)

    def _held(
        self,
        start: Free,
        labels: np.ndarray,
        max_iter: int,
        tol: float,
        watch: Callback | None = None,
        hold: Collection[str] = (),
    ) -> Free:
        if not max_iter:
            return start
        one_hot = np.eye(start.n_groups)[labels]
        objective = self.objective(labels.max() + 1, one_hot)
        return self._climbed(objective, start, max_iter, tol, watch, hold).state.free

    def _inferred(
        self, start: Free, labels: np.ndarray, max_iter: int, tol: float, watch: Callback | None = None
    ) -> Grouping:
        objective = self.objective(labels.max() + 1)
        return self.judge(self._climbed(objective, start, max_iter, tol, watch))

    def _climbed(
        self,
        objective: Objective,
        start: Free,
        max_iter: int,
        tol: float,
        watch: Callback | None = None,
        hold: Collection[str] = (),
    ) -> Climb:
        callback = self.reporter.of_climb(objective.n_in_play or start.n_groups, watch)
        ended = climb(objective, start, max_iter, tol, hold, ceiling=self.ceiling, callback=callback)
        if ended.outcome is Outcome.INTERRUPTED:
            raise Interrupted(self, ended)
        return ended

    def settled(self, start: Free, n_in_play: int) -> tuple[Free, np.ndarray]:
        """Hyperparameters and groups climbed while the latents stay where they are, and the labels of the columns."""
        objective = self.objective(n_in_play)
        state = self._climbed(objective, start, _SETTLING, _SETTLED, hold=["latents", "inducing"]).state
        free, n_groups = _largest_first(state)
        phi = np.asarray(self.objective(n_groups).evaluate(free).state.phi)
        return free, phi.argmax(axis=1)

    def judge(self, ended: Climb) -> Grouping:
        """Empty groups put aside, the others sorted by size, which the stick-breaking prior favours, and the bound
        corrected."""
        free, n_groups = _largest_first(ended.state)
        tidy = self.objective(n_groups).evaluate(free)
        state = jax.tree.map(np.asarray, tidy.state)
        ended = ended._replace(state=state, terms=jax.tree.map(np.asarray, tidy.terms), value=tidy.value)
        corrected = corrected_bound(self.model, self.Y, tidy, n_groups, self.brief)
        return Grouping(self.model, ended, corrected, n_groups, np.asarray(tidy.bounds))

    def smoothed(self, grouping: Grouping, slopes: Slopes) -> Free:
        """The same grouping from smoother functions and vaguer latents, climbed while much noise is held: latents
        that were laid out badly, in folds, get another chance now that the groups are known."""
        start = start_from_labels(self.model, grouping.free, grouping.n_groups, grouping.labels, slopes)
        smoother = {
            name: values + np.log(_SMOOTHER) if self.model.kernel.parameters[name].role == "relevance" else values
            for name, values in start.log_theta.items()
        }
        mean, variance = map(np.asarray, marginals_of(self.model, start.latents))
        noise = np.log(_NOISY * np.mean(np.nanvar(self.Y, axis=0)))
        start = replace(
            start,
            log_theta=smoother,
            latents=self.model.latent_prior.start(jnp.asarray(mean), jnp.maximum(variance, _VAGUE)),
            log_noise_precision=jnp.minimum(start.log_noise_precision, -noise),
        )
        return self._held(start, grouping.labels, _SMOOTH, 1e-7, hold=["log_noise_precision"])

    def slopes(self, state: State) -> Slopes:
        """How the columns' mean functions change along the latents."""
        found = slopes(self.model, state, weights_of(self.model, state, self.Y))
        if not np.isfinite(found.moments).all():
            raise NumericalError("the mean functions of the columns have no finite slopes")
        return found


def _largest_first(state: State) -> tuple[Free, int]:
    """Groups sorted by size, and how many of them have columns."""
    sizes = np.asarray(state.phi).sum(axis=0)
    return reordered(state.free, np.argsort(-sizes, kind="stable")), int((sizes > OCCUPIED).sum())


def reordered(free: Free, order: np.ndarray) -> Free:
    """The same latents with the groups in another order."""
    log_theta = {name: jnp.asarray(np.asarray(values)[order]) for name, values in free.log_theta.items()}
    noise = np.asarray(free.log_noise_precision)
    log_noise_precision = noise if free.of_columns else noise[order]
    return replace(free, log_theta=log_theta, log_noise_precision=jnp.asarray(log_noise_precision))


def start_from_labels(model: Model, free: Free, n_groups: int, labels: np.ndarray, slopes: Slopes) -> Free:
    """A start for a grouping: every group listens as its columns do on average; spare groups as all columns do.

    A unit-variance RBF process with ARD weight gamma has gradients of mean square gamma, so the mean square gradients
    of a group's columns, in units of their predicted variance, are its weights. What else a group has is the average of
    the first `n_groups`, which are those in use so far.
    """
    listens = np.diagonal(slopes.moments, axis1=1, axis2=2)
    truncation = free.n_groups
    members = [labels == t if t <= labels.max() else np.ones(len(labels), dtype=bool) for t in range(truncation)]
    shares = [listens[own].sum(axis=0) / max(slopes.predicted[own].sum(), 1e-300) for own in members]
    weights = np.log(np.clip(shares, 1e-3, 10.0))

    def average(values: Array) -> Array:
        return jnp.full_like(values, np.asarray(values)[:n_groups].mean())

    log_theta = {
        name: jnp.asarray(weights) if parameter.role == "relevance" else average(free.log_theta[name])
        for name, parameter in model.kernel.parameters.items()
    }
    noise = free.log_noise_precision if free.of_columns else average(free.log_noise_precision)
    return replace(free, log_theta=log_theta, log_noise_precision=jnp.asarray(noise))


def start_from_origins(best: Grouping, labels: np.ndarray) -> tuple[Free, int]:
    """A start for another grouping: every group has the average of what its columns had; and how many groups it has.
    Spare groups stay as they are."""
    labels, free = canonical(labels), best.free
    n_groups = int(labels.max()) + 1
    came_from = np.array([np.bincount(best.labels[labels == t], minlength=free.n_groups) for t in range(n_groups)])
    shares = came_from / came_from.sum(axis=1, keepdims=True)

    def average(values: Array) -> Array:
        return jnp.asarray(values).at[:n_groups].set(np.log(np.tensordot(shares, np.exp(values), axes=1)))

    log_theta = {name: average(values) for name, values in free.log_theta.items()}
    noise = free.log_noise_precision if free.of_columns else average(free.log_noise_precision)
    return replace(free, log_theta=log_theta, log_noise_precision=noise), n_groups
