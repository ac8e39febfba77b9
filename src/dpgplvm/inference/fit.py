"""From a table to a fitted state: which start, which bound, which optimiser."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference import paper
from dpgplvm.inference.climb import Climb, Climbable, climb
from dpgplvm.inference.grouping import Grouping
from dpgplvm.inference.mixed import MixedObjective, MixedVariables
from dpgplvm.inference.moves import Move
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.search import OF_COLUMNS
from dpgplvm.inference.start import finest_precision, from_principal_components
from dpgplvm.inference.starts import Start, search_from_several_starts
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free

_ITERATIONS_WITH_NOISE_HELD = 100


class Fit(NamedTuple):
    """What a fit ended with."""

    model: Model  # with the kernel that was chosen
    climb: Climb
    moves: list[Move] = []
    starts: list[Start] = []
    coassignment: np.ndarray | None = None  # [D, D]; None: phi says it all
    corrected: float | None = None  # the bound with the Occam factor, where groups were searched for
    one_group: Grouping | None = None  # what a search had before there were groups


def fit(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | None = None) -> Fit:
    """Fit `model` to the scaled table Y."""
    if options.optimiser == "paper":
        everything = paper.start(model, Y, *options.sizes, rng)
        if start is not None:
            everything["free"] = start
        return Fit(model, paper.ascend(model, Y, everything, options.max_iter, options.mixed, options.assignments))
    if start is None and options.assignments is None and not options.mixed and options.max_iter > 0:
        found, starts, coassignment = search_from_several_starts(model, Y, options, rng)
        best = found.best
        return Fit(best.model, best.climb, found.moves, starts, coassignment, best.corrected, found.one_group)
    return Fit(model, _climb_in_stages(model, Y, options, rng, start))


def _climb_in_stages(
    model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | None
) -> Climb:
    """Climb with the noise held, then common to all columns, then with all of it free: free from the start, all may end
    up explained as noise."""
    free = from_principal_components(model, Y, *options.sizes, rng, options.noise) if start is None else start
    variables: Any = free
    objective: Climbable = Objective(model, Y, options.assignments)
    always_held = set()
    if options.mixed:
        variables = MixedVariables(free, jnp.asarray(rng.normal(size=(Y.shape[1], options.n_groups))))
        objective = MixedObjective(model, Y, options.assignments)
        always_held = {"logits"} if options.assignments is not None else set()
    tie = OF_COLUMNS if free.of_columns else ()
    ceiling = {} if options.mixed else finest_precision(Y, options.noise)
    early = 0 if start is not None else min(_ITERATIONS_WITH_NOISE_HELD, options.max_iter // (3 if tie else 2))
    stages: list[tuple[int, set[str], tuple[str, ...]]] = [(options.max_iter, set(), ())]
    if early:
        held = (early, {"log_noise_precision"}, tie)
        stages = [held, (early, set(), tie), *stages] if tie else [held, *stages]
    n_iterations = 0
    history: list[float] = []
    for budget, hold, tied in stages:
        left = options.max_iter - n_iterations
        try:
            reached = climb(objective, variables, min(budget, left), options.tol, always_held | hold, tied, ceiling)
        except KeyboardInterrupt:  # before this stage had gone anywhere
            if not history:
                raise
            reached = reached._replace(outcome=Outcome.INTERRUPTED)
            break
        n_iterations += reached.n_iterations
        history += reached.history[bool(history) :]
        variables = reached.state.free
        if options.mixed:
            variables = MixedVariables(variables, jnp.log(reached.state.phi + 1e-300))
        if reached.outcome in (Outcome.INTERRUPTED, Outcome.NUMERICAL_TROUBLE):
            break
    return reached._replace(n_iterations=n_iterations, history=history)
