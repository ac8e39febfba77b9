"""Moves from one grouping to another: lay out the latents afresh, silence one, merge two groups, dissolve one, split
one, cluster afresh.

Each is tried by climbing from it a little, and kept only if it raises the corrected bound.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
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
from dpgplvm.model.bound import Model
from dpgplvm.model.state import Free
from dpgplvm.numerics import NumericalError

# A merge that loses more than this before anything has adapted to it is not worth a climb.
_HOPELESS_LOSS = 400.0
_LEAST_GAIN = 0.5
# A move that ends this little below its origin may get above it with more iterations.
_WORTH_ANOTHER_CLIMB = 15.0
# A latent is worth trying without when it makes up less than this of what the columns do.
_QUIET, _MOST_SILENCES, _SILENT = 0.2, 3, 6.0
_HELD, _FREE, _FREE_AFTER_SMOOTHING, _TO_REST, _TOLERANCE = 25, 40, 100, 200, 3e-8


class Move(NamedTuple):
    """One move that was tried."""

    kind: str  # "smooth", "silence", "merge", "dissolve", "split", "recluster" or "enrich"
    groups_before: int
    groups_after: int
    corrected_before: float
    corrected_after: float | None  # None: given up before it came to rest
    accepted: bool


class _Proposal(NamedTuple):
    kind: str
    labels: np.ndarray
    start: Free | None = None  # None: from the labels


def improve(problem: Problem, best: Grouping, max_moves: int, log: list[Move]) -> Iterator[Grouping]:
    """Try moves until none helps, or until `max_moves` were tried; yields every grouping that is kept."""
    helped = True
    smoothed: set[bytes] = set()
    while helped and n_between_groups(log) < max_moves:
        helped = False
        # At rest first: a move must not get the credit for iterations that its origin had not made yet.
        best = at_rest(problem, best)
        yield best
        slopes = problem.slopes(best.climb.state)
        tried = {canonical(best.labels).tobytes()}
        for proposal in chain(_of_latents(problem, best, slopes, smoothed), _of_groups(best, slopes.moments)):
            # A start that a proposal brings has its groups in the order of the labels that it brings.
            labels, start = proposal.labels, proposal.start
            if n_between_groups(log) >= max_moves:
                break
            if start is None:
                labels = canonical(labels)
                if labels.tobytes() in tried:
                    continue
                tried.add(labels.tobytes())
                start = start_from_labels(problem.model, best.free, best.n_groups, labels, slopes)
            n_free = _FREE_AFTER_SMOOTHING if proposal.kind == "smooth" else _FREE
            found = problem.try_to_beat(best, start, labels, _HELD, n_free, _TOLERANCE)
            if found is None:
                move = Move(proposal.kind, best.n_groups, int(labels.max()) + 1, best.corrected, None, False)
                note(move, log, problem.reporter)
                continue
            back = proposal.start is None and np.array_equal(canonical(found.labels), canonical(best.labels))
            if not back and 0.0 < best.corrected - found.corrected < _WORTH_ANOTHER_CLIMB:
                found = at_rest(problem, found)
            helped = found.corrected > best.corrected + (GAIN_OF_LATENTS if back else _LEAST_GAIN)
            move = Move(proposal.kind, best.n_groups, found.n_groups, best.corrected, found.corrected, helped)
            note(move, log, problem.reporter)
            if helped:
                best = found
                yield best
                break


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


def _of_latents(problem: Problem, best: Grouping, slopes: Slopes, smoothed: set[bytes]) -> Iterator[_Proposal]:
    """The same groups with other latents: all laid out afresh, once for every grouping, or one of them silent.

    Not for a linear kernel. It has no folds to lay out; its weak latents are no folds either, and though the
    bound gains a little without them, rows that it has not seen lose.
    """
    if not problem.model.kernel.bends:
        return
    groups = canonical(best.labels).tobytes()
    if groups not in smoothed:
        smoothed.add(groups)
        with suppress(NumericalError):
            yield _Proposal("smooth", best.labels, problem.smoothed(best, slopes))
    yield from _silences(problem.model, best, slopes.moments)


def _of_groups(best: Grouping, moments: np.ndarray) -> Iterator[_Proposal]:
    """Other groups, in the order in which they are likely to help."""
    labels, n_groups = best.labels, best.n_groups
    most_groups = min(len(labels), best.free.n_groups)
    yield from _merges(best)
    profiles = column_profiles(moments)
    for t in range(n_groups):
        members = np.flatnonzero(labels == t)
        if len(members) >= 4 and n_groups < most_groups:
            halves = fcluster(linkage(profiles[members], "ward"), 2, "maxclust")
            split = labels.copy()
            split[members[halves == 2]] = n_groups
            yield _Proposal("split", split)
    afresh = trees(moments)
    for k in (n_groups, n_groups + 1, n_groups - 1, n_groups + 2):
        if 1 < k <= most_groups:
            for tree in afresh:
                yield _Proposal("recluster", fcluster(tree, k, "maxclust"))


def _silences(model: Model, best: Grouping, moments: np.ndarray) -> Iterator[_Proposal]:
    """The latents that say least, one at a time back at their prior and listened to by no group: a climb switches one
    off, but slowly."""
    mean, variance = map(np.asarray, marginals_of(model, best.free.latents))
    used = used_latents(model, best.free)
    shares = np.diagonal(moments, axis1=1, axis2=2)
    heard = (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)).mean(axis=0)
    quiet = [q for q in np.argsort(heard) if used[q] and heard[q] < _QUIET]
    for q in quiet[:_MOST_SILENCES]:
        silent = np.arange(mean.shape[1]) == q
        log_theta = dict(best.free.log_theta)
        for name, parameter in model.kernel.parameters.items():
            if parameter.role == "relevance":
                log_theta[name] = jnp.where(silent, -_SILENT, log_theta[name])
        latents = model.latent_prior.start(jnp.where(silent, 0.0, mean), jnp.where(silent, 1.0, variance))
        yield _Proposal("silence", best.labels, replace(best.free, latents=latents, log_theta=log_theta))


def _merges(best: Grouping) -> list[_Proposal]:
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
    ranked.sort(key=lambda entry: entry[0])
    return [_Proposal(kind, moved) for loss, kind, moved in ranked if loss < _HOPELESS_LOSS]
