"""Finding the groups, in stages: one group, sparse axes, clusters of columns, the best of them, moves, a richer kernel,
finer groups.

Optimising everything at once does not find the structure: columns' log-evidences differ by tens of nats, so assignments
are hard after one step, and stay in one group. What finds it is a good place to start from.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster

from dpgplvm.inference.axes import Slopes, axes_for_groups, rotate, sparse_axes
from dpgplvm.inference.enrich import enrich
from dpgplvm.inference.finer import finer
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem, start_from_labels
from dpgplvm.inference.moves import LEAST_GAIN, Move, improve, n_between_groups
from dpgplvm.inference.one_group import OneGroup, one_group
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical, profiles, trees
from dpgplvm.model.state import Free, State
from dpgplvm.numerics import NumericalError

_CLUSTER_COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
MOST_MOVES, MOST_FINER_MOVES = 60, 40
# Iterations of a candidate held in its groups and then not.
_HELD, _FREE, _LOOSE = 40, 25, 1e-7


class Found(NamedTuple):
    """What a search ended with."""

    best: Grouping
    moves: list[Move]


def search(problem: Problem, options: Options, rng: np.random.Generator, first: OneGroup | None = None) -> Found:
    """One start of the staged search: from a fit of one group, or else from scattered latents. Ctrl-C ends it with the
    best grouping so far."""
    moves: list[Move] = []
    best: Grouping | None = None
    try:
        for reached in _stages(problem, options, rng, first, moves):
            best = reached
    except NumericalError:
        if best is None:
            raise
        best = best.ended(Outcome.NUMERICAL_TROUBLE)
    except (Interrupted, KeyboardInterrupt) as stopped:
        left = [] if best is None else [best]
        if isinstance(stopped, Interrupted):
            with suppress(NumericalError, KeyboardInterrupt):
                left.append(stopped.problem.judge(stopped.reached))
        if not left:
            raise KeyboardInterrupt from None
        best = max(left, key=lambda one: one.corrected).ended(Outcome.INTERRUPTED)
    assert best is not None
    return Found(best, moves)


def _stages(
    problem: Problem, options: Options, rng: np.random.Generator, first: OneGroup | None, moves: list[Move]
) -> Iterator[Grouping]:
    """The stages of a search; yields the best grouping so far whenever there is a better one, and at the end."""
    if first is None:
        first = one_group(problem, options, rng, options.beginning, scattered=True)
    if first.is_interrupted:
        raise Interrupted(problem, first.common)
    best = first.ended
    yield best

    if options.n_groups > 1:
        for better in _from_embeddings(problem, rng, first, moves):
            best = better
            yield best
    if options.enrich:
        problem.reporter.enter("richer kernel")
        for better in enrich(problem, best, options.n_inducing, rng, moves):
            best = better
            yield best
        if best.model != problem.model:
            # What did not pay for groups of its own with a poorer kernel may do so with this one.
            problem = problem._replace(model=best.model)
            if options.n_groups > 1:
                for better in _grouped(problem, best, best.climb.state, rng, moves):
                    best = better
                    yield best
    n_before = n_between_groups(moves)
    if options.n_groups > 1:
        problem.reporter.enter("finer groups")
        for better in finer(problem, best, n_before + MOST_FINER_MOVES, moves):
            best = better
            yield best
    moves_spent = n_before >= MOST_MOVES or n_between_groups(moves) >= n_before + MOST_FINER_MOVES
    problem.reporter.enter("last climb", options.max_iter)
    yield _to_the_end(problem, best, options, moves_spent)


def _from_embeddings(
    problem: Problem, rng: np.random.Generator, first: OneGroup, moves: list[Move]
) -> Iterator[Grouping]:
    """Groups from the embedding that went furthest, and from the second where these are in doubt: clusters of columns
    show which of the two is worth moves. The moves are those of the embedding that is kept."""
    best = first.ended
    for better in _grouped(problem, best, first.common.state, rng, moves):
        best = better
        yield best
    if first.second is None or not _in_doubt(problem, best):
        return
    with suppress(NumericalError):
        rival, wanted = first.second.ended, best.corrected + LEAST_GAIN
        for better in _clustered(problem, rival, first.second.common.state, rng):
            rival = better
            if rival.corrected > wanted:
                moves.clear()
                yield rival
        problem.reporter.enter("moves")
        improved = improve(problem, rival, MOST_MOVES, moves)
        rival = next(improved)  # at rest, before any move
        if rival.corrected > wanted:
            moves.clear()
            yield rival
            yield from improved


def _in_doubt(problem: Problem, found: Grouping) -> bool:
    """Whether latents may lie in folds: they are then so entangled that no columns part, or a further group makes up
    for it, and there are more groups than profiles. (Groups that listen to the same latents in different ways are also
    more than profiles, and one group may be the truth.)"""
    if found.n_groups == 1:
        return True
    return found.n_groups > profiles(problem.slopes(found.climb.state).moments).labels.max() + 1


def _grouped(
    problem: Problem, best: Grouping, state: State, rng: np.random.Generator, moves: list[Move]
) -> Iterator[Grouping]:
    """Clusters of the columns where there are no groups yet, from a state with one group, and moves between groups."""
    if best.n_groups == 1:
        for candidate in _clustered(problem, best, state, rng):
            best = candidate
            yield best
    problem.reporter.enter("moves")
    yield from improve(problem, best, MOST_MOVES, moves)


def _clustered(problem: Problem, best: Grouping, state: State, rng: np.random.Generator) -> Iterator[Grouping]:
    problem.reporter.enter("clusters of columns")
    slopes = problem.slopes(state)
    R = sparse_axes(slopes.moments, rng)
    turned = rotate(problem.model, state.free, R)
    yield from _candidates(problem, best, turned, slopes.along(R), rng)


def _to_the_end(problem: Problem, best: Grouping, options: Options, moves_spent: bool) -> Grouping:
    """The last climb."""
    try:
        last = problem.fit(best.free, best.labels, 0, options.max_iter, options.tol)
    except NumericalError:
        return best.ended(Outcome.NUMERICAL_TROUBLE)
    if moves_spent and last.climb.outcome is Outcome.CONVERGED:
        return last.ended(Outcome.MOVES_SPENT)
    return last


def go_on(problem: Problem, options: Options, state: State) -> Grouping:
    """Climb on from a grouping that was found before."""
    problem.reporter.enter("last climb", options.max_iter)
    try:
        labels = np.asarray(state.phi).argmax(axis=1)
        return problem.fit(state.free, labels, 0, options.max_iter, options.tol)
    except Interrupted as stopped:
        return problem.judge(stopped.reached).ended(Outcome.INTERRUPTED)


def _candidates(
    problem: Problem, best: Grouping, turned: Free, slopes: Slopes, rng: np.random.Generator
) -> Iterator[Grouping]:
    """Clusters of the columns by which latents they listen to, ever more of them while that helps; yields what is
    better than all before."""
    tried = set()
    for tree in trees(slopes.moments):
        # Once there are groups, another idea of what is alike has to better them with as many or more, and at once.
        fewest, failures = max(2, best.n_groups), 0
        most_failures = 2 if best.n_groups == 1 else 1
        for k in (k for k in _CLUSTER_COUNTS if k >= fewest):
            labels = canonical(fcluster(tree, k, "maxclust"))
            if failures == most_failures or k > min(turned.n_groups, len(labels)):
                break
            if labels.tobytes() in tried:
                continue
            tried.add(labels.tobytes())
            R = axes_for_groups(slopes.moments, labels, rng)
            start = start_from_labels(problem.model, rotate(problem.model, turned, R), 1, labels, slopes.along(R))
            found = problem.try_to_beat(best, start, labels, _HELD, _FREE, _LOOSE)
            failures += 1
            if found is None or found.corrected <= best.corrected:
                continue
            # The same groups once more, a little further up, are no reason to go on.
            if not np.array_equal(canonical(found.labels), canonical(best.labels)):
                failures = 0
            best = found
            yield best
