"""Finding the groups, in stages: one group, sparse axes, clusters of columns, the best of them, moves.

Optimising everything at once does not find the structure: columns' log-evidences differ by tens of nats, so assignments
are hard after one step, and stay in one group. What finds it is a good place to start from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from dpgplvm.inference.axes import rotate, sparse_axes
from dpgplvm.inference.climb import climb
from dpgplvm.inference.grouping import Grouping, Interrupted, Problem, start_from_labels
from dpgplvm.inference.moves import Move, column_profiles, improve
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.outcome import Outcome
from dpgplvm.inference.start import from_principal_components

_CLUSTER_COUNTS = (2, 3, 4, 6, 8, 12, 16)
_FINALISTS = 3
_MOST_MOVES = 60
_LOOSE, _CLOSE = 1e-7, 1e-8


class Found(NamedTuple):
    """What a search ended with."""

    best: Grouping
    moves: list[Move]


def search(
    problem: Problem,
    n_latents: int,
    n_inducing: int,
    truncation: int,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
) -> Found:
    """One start of the staged search; Ctrl-C ends it with the best grouping so far."""
    moves: list[Move] = []
    best: Grouping | None = None
    stages = _stages(problem, n_latents, n_inducing, truncation, max_iter, tol, rng, moves)
    while True:
        try:
            reached = next(stages)
        except StopIteration:
            break
        except (Interrupted, KeyboardInterrupt):
            if best is None:
                raise KeyboardInterrupt from None
            return Found(best._replace(climb=best.climb._replace(outcome=Outcome.INTERRUPTED)), moves)
        best = reached
    assert best is not None
    return Found(best, moves)


def _stages(problem, n_latents, n_inducing, truncation, max_iter, tol, rng, moves) -> Iterator[Grouping]:
    """The stages of a search; yields the best grouping so far whenever there is a better one, and at the end."""
    model, Y = problem.model, problem.Y
    free = from_principal_components(model, Y, n_latents, n_inducing, truncation, rng)
    one_group = Objective(model, Y, n_in_play=1)
    # With free noise from the start a fit can end with everything explained as noise.
    warm = climb(one_group, free, 100, _LOOSE, {"log_noise_precision"})
    single = warm if warm.outcome is Outcome.INTERRUPTED else climb(one_group, warm.state.free, 150, _LOOSE)
    best = problem.judge(single)
    yield best
    if single.outcome is Outcome.INTERRUPTED:
        raise Interrupted

    if truncation > 1:
        moments = problem.moments(single.state)
        R = sparse_axes(moments, rng)
        turned, moments = rotate(model, single.state.free, R), R.T @ moments @ R
        candidates = [
            problem.try_to_fit(start_from_labels(model, turned, labels, moments), labels, 40, 20, _LOOSE)
            for labels in clusterings(moments, truncation)
        ]
        ranked = sorted((one for one in candidates if one is not None), key=lambda one: -one.corrected)
        finalists = [problem.try_to_fit(one.free, one.labels, 0, 100, _CLOSE) for one in ranked[:_FINALISTS]]
        best = max([best, *(one for one in finalists if one is not None)], key=lambda one: one.corrected)
        yield best
        for better in improve(problem, best, _MOST_MOVES, moves):
            best = better
            yield best
    yield problem.fit(best.free, best.labels, 0, max_iter, tol)


def clusterings(moments: np.ndarray, truncation: int) -> Iterator[np.ndarray]:
    """Groupings of the columns by which latents they listen to, each once."""
    profiles = column_profiles(moments)
    seen = set()
    for method in ("average", "ward"):
        tree = linkage(profiles, method)
        for k in _CLUSTER_COUNTS:
            if k <= min(truncation, len(profiles)):
                labels = np.unique(fcluster(tree, k, "maxclust"), return_inverse=True)[1]
                if labels.tobytes() not in seen:
                    seen.add(labels.tobytes())
                    yield labels
