"""Moves from one grouping to another: lay out the latents afresh, silence one, merge two groups, dissolve one, split
one, cluster afresh.

Each is tried by climbing from it a little, and kept only if it raises the corrected bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from dpgplvm.inference.axes import Slopes
from dpgplvm.inference.compiled import marginals_of
from dpgplvm.inference.grouping import GAIN_OF_LATENTS, Grouping, Problem, start_from_labels
from dpgplvm.inference.occam import used_latents
from dpgplvm.inference.profiles import canonical, column_profiles, trees
from dpgplvm.inference.progress import Reporter
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# A merge that loses more than this before anything has adapted to it is not worth a climb.
_HOPELESS_LOSS = 400.0
LEAST_GAIN = 0.5
# A move that ends this little below its origin may get above it with more iterations.
_WORTH_ANOTHER_CLIMB = 15.0
# A latent is worth trying without when it makes up less than this of what the columns do.
_QUIET, _MOST_SILENCES, _SILENT = 0.2, 3, 6.0
_OF_LATENTS = ("smooth", "silence")  # moves that leave the groups as they are
_HELD, _FREE, _FREE_AFTER_SMOOTHING, _TO_REST, _TOLERANCE = 25, 40, 100, 200, 3e-8


class Move(NamedTuple):
    """One move that was tried."""

    kind: str  # "smooth", "silence", "merge", "dissolve", "split", "recluster" or "enrich"
    groups_before: int
    groups_after: int
    corrected_before: float
    corrected_after: float | None  # None: given up before it came to rest
    accepted: bool


class Proposal(NamedTuple):
    """Another grouping to climb from."""

    kind: str
    start: Free
    labels: np.ndarray  # groups in the order in which the start has them
    n_held: int = _HELD
    n_free: int = _FREE


# One kind of move: what to try from a grouping, in the order in which it is likely to help.
Proposals = Callable[[Problem, Grouping], Iterator[Proposal]]


def improve(
    problem: Problem, best: Grouping, max_moves: int, log: list[Move], kinds: Sequence[Proposals] | None = None
) -> Iterator[Grouping]:
    """Try moves until none helps, or until `max_moves` were tried; yields every grouping that is kept. None: all kinds
    of moves that need no good place to begin with.

    A kind is tried for as long as it helps, then the next one, and the first again after the last: what has just been
    tried in vain is not tried again for a little change of something else.
    """
    kinds = _from_anywhere() if kinds is None else kinds
    # At rest first: a move must not get the credit for iterations that its origin had not made yet.
    best = at_rest(problem, best)
    yield best
    tried = {canonical(best.labels).tobytes()}
    turn = in_vain = 0
    while in_vain < len(kinds) and n_between_groups(log) < max_moves:
        better = _first_that_helps(problem, best, kinds[turn % len(kinds)], tried, max_moves, log)
        if better is None:
            turn, in_vain = turn + 1, in_vain + 1
            continue
        yield better
        best, in_vain = at_rest(problem, better), 0
        yield best
        tried = {canonical(best.labels).tobytes()}


def _first_that_helps(
    problem: Problem, best: Grouping, proposals: Proposals, tried: set[bytes], max_moves: int, log: list[Move]
) -> Grouping | None:
    """What becomes of the first of some moves that raises the corrected bound; groups that were tried are left out."""
    for proposal in proposals(problem, best):
        if n_between_groups(log) >= max_moves:
            return None
        of_groups, groups = proposal.kind not in _OF_LATENTS, canonical(proposal.labels).tobytes()
        if of_groups and groups in tried:
            continue
        tried.add(groups)
        found = problem.try_to_beat(best, *proposal[1:], _TOLERANCE)
        if found is None:
            n_groups = int(proposal.labels.max()) + 1
            note(Move(proposal.kind, best.n_groups, n_groups, best.corrected, None, False), log, problem.reporter)
            continue
        if _may_get_above(found, best) and not (of_groups and _same_groups(found, best)):
            found = at_rest(problem, found)
        back = of_groups and _same_groups(found, best)
        helped = found.corrected > best.corrected + (GAIN_OF_LATENTS if back else LEAST_GAIN)
        move = Move(proposal.kind, best.n_groups, found.n_groups, best.corrected, found.corrected, helped)
        note(move, log, problem.reporter)
        if helped:
            return found
    return None


def _same_groups(one: Grouping, other: Grouping) -> bool:
    return np.array_equal(canonical(one.labels), canonical(other.labels))


def _may_get_above(found: Grouping, best: Grouping) -> bool:
    """Whether a move that ends below its origin may get above it with more iterations: it ends only just below, or
    would be above if its groups paid no more each than those of its origin, as they may once they are at rest."""
    as_dear = found.climb.value - best.occam_per_group * found.n_groups
    return found.corrected < best.corrected < max(found.corrected + _WORTH_ANOTHER_CLIMB, as_dear)


def n_between_groups(log: Sequence[Move]) -> int:
    """How many moves were tried; a richer kernel is none that there is a budget for."""
    return sum(move.kind != "enrich" for move in log)


def note(move: Move, log: list[Move], reporter: Reporter) -> None:
    """Keep a move in the log and tell of it."""
    log.append(move)
    after = "given up" if move.corrected_after is None else f"{move.corrected_after:.1f}"
    reporter.moved(
        f"{move.kind}: {move.groups_before} to {move.groups_after} groups, "
        f"corrected bound {move.corrected_before:.1f} to {after}",
        move.accepted,
    )


def at_rest(problem: Problem, grouping: Grouping) -> Grouping:
    """The same grouping climbed until an iteration gains next to nothing."""
    try:
        climbed = problem.fit(grouping.free, grouping.labels, 0, _TO_REST, _TOLERANCE)
    except NumericalError:
        return grouping
    return max(grouping, climbed, key=lambda one: one.corrected)


def _from_anywhere() -> list[Proposals]:
    """Other latents, then other groups, from what columns listen to: hyperparameters need not be good yet."""
    return [_Smoothings(), _silences, _merges, _splits, _reclusterings]


class _Smoothings:
    """Latents laid out afresh, once for every grouping. Not for a linear kernel, which has no folds."""

    def __init__(self) -> None:
        self._smoothed: set[bytes] = set()

    def __call__(self, problem: Problem, best: Grouping) -> Iterator[Proposal]:
        groups = canonical(best.labels).tobytes()
        if not problem.model.kernel.bends or groups in self._smoothed:
            return
        self._smoothed.add(groups)
        with suppress(NumericalError):
            start = problem.smoothed(best, problem.slopes(best.climb.state))
            yield Proposal("smooth", start, best.labels, n_free=_FREE_AFTER_SMOOTHING)


def _silences(problem: Problem, best: Grouping) -> Iterator[Proposal]:
    """The latents that say least, one at a time back at their prior and listened to by no group: a climb switches one
    off, but slowly. Not for a linear kernel: its weak latents are no folds, and though the bound gains a little without
    them, rows that it has not seen lose."""
    model = problem.model
    if not model.kernel.bends:
        return
    mean, variance = map(np.asarray, marginals_of(model, best.free.latents))
    used = used_latents(model, best.free)
    shares = np.diagonal(problem.slopes(best.climb.state).moments, axis1=1, axis2=2)
    heard = (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
    quiet = [q for q in np.argsort(heard) if used[q] and heard[q] < _QUIET]
    for q in quiet[:_MOST_SILENCES]:
        silent = np.arange(mean.shape[1]) == q
        log_theta = dict(best.free.log_theta)
        for name, parameter in model.kernel.parameters.items():
            if parameter.role == "relevance":
                log_theta[name] = jnp.where(silent, -_SILENT, log_theta[name])
        latents = model.latent_prior.start(jnp.where(silent, 0.0, mean), jnp.where(silent, 1.0, variance))
        yield Proposal("silence", replace(best.free, latents=latents, log_theta=log_theta), best.labels)


def _merges(problem: Problem, best: Grouping) -> Iterator[Proposal]:
    slopes = problem.slopes(best.climb.state)
    for kind, labels in cheapest_merges(best):
        yield _regrouped(kind, problem, best, labels, slopes)


def _splits(problem: Problem, best: Grouping) -> Iterator[Proposal]:
    """Groups in halves by which latents their columns listen to."""
    if best.n_groups >= best.most_groups:
        return
    slopes = problem.slopes(best.climb.state)
    profiles = column_profiles(slopes.moments)
    for t in range(best.n_groups):
        members = np.flatnonzero(best.labels == t)
        if len(members) >= 4:
            halves = fcluster(linkage(profiles[members], "ward"), 2, "maxclust")
            split = best.labels.copy()
            split[members[halves == 2]] = best.n_groups
            yield _regrouped("split", problem, best, split, slopes)


def _reclusterings(problem: Problem, best: Grouping) -> Iterator[Proposal]:
    """Columns clustered afresh."""
    slopes, n_groups = problem.slopes(best.climb.state), best.n_groups
    afresh = trees(slopes.moments)
    for k in (n_groups, n_groups + 1, n_groups - 1, n_groups + 2):
        if 1 < k <= best.most_groups:
            for tree in afresh:
                yield _regrouped("recluster", problem, best, fcluster(tree, k, "maxclust"), slopes)


def _regrouped(kind: str, problem: Problem, best: Grouping, labels: np.ndarray, slopes: Slopes) -> Proposal:
    labels = canonical(labels)
    return Proposal(kind, start_from_labels(problem.model, best.free, best.n_groups, labels, slopes), labels)


def cheapest_merges(best: Grouping) -> list[tuple[str, np.ndarray]]:
    """Pairs that lose least when the columns of one take the other's hyperparameters, and groups whose columns lose
    least when each goes where it is best off; cheapest first."""
    labels, n_groups, F = best.labels, best.n_groups, best.bounds
    ranked = []
    for t in range(n_groups):
        members = labels == t
        others = [s for s in range(n_groups) if s != t]
        losses = F[members, t][:, None] - F[members][:, others]
        for s, loss in zip(others, losses.sum(axis=0), strict=True):
            ranked.append((loss, "merge", np.where(members, s, labels)))
        if len(others) > 1:
            scattered = labels.copy()
            scattered[members] = np.array(others)[losses.argmin(axis=1)]
            ranked.append((losses.min(axis=1).sum(), "dissolve", scattered))
    cheapest: dict[bytes, tuple[str, np.ndarray]] = {}
    for loss, kind, moved in sorted(ranked, key=lambda entry: entry[0]):
        if loss < _HOPELESS_LOSS:
            # A pair is there twice, as either may take the other's.
            cheapest.setdefault(canonical(moved).tobytes(), (kind, moved))
    return list(cheapest.values())
