"""Finer groups where latents lie as they should: splits by what columns would rather have, and merges.

The hyperparameters of a group are a compromise between its columns. Moved up or down, each of them is better for some
columns and worse for others; where columns pull in opposite directions, two groups would do better than one. Both
halves start next to where the group was, and hyperparameters settle before latents move, so a split loses next to
nothing at first. Too early, while latents lie in folds or the kernel is a poorer one, it would find groups that only
make up for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import jax
import numpy as np

from dpgplvm.inference.grouping import Grouping, Problem, start_from_origins
from dpgplvm.inference.moves import Move, Proposal, cheapest_merges, improve
from dpgplvm.inference.occam import counted_numbers, own_numbers, with_own_numbers
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# How far a number is moved, in logs, and what columns have to gain by it, in nats.
_STEP, _WORTH_PARTING = 0.7, 10.0
# Splits and merges that are tried from one grouping, and the iterations that each has.
_MOST, _ITERATIONS = 4, 65


def finer(problem: Problem, best: Grouping, max_moves: int, log: list[Move]) -> Iterator[Grouping]:
    """Splits, and merges of what has become alike, until none helps; yields every grouping that is kept."""
    yield from improve(problem, best, max_moves, log, [_splits, _merges])


def _splits(problem: Problem, best: Grouping) -> Iterator[Proposal]:
    for start in _split_starts(problem, best):
        yield from _settled("split", problem, start, best.n_groups + 1)


def _merges(problem: Problem, best: Grouping) -> Iterator[Proposal]:
    for kind, labels in cheapest_merges(best)[:_MOST]:
        yield from _settled(kind, problem, *start_from_origins(best, labels))


def _settled(kind: str, problem: Problem, start: Free, n_in_play: int) -> Iterator[Proposal]:
    """Groups get hyperparameters for their new columns before anything else changes."""
    with suppress(NumericalError):
        yield Proposal(kind, *problem.settled(start, n_in_play), n_held=0, n_free=_ITERATIONS)


def _split_starts(problem: Problem, best: Grouping) -> Iterator[Free]:
    """One group in two, those first whose columns gain most; the new group is the first spare one."""
    new = best.n_groups
    if new >= best.most_groups:
        return
    free = jax.tree.map(np.asarray, best.free)
    numbers = own_numbers(problem.model, free)
    for t, i in _ranked(best.labels, gains(problem, best)):
        apart = numbers.copy()
        apart[new] = numbers[t]
        apart[[t, new], i] += -_STEP, _STEP
        yield with_own_numbers(problem.model, free, apart)


def gains(problem: Problem, best: Grouping) -> np.ndarray:
    """[n, 2, D] what every column gains when one of its group's n numbers is moved up, or down; nothing for numbers
    that groups do not pay for, and where a group cannot have them there."""
    free = jax.tree.map(np.asarray, best.free)
    numbers, columns = own_numbers(problem.model, free), np.arange(len(best.labels))
    here = best.bounds[columns, best.labels]
    gained = np.zeros((numbers.shape[1], 2, len(columns)))
    objective = problem.objective(best.n_groups, np.asarray(best.climb.state.phi))
    for i in np.flatnonzero(counted_numbers(problem.model, best.free)):
        for way, step in enumerate((_STEP, -_STEP)):
            moved = numbers + step * (np.arange(numbers.shape[1]) == i)
            try:
                there = np.asarray(objective.evaluate(with_own_numbers(problem.model, free, moved)).bounds)
            except NumericalError:
                continue
            gained[i, way] = there[columns, best.labels] - here
    return gained


def _ranked(labels: np.ndarray, gained: np.ndarray) -> list[tuple[int, int]]:
    """Groups, each with the number that parts it best, by what its columns gain when each goes its own way and not all
    the same."""
    found = []
    for t in range(labels.max() + 1):
        own = gained[:, :, labels == t]
        together = np.maximum(own.sum(axis=2).max(axis=1), 0.0)
        apart = np.maximum(own.max(axis=1), 0.0).sum(axis=1) - together
        found.append((apart.max(), t, int(apart.argmax())))
    return [(t, i) for gain, t, i in sorted(found, reverse=True)[:_MOST] if gain > _WORTH_PARTING]
