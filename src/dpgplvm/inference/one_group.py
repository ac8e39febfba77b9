"""The first stage of a search: all columns in one group, with as many latents as that takes."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from dpgplvm.inference.climb import Callback, Climb, climb
from dpgplvm.inference.embeddings import Embedding, principal_components
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.occam import used_latents
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.start import start_from_embedding
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# Iterations with the noise held, with it common to all columns, and with noise of columns.
_NOISE_HELD, _NOISE_FREE, _OWN_NOISE, _LOOSE = 60, 100, 60, 1e-7
# What every column has for itself, where columns have noise and scale of their own.
OF_COLUMNS = ("log_noise_precision", "log_scale")


class OneGroup(NamedTuple):
    """All columns in one group."""

    problem: Problem
    common: Climb  # with the noise common to all columns
    own: Grouping | None  # with noise of columns set free, where they are to have it; None: interrupted before
    embedding: Embedding = principal_components

    @property
    def ended(self) -> Grouping:
        """What it ended with, where it was not interrupted."""
        assert self.own is not None
        return self.own

    def interrupted(self) -> OneGroup:
        """As if Ctrl-C had ended it."""
        return self._replace(common=self.common._replace(outcome=Outcome.INTERRUPTED), own=None)


def one_group(
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    embedding: Embedding = principal_components,
    scattered: bool = False,
) -> OneGroup:
    """The first stage from one embedding of the rows."""
    start = start_of(problem, options, rng, embedding, scattered)
    return climbed_as_one(problem, options, start, embedding)


def start_of(
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    embedding: Embedding = principal_components,
    scattered: bool = False,
) -> Free:
    """Where the first stage begins."""
    return start_from_embedding(problem.model, problem.Y, *options.sizes, rng, options.noise, scattered, embedding)


def climbed_as_one(
    problem: Problem, options: Options, start: Free, embedding: Embedding, callback: Callback | None = None
) -> OneGroup:
    """With free noise from the start a fit can end with everything explained as noise, and with free noise of columns
    with all columns but a few; so noise is held at first, then common to all columns, and theirs last."""
    objective = Objective(problem.model, problem.Y, n_in_play=1)
    tie = OF_COLUMNS if options.noise == "column" else ()
    problem.reporter.enter("one group")

    def climbed(free: Free, max_iter: int, hold: Collection[str] = ()) -> Climb:
        watched = problem.reporter.of_climb(1, callback)
        return climb(objective, free, max_iter, _LOOSE, hold, tie, problem.ceiling, watched)

    reached = climbed(start, _NOISE_HELD, {"log_noise_precision"})
    if reached.outcome is not Outcome.INTERRUPTED:
        try:
            reached = climbed(reached.state.free, _NOISE_FREE)
            if reached.outcome is not Outcome.INTERRUPTED:
                return OneGroup(problem, reached, _with_own_noise(problem, reached, options), embedding)
        except KeyboardInterrupt:  # before a climb had gone anywhere
            pass
        except Interrupted as stopped:
            reached = stopped.reached
    return OneGroup(problem, reached, None, embedding).interrupted()


def _with_own_noise(problem: Problem, common: Climb, options: Options) -> Grouping:
    if options.noise == "group":
        return problem.judge(common)
    problem.reporter.enter("one group, noise of columns")
    try:
        return problem.fit(common.state.free, np.zeros(problem.Y.shape[1], dtype=int), 0, _OWN_NOISE, _LOOSE)
    except NumericalError:
        return problem.judge(common)


def with_enough_latents(first: OneGroup, options: Options, rng: np.random.Generator) -> OneGroup:
    """The same with twice as many latents, and again, while all are used and the corrected bound gains by it."""
    problem = first.problem
    while used_latents(problem.model, first.common.state.free).all():
        n_latents = min(2 * first.common.state.free.n_latents, options.most_latents)
        if n_latents <= first.common.state.free.n_latents:
            break
        try:
            more = one_group(problem, options._replace(n_latents=n_latents), rng, first.embedding)
            if more.own is None:
                return first.interrupted()
            if problem.judge(more.common).corrected <= problem.judge(first.common).corrected:
                break
        except NumericalError:
            break
        first = more
    return first
