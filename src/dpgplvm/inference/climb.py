"""L-BFGS on the profiled bound: the closed-form factors are solved inside every evaluation, the rest is climbed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from scipy.optimize import minimize

from dpgplvm.inference.objective import Evaluation
from dpgplvm.inference.outcome import Outcome
from dpgplvm.model.bound import Terms
from dpgplvm.model.state import State
from dpgplvm.numerics import NumericalError


class Climb(NamedTuple):
    """Where a climb ended."""

    state: State
    terms: Terms
    value: float
    outcome: Outcome
    n_iterations: int
    history: list[float]  # the bound after every iteration, the start's first


# Called with the iteration's number and the bound; True ends the climb there.
Callback = Callable[[int, float], bool | None]


class Climbable(Protocol):
    """A bound with its gradient, as a function of a tree of unconstrained variables."""

    def evaluate(self, variables: Any, /) -> Evaluation: ...


class _Stopped(Exception):
    """Ends SciPy's loop from inside the callback."""


class _Trouble(Exception):
    """Ends SciPy's loop when evaluation after evaluation fails."""


_MOST_FAILURES_IN_A_ROW = 20


def climb(
    objective: Climbable,
    start: Any,
    max_iter: int,
    tol: float = 1e-9,
    hold: Collection[str] = (),
    callback: Callback | None = None,
) -> Climb:
    """Raise the bound from `start` until it gains less than `tol` of its size in an iteration.

    Variables named in `hold` stay as they are. Ctrl-C ends the climb with the best state so far.
    """
    pack = _Packing(start, hold)
    best = objective.evaluate(start)
    if not np.isfinite(best.value):
        raise NumericalError("the bound is not finite at the start: scale the columns or give another start")
    history = [best.value]
    at_best, slope, failures = pack.vector(start), -pack.vector(best.gradient), 0

    def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, at_best, slope, failures
        try:
            here = objective.evaluate(pack.tree(vector))
            if not np.isfinite(here.value):
                raise NumericalError("the bound is not finite")
        except NumericalError:
            failures += 1
            if failures == _MOST_FAILURES_IN_A_ROW:
                raise _Trouble from None
            # A wall for the line search, as steep as the way here: it takes a shorter step. A flat one would look like
            # an optimum.
            return -best.value + abs(slope @ (vector - at_best)) + 1e-8 * (1.0 + abs(best.value)), -slope
        failures = 0
        downhill = -pack.vector(here.gradient)
        if here.value > best.value:
            best, at_best, slope = here, vector.copy(), downhill
        return -here.value, downhill

    def after_iteration(intermediate_result) -> None:
        if failures:  # the line search gave up and took the wall for a step
            raise _Trouble
        history.append(-float(intermediate_result.fun))
        if callback is not None and callback(len(history) - 1, history[-1]):
            raise _Stopped

    if not at_best.size:
        return _ended(best, Outcome.CONVERGED, history)
    if max_iter == 0:
        return _ended(best, Outcome.BUDGET_SPENT, history)
    try:
        result = minimize(
            negative,
            pack.vector(start),
            jac=True,
            method="L-BFGS-B",
            callback=after_iteration,
            options={
                "maxiter": max_iter,
                "maxfun": 20 * max_iter,
                "maxcor": 20,
                "ftol": tol,
                "gtol": 1e-8,
                "maxls": 40,
            },
        )
    except (KeyboardInterrupt, _Stopped):
        return _ended(best, Outcome.INTERRUPTED, history)
    except _Trouble:
        return _ended(best, Outcome.NUMERICAL_TROUBLE, history)
    outcomes = {0: Outcome.CONVERGED, 1: Outcome.BUDGET_SPENT}
    return _ended(best, outcomes.get(result.status, Outcome.NUMERICAL_TROUBLE), history)


def _ended(best: Evaluation, outcome: Outcome, history: list[float]) -> Climb:
    return Climb(jax.tree.map(np.asarray, best.state), best.terms, best.value, outcome, len(history) - 1, history)


class _Packing:
    """A tree of arrays as one long vector and back; what is held is left out of the vector."""

    def __init__(self, template: Any, hold: Collection[str]) -> None:
        paths, self._structure = jax.tree_util.tree_flatten_with_path(template)
        names = [{getattr(key, "name", getattr(key, "key", None)) for key in path} for path, _ in paths]
        self._leaves = [np.asarray(leaf) for _, leaf in paths]
        self._moved = [i for i, path in enumerate(names) if not path & set(hold)]
        self._ends = np.cumsum([self._leaves[i].size for i in self._moved])[:-1]

    def vector(self, tree: Any) -> np.ndarray:
        leaves = jax.tree.leaves(tree)
        return np.concatenate([np.zeros(0), *(np.ravel(leaves[i]) for i in self._moved)])

    def tree(self, vector: np.ndarray) -> Any:
        leaves = list(self._leaves)
        for i, piece in zip(self._moved, np.split(vector, self._ends), strict=True):
            leaves[i] = piece.reshape(leaves[i].shape)
        return jax.tree.unflatten(self._structure, leaves)
