"""From a table to a fitted state: which start, which bound, which optimiser."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpgplvm.inference import paper
from dpgplvm.inference.climb import Climb
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.moves import Move
from dpgplvm.inference.options import Options
from dpgplvm.inference.search import go_on
from dpgplvm.inference.start import finest_precision
from dpgplvm.inference.starts import Start, search_from_several_starts
from dpgplvm.inference.without_search import climb_without_search
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State


class Fit(NamedTuple):
    """What a fit ended with."""

    model: Model  # with the kernel that was chosen
    climb: Climb
    moves: list[Move] = []
    starts: list[Start] = []
    coassignment: np.ndarray | None = None  # [D, D]; None: phi says it all
    corrected: float | None = None  # the bound with the Occam factor, where groups were searched for


def fit(
    model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | State | None = None
) -> Fit:
    """Fit `model` to the scaled table Y: from the beginning, from free parameters, or on from the state of a fit."""
    if options.optimiser == "paper":
        return Fit(model, _ascend(model, Y, options, rng, start))
    if options.assignments is None and not options.mixed:
        if isinstance(start, State):
            problem = Problem(model, Y, finest_precision(Y, options.noise), options.reporter)
            grouping = go_on(problem, options, start)
            return Fit(model, grouping.climb, corrected=grouping.corrected)
        if start is None and options.max_iter > 0:
            found, starts, coassignment = search_from_several_starts(model, Y, options, rng)
            best = found.best
            return Fit(best.model, best.climb, found.moves, starts, coassignment, best.corrected)
    return Fit(model, climb_without_search(model, Y, options, rng, start))


def _ascend(
    model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | State | None
) -> Climb:
    """The paper's optimiser."""
    everything = paper.start(model, Y, *options.sizes, rng)
    if isinstance(start, State):
        everything = paper.variables_of(start)
    elif start is not None:
        everything["free"] = start
    options.reporter.enter("gradient ascent", options.max_iter)
    callback = options.reporter.of_climb(options.n_groups)
    return paper.ascend(model, Y, everything, options.max_iter, options.mixed, options.assignments, callback=callback)
