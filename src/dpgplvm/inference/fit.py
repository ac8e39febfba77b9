"""From a table to a fitted state: which start, which bound, which optimiser."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference import paper
from dpgplvm.inference.climb import Climb, Climbable, climb
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.mixed import MixedObjective, MixedVariables
from dpgplvm.inference.moves import Move
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.one_group import OF_COLUMNS
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.search import go_on
from dpgplvm.inference.start import finest_precision, start_from_embedding
from dpgplvm.inference.starts import Start, search_from_several_starts
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State

_ITERATIONS_WITH_NOISE_HELD = 100


class Fit(NamedTuple):
    """What a fit ended with."""

    model: Model  # with the kernel that was chosen
    climb: Climb
    moves: list[Move] = []
    starts: list[Start] = []
    coassignment: np.ndarray | None = None  # [D, D]; None: phi says it all
    corrected: float | None = None  # the bound with the Occam factor, where groups were searched for


class _Stage(NamedTuple):
    """One climb of several."""

    name: str
    budget: int
    hold: set[str] = set()
    tie: tuple[str, ...] = ()


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
    return Fit(model, _climb_in_stages(model, Y, options, rng, start))


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


def _climb_in_stages(
    model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | State | None
) -> Climb:
    """Climb with the noise held, then common to all columns, then with all of it free: free from the start, all may end
    up explained as noise."""
    if start is None:
        free = start_from_embedding(model, Y, *options.sizes, rng, options.noise)
    else:
        free = start.free if isinstance(start, State) else start
    variables: Any = free
    objective: Climbable = Objective(model, Y, options.assignments)
    always_held = set()
    if options.mixed:
        logits = rng.normal(size=(Y.shape[1], options.n_groups))
        variables = _mixed_variables(start) if isinstance(start, State) else MixedVariables(free, jnp.asarray(logits))
        objective = MixedObjective(model, Y, options.assignments)
        always_held = {"logits"} if options.assignments is not None else set()
    tie = OF_COLUMNS if free.of_columns else ()
    ceiling = {} if options.mixed else finest_precision(Y, options.noise)
    early = 0 if start is not None else min(_ITERATIONS_WITH_NOISE_HELD, options.max_iter // (3 if tie else 2))
    stages = [_Stage("last climb", options.max_iter)]
    if early:
        common = [_Stage("noise common to all columns", early, tie=tie)] if tie else []
        stages = [_Stage("noise held", early, {"log_noise_precision"}, tie), *common, *stages]
    n_iterations = 0
    history: list[float] = []
    for name, budget, hold, tied in stages:
        budget = min(budget, options.max_iter - n_iterations)
        options.reporter.enter(name, budget)
        callback = options.reporter.of_climb(options.n_groups)
        try:
            reached = climb(objective, variables, budget, options.tol, always_held | hold, tied, ceiling, callback)
        except KeyboardInterrupt:  # before this stage had gone anywhere
            if not history:
                raise
            reached = reached._replace(outcome=Outcome.INTERRUPTED)
            break
        n_iterations += reached.n_iterations
        history += reached.history[bool(history) :]
        variables = _mixed_variables(reached.state) if options.mixed else reached.state.free
        if reached.outcome in (Outcome.INTERRUPTED, Outcome.NUMERICAL_TROUBLE):
            break
    return reached._replace(n_iterations=n_iterations, history=history)


def _mixed_variables(state: State) -> MixedVariables:
    return MixedVariables(state.free, jnp.log(state.phi + 1e-300))
