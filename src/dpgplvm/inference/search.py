"""Finding the groups, in stages: one group, sparse axes, clusters of columns, the best of them, moves, a richer kernel.

Optimising everything at once does not find the structure: columns' log-evidences differ by tens of nats, so assignments
are hard after one step, and stay in one group. What finds it is a good place to start from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster

from dpgplvm.inference.axes import Slopes, axes_for_groups, rotate, sparse_axes
from dpgplvm.inference.climb import Callback, Climb, climb
from dpgplvm.inference.enrich import enrich
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem, start_from_labels
from dpgplvm.inference.moves import Move, improve
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.occam import used_latents
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.profiles import canonical, trees
from dpgplvm.inference.start import from_principal_components
from dpgplvm.model.state import Free, State
from dpgplvm.numerics import NumericalError

_CLUSTER_COUNTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20)
MOST_MOVES = 60
# Iterations of the first stage, of one group with noise of columns, and of a candidate held in its groups and then not.
_NOISE_HELD, _NOISE_FREE, _ONE_GROUP, _HELD, _FREE, _LOOSE = 60, 100, 60, 40, 25, 1e-7
# What every column has for itself, where columns have noise and scale of their own.
OF_COLUMNS = ("log_noise_precision", "log_scale")


class Found(NamedTuple):
    """What a search ended with."""

    best: Grouping
    moves: list[Move]
    one_group: Grouping  # what it had before there were groups


def search(problem: Problem, options: Options, rng: np.random.Generator, single: Climb | None = None) -> Found:
    """One start of the staged search: from a fit of one group, or else from scattered latents. Ctrl-C ends it with the
    best grouping so far."""
    moves: list[Move] = []
    best: Grouping | None = None
    before: Grouping | None = None
    try:
        for reached in _stages(problem, options, rng, single, moves):
            best, before = reached, before or reached
    except (Interrupted, KeyboardInterrupt) as stopped:
        left = [] if best is None else [best]
        if isinstance(stopped, Interrupted):
            left.append(stopped.problem.judge(stopped.reached))
        elif not left and single is not None:
            left.append(problem.judge(single))
        if not left:
            raise KeyboardInterrupt from None
        best = max(left, key=lambda one: one.corrected).ended(Outcome.INTERRUPTED)
    assert best is not None
    return Found(best, moves, before or best)


def _stages(
    problem: Problem, options: Options, rng: np.random.Generator, single: Climb | None, moves: list[Move]
) -> Iterator[Grouping]:
    """The stages of a search; yields the best grouping so far whenever there is a better one, and at the end."""
    if single is None:
        single = one_group(problem, options, rng, scattered=True)
    if single.outcome is Outcome.INTERRUPTED:
        raise Interrupted(problem, single)
    best = with_own_noise(problem, single, options)
    yield best

    if options.n_groups > 1:
        slopes = problem.slopes(single.state)
        R = sparse_axes(slopes.moments, rng)
        turned = rotate(problem.model, single.state.free, R)
        problem.reporter.enter("clusters of columns")
        for candidate in _candidates(problem, best, turned, slopes.along(R), rng):
            best = candidate
            yield best
        problem.reporter.enter("moves")
        for better in improve(problem, best, MOST_MOVES, moves):
            best = better
            yield best
    moves_spent = len(moves) >= MOST_MOVES
    if options.enrich:
        problem.reporter.enter("richer kernel")
        best = enrich(problem, best, options.n_inducing, rng, moves)
        yield best
        problem = problem._replace(model=best.model)
    problem.reporter.enter("last climb", options.max_iter)
    yield _to_the_end(problem, best, options, moves_spent)


def with_own_noise(problem: Problem, single: Climb, options: Options) -> Grouping:
    """The first stage's fit, with noise of columns set free where that is what they are to have."""
    if options.noise == "group":
        return problem.judge(single)
    problem.reporter.enter("one group, noise of columns")
    try:
        return problem.fit(single.state.free, np.zeros(problem.Y.shape[1], dtype=int), 0, _ONE_GROUP, _LOOSE)
    except NumericalError:
        return problem.judge(single)


def _to_the_end(problem: Problem, best: Grouping, options: Options, moves_spent: bool) -> Grouping:
    """The last climb; it has not converged if there were moves left to try."""
    try:
        last = problem.fit(best.free, best.labels, 0, options.max_iter, options.tol)
    except NumericalError:
        return best.ended(Outcome.NUMERICAL_TROUBLE)
    if moves_spent and last.climb.outcome is Outcome.CONVERGED:
        return last.ended(Outcome.BUDGET_SPENT)
    return last


def one_group(
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    scattered: bool = False,
    callback: Callback | None = None,
) -> Climb:
    """The first stage: all columns in one group.

    With free noise from the start a fit can end with everything explained as noise, and with free noise of columns with
    all columns but a few; so noise is held at first, and common to all columns until there are groups.
    """
    free = from_principal_components(problem.model, problem.Y, *options.sizes, rng, options.noise, scattered)
    objective = Objective(problem.model, problem.Y, n_in_play=1)
    tie = OF_COLUMNS if options.noise == "column" else ()
    problem.reporter.enter("one group")

    def climbed(free: Free, max_iter: int, hold: Collection[str] = ()) -> Climb:
        watched = problem.reporter.of_climb(1, callback)
        return climb(objective, free, max_iter, _LOOSE, hold, tie, problem.ceiling, watched)

    warm = climbed(free, _NOISE_HELD, {"log_noise_precision"})
    if warm.outcome is Outcome.INTERRUPTED:
        return warm
    try:
        return climbed(warm.state.free, _NOISE_FREE)
    except KeyboardInterrupt:  # before it had gone anywhere
        return warm._replace(outcome=Outcome.INTERRUPTED)


def with_enough_latents(problem: Problem, single: Climb, options: Options, rng: np.random.Generator) -> Climb:
    """The same with twice as many latents, and again, while all are used and the corrected bound gains by it."""
    while used_latents(problem.model, single.state.free).all():
        n_latents = min(2 * single.state.free.n_latents, options.most_latents)
        if n_latents <= single.state.free.n_latents:
            break
        try:
            more = one_group(problem, options._replace(n_latents=n_latents), rng)
            if more.outcome is Outcome.INTERRUPTED:
                raise Interrupted(problem, single)
            if problem.judge(more).corrected <= problem.judge(single).corrected:
                break
        except NumericalError:
            break
        single = more
    return single


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
