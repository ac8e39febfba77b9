"""The first stage of a search: all columns in one group, with as many latents as that takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from dpgplvm.inference.climb import Callback, Climb, climb
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.occam import used_latents
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.start import Beginning, plain_beginning, start_from_embedding
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# Iterations that lay out the rows: a share of the rows, which take longer the more there are, at least and at most.
_LAID_OUT_PER_ROW, _FEWEST_LAID_OUT, _MOST_LAID_OUT = 0.4, 60, 200
# Iterations with the noise common to all columns, so many of which tell starts apart, and with noise of columns.
_NOISE_FREE, _NOISE_TRIED, _OWN_NOISE, _LOOSE = 100, 20, 60, 1e-7
# What every column has for itself, where columns have noise and scale of their own.
OF_COLUMNS = ("log_noise_precision", "log_scale")


class OneGroup(NamedTuple):
    """All columns in one group."""

    problem: Problem
    common: Climb  # with the noise common to all columns
    beginning: Beginning
    own: Grouping | None = None  # with noise of columns set free, where they are to have it; None: not that far
    second: OneGroup | None = None  # the same from the second best embedding

    @property
    def is_interrupted(self) -> bool:
        return self.common.outcome is Outcome.INTERRUPTED

    @property
    def ended(self) -> Grouping:
        """What it ended with, where it got that far."""
        assert self.own is not None
        return self.own

    def interrupted(self) -> OneGroup:
        """As if Ctrl-C had ended it here."""
        reached = self.common if self.own is None else self.own.climb
        return self._replace(common=reached._replace(outcome=Outcome.INTERRUPTED), own=None)


def one_group(
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    beginning: Beginning | None = None,
    scattered: bool = False,
) -> OneGroup:
    """The first stage from one beginning."""
    problem.reporter.enter("one group")
    beginning = beginning or plain_beginning(problem.Y, options.n_latents)
    return finish(begin(problem, options, start_of(problem, options, rng, beginning, scattered), beginning), options)


def start_of(
    problem: Problem, options: Options, rng: np.random.Generator, beginning: Beginning, scattered: bool = False
) -> Free:
    """Where the first stage begins."""
    return start_from_embedding(problem.model, problem.Y, *options.sizes, rng, options.noise, scattered, beginning)


def begin(
    problem: Problem, options: Options, start: Free, beginning: Beginning, callback: Callback | None = None
) -> OneGroup:
    """As far as it takes to tell good starts from bad ones.

    With free noise of columns from the start, all columns but a few can end as noise: it is common to all columns at
    first. Where little is noise it is held before that, so that latents explain what they can.
    """
    n_laid_out = int(np.clip(_LAID_OUT_PER_ROW * len(problem.Y), _FEWEST_LAID_OUT, _MOST_LAID_OUT))
    hold = {"log_noise_precision"} if beginning.noise.is_held else set()
    begun = OneGroup(problem, _climbed(problem, options, start, n_laid_out, callback, hold), beginning)
    return begun if begun.is_interrupted else _went_on(begun, options, _NOISE_TRIED, callback)


def finish(begun: OneGroup, options: Options, callback: Callback | None = None) -> OneGroup:
    """The rest of the first stage."""
    return _with_own_noise(_with_common_noise(begun, options, callback), options, callback)


def _with_common_noise(begun: OneGroup, options: Options, callback: Callback | None = None) -> OneGroup:
    return begun if begun.is_interrupted else _went_on(begun, options, _NOISE_FREE - _NOISE_TRIED, callback)


def _with_own_noise(reached: OneGroup, options: Options, callback: Callback | None = None) -> OneGroup:
    if reached.is_interrupted:
        return reached
    problem, common = reached.problem, reached.common
    try:
        if options.noise == "group":
            return reached._replace(own=problem.judge(common))
        problem.reporter.enter("one group, noise of columns")
        labels = np.zeros(problem.Y.shape[1], dtype=int)
        try:
            own = problem.fit(common.state.free, labels, 0, _OWN_NOISE, _LOOSE, callback)
        except NumericalError:
            own = problem.judge(common)
        return reached._replace(own=own)
    except KeyboardInterrupt:
        return reached.interrupted()
    except Interrupted as stopped:
        return reached._replace(common=stopped.reached)


def _went_on(begun: OneGroup, options: Options, max_iter: int, callback: Callback | None) -> OneGroup:
    try:
        return begun._replace(common=_climbed(begun.problem, options, begun.common.state.free, max_iter, callback))
    except KeyboardInterrupt:  # before it had gone anywhere
        return begun.interrupted()


def _climbed(
    problem: Problem,
    options: Options,
    free: Free,
    max_iter: int,
    callback: Callback | None,
    hold: Collection[str] = (),
) -> Climb:
    tie = OF_COLUMNS if options.noise == "column" else ()
    objective = Objective(problem.model, problem.Y, n_in_play=1)
    watched = problem.reporter.of_climb(1, callback)
    return climb(objective, free, max_iter, _LOOSE, hold, tie, problem.ceiling, watched)


def with_enough_latents(first: OneGroup, options: Options, rng: np.random.Generator) -> OneGroup:
    """The same with twice as many latents, and again, while all are used and the corrected bound gains by it."""
    problem = first.problem
    while used_latents(problem.model, first.common.state.free).all():
        n_latents = min(2 * first.common.state.free.n_latents, options.most_latents)
        if n_latents <= first.common.state.free.n_latents:
            break
        try:
            more = _again(first, options._replace(n_latents=n_latents), rng)
            if more.is_interrupted:
                return first.interrupted()
            if problem.judge(more.common).corrected <= problem.judge(first.common).corrected:
                break
        except NumericalError:
            break
        first = more
    return first if first.own is not None else _with_own_noise(first, options)


def _again(first: OneGroup, options: Options, rng: np.random.Generator) -> OneGroup:
    """The same with as many latents as there are to be now, as long as the noise is common to all columns."""
    problem = first.problem
    problem.reporter.enter("one group")
    beginning = first.beginning.embedded_again(problem.Y, options.n_latents)
    return _with_common_noise(begin(problem, options, start_of(problem, options, rng, beginning), beginning), options)
