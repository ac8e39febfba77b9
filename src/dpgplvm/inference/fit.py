"""From a table to a fitted state: which start, which bound, which optimiser."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference import paper
from dpgplvm.inference.climb import Climb, Climbable, climb
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.mixed import MixedObjective, MixedVariables
from dpgplvm.inference.moves import Move
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.search import search
from dpgplvm.inference.start import from_principal_components
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free

_ITERATIONS_WITH_NOISE_HELD = 100


class Options(NamedTuple):
    """What a fit is asked to do, all sizes resolved."""

    n_latents: int
    n_inducing: int
    n_groups: int
    assignments: np.ndarray | None  # [D, T], given groups
    mixed: bool
    optimiser: Literal["lbfgs", "paper"]
    max_iter: int
    tol: float


class Fit(NamedTuple):
    """What a fit ended with."""

    climb: Climb
    moves: list[Move]


def fit(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | None = None) -> Fit:
    """Fit `model` to the scaled table Y."""
    sizes = (options.n_latents, options.n_inducing, options.n_groups)
    if options.optimiser == "paper":
        everything = paper.start(model, Y, *sizes, rng)
        if start is not None:
            everything["free"] = start
        return Fit(paper.ascend(model, Y, everything, options.max_iter, options.mixed, options.assignments), [])
    if start is None and options.assignments is None and not options.mixed and options.max_iter > 0:
        found = search(Problem(model, Y), *sizes, options.max_iter, options.tol, rng)
        return Fit(found.best.climb, found.moves)
    return Fit(_climb_in_two(model, Y, options, rng, start), [])


def _climb_in_two(model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | None) -> Climb:
    """Climb with the noise held, then with all of it free: free from the start, all may end up explained as noise."""
    sizes = (options.n_latents, options.n_inducing, options.n_groups)
    free = from_principal_components(model, Y, *sizes, rng) if start is None else start
    variables: Any = free
    objective: Climbable = Objective(model, Y, options.assignments)
    hold = set()
    if options.mixed:
        variables = MixedVariables(free, jnp.asarray(rng.normal(size=(Y.shape[1], options.n_groups))))
        objective = MixedObjective(model, Y, options.assignments)
        hold = {"logits"} if options.assignments is not None else set()
    first = min(_ITERATIONS_WITH_NOISE_HELD, options.max_iter // 2) if start is None else 0
    warm = climb(objective, variables, first, options.tol, hold | {"log_noise_precision"})
    if warm.outcome in (Outcome.INTERRUPTED, Outcome.NUMERICAL_TROUBLE):
        return warm
    onwards: Any = warm.state.free
    if options.mixed:
        onwards = MixedVariables(onwards, jnp.log(warm.state.phi + 1e-300))
    last = climb(objective, onwards, options.max_iter - warm.n_iterations, options.tol, hold)
    return last._replace(n_iterations=warm.n_iterations + last.n_iterations, history=[*warm.history, *last.history[1:]])
