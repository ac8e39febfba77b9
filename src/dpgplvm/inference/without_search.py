"""One climb, where groups are given or nobody looks for them: from the beginning that leads furthest, to the end."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import jax.numpy as jnp
import numpy as np

from dpgplvm.inference.climb import NO_CEILING, Climb, Climbable, climb
from dpgplvm.inference.mixed import MixedObjective, MixedVariables
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.one_group import OF_COLUMNS
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.start import Beginning, beginnings, finest_precision, start_from_embedding
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free, State
from dpgplvm.numerics import NumericalError

# Iterations that lay out the rows, and that tell beginnings apart once the noise is free.
_LAY_OUT, _TELL_APART = 100, 20


def climb_without_search(
    model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator, start: Free | State | None
) -> Climb:
    """Raise the bound to the end, from a start or else from the beginning that leads furthest.

    Ctrl-C ends it with the best of what has been reached.
    """
    climbing = _Climbing(model, Y, options, rng)
    if start is not None:
        return climbing.to_the_end(climbing.variables_of(start))
    n_laid_out, n_told = (min(most, options.max_iter // 4) for most in (_LAY_OUT, _TELL_APART))
    bends = n_laid_out > 0 and model.kernel.bends
    begun = []
    for beginning in beginnings(Y, options.n_latents, bends):
        free = start_from_embedding(model, Y, *options.sizes, rng, options.noise, beginning=beginning)
        begun.append((climbing.variables_of(free), beginning))
    if not n_laid_out:
        return climbing.to_the_end(begun[0][0])
    options.reporter.enter("beginnings", len(begun) * (n_laid_out + n_told))
    furthest = _furthest(climbing, begun, n_laid_out, n_told)
    if furthest.outcome is Outcome.INTERRUPTED:
        return furthest
    return _or_before(furthest, lambda: climbing.to_the_end(climbing.variables_of(furthest.state)))


def _or_before(before: Climb, stage: Callable[[], Climb]) -> Climb:
    """Where a stage ends, or what was before it where it ends before it has gone anywhere."""
    try:
        return stage()
    except KeyboardInterrupt:
        return before._replace(outcome=Outcome.INTERRUPTED)
    except NumericalError:
        return before._replace(outcome=Outcome.NUMERICAL_TROUBLE)


def _furthest(climbing: _Climbing, begun: list[tuple[Any, Beginning]], n_laid_out: int, n_told: int) -> Climb:
    """The highest of the beginnings after some iterations; those that fail are left out. With noise of columns free
    from the start, all columns but a few can end as noise: it is common to all of them until later."""

    def begin(variables: Any, beginning: Beginning) -> Climb:
        hold = {"log_noise_precision"} if beginning.noise.is_held else set()
        laid_out = climbing.climb(variables, n_laid_out, hold, OF_COLUMNS)
        if laid_out.outcome is Outcome.INTERRUPTED:
            return laid_out
        reached = climbing.variables_of(laid_out.state)
        return _or_before(laid_out, lambda: climbing.climb(reached, n_told, tie=OF_COLUMNS))

    best: Climb | None = None
    failures = []
    for variables, beginning in begun:
        try:
            reached = begin(variables, beginning)
        except NumericalError as failure:
            failures.append(failure)
            continue
        except KeyboardInterrupt:  # before this one had gone anywhere
            if best is None:
                raise
            return best._replace(outcome=Outcome.INTERRUPTED)
        interrupted = reached.outcome is Outcome.INTERRUPTED
        if best is None or reached.value > best.value:
            best = reached
        if interrupted:
            return best._replace(outcome=Outcome.INTERRUPTED)
    if best is None:
        raise failures[0]
    return best


class _Climbing:
    """What is climbed: the plain bound, or the mixed one with its allocations."""

    def __init__(self, model: Model, Y: np.ndarray, options: Options, rng: np.random.Generator) -> None:
        self._options, self._rng = options, rng
        self._objective: Climbable = (MixedObjective if options.mixed else Objective)(model, Y, options.assignments)
        self._always_held = {"logits"} if options.mixed and options.assignments is not None else set()
        self._ceiling = NO_CEILING if options.mixed else finest_precision(Y, options.noise)
        self._n_columns = Y.shape[1]

    def variables_of(self, start: Free | State) -> Any:
        """What is to be moved; where nothing is known of allocations, they are drawn."""
        free = start.free if isinstance(start, State) else start
        if not self._options.mixed:
            return free
        if isinstance(start, State):
            return MixedVariables(free, jnp.log(start.phi + 1e-300))
        logits = self._rng.normal(size=(self._n_columns, self._options.n_groups))
        return MixedVariables(free, jnp.asarray(logits))

    def climb(self, variables: Any, max_iter: int, hold: Collection[str] = (), tie: Collection[str] = ()) -> Climb:
        free = variables.free if self._options.mixed else variables
        callback = self._options.reporter.of_climb(self._options.n_groups)
        hold = self._always_held | set(hold)
        tie = tie if free.of_columns else ()
        return climb(self._objective, variables, max_iter, self._options.tol, hold, tie, self._ceiling, callback)

    def to_the_end(self, variables: Any) -> Climb:
        self._options.reporter.enter("last climb", self._options.max_iter)
        return self.climb(variables, self._options.max_iter)
