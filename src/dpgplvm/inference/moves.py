"""Moves from one grouping to another: merge two groups, dissolve one, split one, cluster the columns afresh.

Each is tried by climbing from it a little, and kept only if it raises the corrected bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from dpgplvm.inference.grouping import Grouping, Problem, start_from_labels

# A merge that loses more than this before anything has adapted to it is not worth a climb.
_HOPELESS_LOSS = 400.0
_LEAST_GAIN = 0.05
# A move that ends this little below its origin may get above it with more iterations.
_WORTH_ANOTHER_CLIMB = 15.0
_HELD, _FREE, _TO_REST, _TOLERANCE = 25, 40, 200, 3e-8


class Move(NamedTuple):
    """One move that was tried."""

    kind: str  # "merge", "dissolve", "split" or "recluster"
    groups_before: int
    groups_after: int
    corrected_before: float
    corrected_after: float
    accepted: bool


class _Proposal(NamedTuple):
    kind: str
    labels: np.ndarray


def improve(problem: Problem, best: Grouping, max_moves: int, log: list[Move]) -> Iterator[Grouping]:
    """Try moves until none helps, or until `max_moves` were tried; yields every grouping that is kept."""
    helped = True
    while helped and len(log) < max_moves:
        helped = False
        # At rest first: a move must not get the credit for iterations that its origin had not made yet.
        best = _at_rest(problem, best)
        yield best
        moments = problem.moments(best.climb.state)
        tried = {_canonical(best.labels).tobytes()}
        for proposal in _proposals(best, moments):
            labels = _canonical(proposal.labels)
            if labels.tobytes() in tried or len(log) >= max_moves:
                continue
            tried.add(labels.tobytes())
            start = start_from_labels(problem.model, best.free, labels, moments)
            found = problem.try_to_fit(start, labels, _HELD, _FREE, _TOLERANCE)
            if found is None:
                continue
            if 0.0 < best.corrected - found.corrected < _WORTH_ANOTHER_CLIMB:
                found = _at_rest(problem, found)
            helped = found.corrected > best.corrected + _LEAST_GAIN
            log.append(Move(proposal.kind, best.n_groups, found.n_groups, best.corrected, found.corrected, helped))
            if helped:
                best = found
                yield best
                break


def _at_rest(problem: Problem, grouping: Grouping) -> Grouping:
    """The same grouping climbed until an iteration gains next to nothing."""
    climbed = problem.try_to_fit(grouping.free, grouping.labels, 0, _TO_REST, _TOLERANCE)
    return grouping if climbed is None else max(grouping, climbed, key=lambda one: one.corrected)


def _proposals(best: Grouping, moments: np.ndarray) -> Iterator[_Proposal]:
    """Moves in the order in which they are likely to help."""
    labels, n_groups = best.labels, best.n_groups
    most_groups = min(len(labels), len(best.free.log_noise_precision))
    yield from _merges(best)
    profiles = column_profiles(moments)
    for t in range(n_groups):
        members = np.flatnonzero(labels == t)
        if len(members) >= 4 and n_groups < most_groups:
            halves = fcluster(linkage(profiles[members], "ward"), 2, "maxclust")
            split = labels.copy()
            split[members[halves == 2]] = n_groups
            yield _Proposal("split", split)
    for k in (n_groups, n_groups + 1, n_groups - 1, n_groups + 2):
        if 1 < k <= most_groups:
            for method in ("ward", "average"):
                yield _Proposal("recluster", fcluster(linkage(profiles, method), k, "maxclust"))


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


def column_profiles(moments: np.ndarray) -> np.ndarray:
    """[D, Q] how strongly each column listens to each latent, as directions of unit length."""
    strengths = np.sqrt(np.maximum(np.diagonal(moments, axis1=1, axis2=2), 0.0))
    return strengths / np.maximum(np.linalg.norm(strengths, axis=1, keepdims=True), 1e-300)


def _canonical(labels: np.ndarray) -> np.ndarray:
    """The same grouping with groups numbered by size, ties by their first column."""
    _, first, numbers, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -counts))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[numbers]
