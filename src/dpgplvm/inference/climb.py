"""L-BFGS on the profiled bound: the closed-form factors are solved inside every evaluation, the rest is climbed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from scipy.optimize import Bounds, minimize

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


# The largest values of variables, by their names.
Ceiling = Mapping[str, Any]
NO_CEILING: Ceiling = {}

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
_CONVERGED, _NO_WAY_UP = 0, 2  # SciPy's numbers
_ROUNDING = 1e-9  # as a share of the bound
_PROBES, _PROBE_STEP, _WORTH_STRETCHING = 6, 1e-5, 15


def climb(
    objective: Climbable,
    start: Any,
    max_iter: int,
    tol: float = 1e-9,
    hold: Collection[str] = (),
    tie: Collection[str] = (),
    ceiling: Ceiling = NO_CEILING,
    callback: Callback | None = None,
) -> Climb:
    """Raise the bound from `start` until it gains less than `tol` of its size in an iteration.

    Variables named in `hold` stay as they are; arrays named in `tie` keep one value for all of their entries; none
    that are named in `ceiling` get above it. Ctrl-C ends the climb with the best state so far.
    """
    pack = _Packing(start, hold, tie)
    highest = pack.ceiling(ceiling)
    start = pack.tree(np.minimum(pack.vector(start), highest))
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

    def ascend() -> int:
        """L-BFGS from the best so far, to its end; SciPy's number for how that was."""
        stretch = _stretch(objective, pack, at_best, slope) if max_iter >= _WORTH_STRETCHING else np.ones(at_best.size)

        def stretched(vector: np.ndarray) -> tuple[float, np.ndarray]:
            value, downhill = negative(stretch * vector)
            return value, stretch * downhill

        return minimize(
            stretched,
            at_best / stretch,
            jac=True,
            method="L-BFGS-B",
            bounds=Bounds(-np.inf, highest / stretch) if np.isfinite(highest).any() else None,
            callback=after_iteration,
            options={
                "maxiter": max_iter - len(history) + 1,
                "maxfun": 20 * max_iter,
                "maxcor": 30,
                "ftol": tol,
                "gtol": 1e-8,
                "maxls": 40,
            },
        ).status

    try:
        before, status = -np.inf, _NO_WAY_UP
        # What it remembers of the way can lead it astray: it begins afresh while that helps. Where it does not, the
        # rest is rounding.
        while status == _NO_WAY_UP and len(history) <= max_iter:
            if best.value - before <= max(tol, _ROUNDING) * abs(best.value):
                status = _CONVERGED
            else:
                before, status = best.value, ascend()
    except (KeyboardInterrupt, _Stopped):
        return _ended(best, Outcome.INTERRUPTED, history)
    except _Trouble:
        return _ended(best, Outcome.NUMERICAL_TROUBLE, history)
    return _ended(best, Outcome.CONVERGED if status == _CONVERGED else Outcome.BUDGET_SPENT, history)


def _stretch(objective: Climbable, pack: _Packing, at: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Units for the variables in which the bound curves about as much along each: three to four times fewer iterations.

    The diagonal of the Hessian is estimated from differences of gradients along random signs (Hutchinson's estimator),
    and kept from small values that are mostly sampling error.
    """
    rng = np.random.default_rng(0)
    diagonal = np.zeros(at.size)
    try:
        for _ in range(_PROBES):
            signs = rng.choice([-1.0, 1.0], size=at.size)
            ahead = -pack.vector(objective.evaluate(pack.tree(at + _PROBE_STEP * signs)).gradient)
            diagonal += signs * (ahead - slope) / _PROBE_STEP
    except NumericalError:
        return np.ones(at.size)
    diagonal = np.abs(diagonal) / _PROBES
    usual = np.median(diagonal)
    if not (np.isfinite(diagonal).all() and usual > 0.0):
        return np.ones(at.size)
    return 1.0 / np.sqrt(np.maximum(diagonal, usual))


def _ended(best: Evaluation, outcome: Outcome, history: list[float]) -> Climb:
    state, terms = jax.tree.map(np.asarray, (best.state, best.terms))
    return Climb(state, terms, best.value, outcome, len(history) - 1, history)


class _Packing:
    """A tree of arrays as one long vector and back; what is held is left out of the vector, what is tied is one number.

    That number is the sum over the array divided by the root of its size, which serves values and gradients alike.
    """

    def __init__(self, template: Any, hold: Collection[str], tie: Collection[str]) -> None:
        paths, self._structure = jax.tree_util.tree_flatten_with_path(template)
        self._names = names = [{getattr(key, "name", getattr(key, "key", None)) for key in path} for path, _ in paths]
        self._leaves = [np.asarray(leaf) for _, leaf in paths]
        self._moved = [i for i, path in enumerate(names) if not path & set(hold)]
        self._tied = {i for i in self._moved if names[i] & set(tie)}
        self._ends = np.cumsum([1 if i in self._tied else self._leaves[i].size for i in self._moved])[:-1]

    def ceiling(self, of_names: Ceiling) -> np.ndarray:
        """The largest value of every entry of the vector; infinite where none was given."""
        pieces = []
        for i in self._moved:
            shape = self._leaves[i].shape
            given = [np.broadcast_to(limit, shape) for name, limit in of_names.items() if name in self._names[i]]
            highest = np.min([np.full(shape, np.inf), *given], axis=0)
            pieces.append([highest.min() * np.sqrt(highest.size)] if i in self._tied else highest.ravel())
        return np.concatenate([np.zeros(0), *pieces])

    def vector(self, tree: Any) -> np.ndarray:
        leaves = jax.tree.leaves(tree)
        pieces = (
            [np.asarray(leaves[i]).sum() / np.sqrt(np.size(leaves[i]))] if i in self._tied else np.ravel(leaves[i])
            for i in self._moved
        )
        return np.concatenate([np.zeros(0), *pieces])

    def tree(self, vector: np.ndarray) -> Any:
        leaves = list(self._leaves)
        for i, piece in zip(self._moved, np.split(vector, self._ends) if self._moved else [], strict=True):
            shape = leaves[i].shape
            leaves[i] = np.full(shape, piece[0] / np.sqrt(leaves[i].size)) if i in self._tied else piece.reshape(shape)
        return jax.tree.unflatten(self._structure, leaves)
