"""The posterior of rows, in rounds: more draws for rows of which few have any weight, and peaks that were missed.

A row that is far less likely than those learned from is asked whether it has drifted, in rounds of its own: its draws
then come from around the peaks that it has if so, and from the best of those that it has if not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dpgplvm.inference.compiled import chunks
from dpgplvm.inference.drift import Drift
from dpgplvm.inference.modes import Cloud, Modes, explanations, find_modes, leave_freedom, more_modes
from dpgplvm.inference.particles import Particles, Proposal, Weighted, around, rows_at_once, weighted
from dpgplvm.inference.predictor import Predictor

_PEAKS, _PEAKS_WITHOUT_DRIFT = 4, 2
_ROWS_AT_ONCE = 64
_STARTS = 8  # the draws with most weight, from which peaks that were missed may be found


class _Round(NamedTuple):
    """How many draws there are."""

    draws: int  # from all Gaussians
    anywhere: int  # from where rows are


# Where the first draws do not do, a posterior may be no sum of Gaussians at all. The peaks of rows that have drifted
# are found by and by, so there are more rounds.
_ROUNDS = _Round(768, 64), _Round(2048, 1024), _Round(8192, 4096)
_ROUNDS_OF_DRIFTED = _Round(1024, 64), _Round(1536, 128), _Round(2048, 512), _Round(2560, 512)
# Draws of equal weight that are enough. Those of rows that have drifted take long, and fewer have to do; but none of
# them may have so large a share that it shows a peak that was missed.
_ENOUGH, _ENOUGH_OF_DRIFTED, _LARGEST_OF_DRIFTED = 150.0, 20.0, 0.1

_Parts = Iterator[tuple[np.ndarray, Particles]]  # some rows by their numbers, and their draws


class _Where(NamedTuple):
    """Where draws of some rows come from, in this round and those to come."""

    peaks: Modes
    nearby: Modes | None  # what else explains them
    rounds: tuple[_Round, ...]

    def of(self, rows: np.ndarray) -> _Where:
        """Some of the rows."""
        return self._replace(peaks=self.peaks.of(rows), nearby=None if self.nearby is None else self.nearby.of(rows))

    def later(self, peaks: Modes) -> _Where:
        """The rounds after this one."""
        return self._replace(peaks=peaks, rounds=self.rounds[1:])


class _Drawn(NamedTuple):
    """One round of some of the rows."""

    rows: np.ndarray  # [S] by their numbers
    where: _Where
    found: Weighted
    best: np.ndarray  # [S, P, Q] draws with most weight
    drifted: np.ndarray  # [S, P, Q] draws that are likeliest with a drift, of all and of those from anywhere


def posterior_of_rows(
    predictor: Predictor, Y: np.ndarray, most_rounds: int | None = None, may_drift: bool = True
) -> _Parts:
    """The posterior of the rows of the scaled table Y, NaN for gaps; some rows at a time, by their numbers. With up to
    `most_rounds`, where it need not be exact, for rows that have not drifted."""
    nothing_seen = np.isnan(Y).all(axis=1)
    unseen = np.flatnonzero(nothing_seen)
    nowhere = np.zeros((len(unseen), predictor.inducing.shape[1]))
    for some, of_prior in around(predictor, nowhere, np.ones_like(nowhere)):
        yield unseen[some], of_prior._replace(log_density=np.zeros(len(of_prior.weights)))
    seen = np.flatnonzero(~nothing_seen)
    if not seen.size:
        return
    cloud, drift = Cloud.of(predictor), Drift.learned(predictor, may_drift)
    for some in chunks(len(seen), _ROWS_AT_ONCE):
        rows = seen[some]
        observed = (~np.isnan(Y[rows])).astype(float)
        values = np.where(observed, Y[rows], 0.0)
        starts = cloud.starts(values, observed)
        peaks = find_modes(predictor, cloud, starts, values, observed, _PEAKS)
        free = leave_freedom(predictor, peaks)
        for own in map(np.flatnonzero, (~free, free)):
            if own.size:
                shown = values[own], observed[own]
                nearby = explanations(predictor, starts[own], *shown) if free[own[0]] else None
                where = _Where(peaks.of(own), nearby, _ROUNDS[:most_rounds])
                yield from _numbered(rows[own], _sampled(predictor, drift, where, *shown))


def _numbered(rows: np.ndarray, parts: Iterable[tuple[np.ndarray, Particles]]) -> _Parts:
    for some, particles in parts:
        yield rows[some], particles


def _sampled(
    predictor: Predictor,
    drift: Drift | None,
    where: _Where,
    values: np.ndarray,
    observed: np.ndarray,
    was_asked: bool = False,
) -> _Parts:
    """Draws for all of these rows. Where few of them have any weight, these may be near to a peak that was missed: it
    is looked for, and there are more draws. Those of an unlikely row may all have missed, whatever their weights say;
    once a drift is taken into account that makes no difference to what it hides."""
    is_last = len(where.rounds) == 1
    for rows, own, found, best, drifted in _drawn(predictor, drift, where, values, observed):
        ask = found.is_suspect & (not was_asked)
        trusted = (found.particles.n_effective >= _ENOUGH) & (was_asked | ~found.is_unlikely)
        enough = ~ask & (trusted | is_last)
        yield rows[enough], found.particles.of(enough)
        more = ~ask & ~enough
        if more.any():
            few, there = rows[more], own.of(more)
            shown = values[few], observed[few]
            there = there.later(more_modes(predictor, *shown, there.peaks, best[more]))
            yield from _numbered(few, _sampled(predictor, drift, there, *shown, was_asked))
        if drift is not None and ask.any():
            few, usual = rows[ask], own.of(ask)
            shown = values[few], observed[few]
            usual = usual if is_last else usual.later(usual.peaks)
            peaks = drift.peaks(predictor, *shown, drifted[ask], _PEAKS)
            there = _Where(peaks, usual.peaks.first(_PEAKS_WITHOUT_DRIFT), _ROUNDS_OF_DRIFTED)
            yield from _numbered(few, _sampled_with_drift(predictor, drift, there, usual, *shown))


def _sampled_with_drift(
    predictor: Predictor, drift: Drift, where: _Where, usual: _Where, values: np.ndarray, observed: np.ndarray
) -> _Parts:
    """Draws for rows that seem to have drifted; those that turn out not to have come from where they usually would."""
    is_last = len(where.rounds) == 1
    for rows, own, found, best, _ in _drawn(predictor, drift, where, values, observed):
        back = found.chance < 0.5
        worth, largest = found.particles.n_effective, found.particles.weights.max(axis=1)
        enough = ~back & ((worth >= _ENOUGH_OF_DRIFTED) & (largest <= _LARGEST_OF_DRIFTED) | is_last)
        yield rows[enough], found.particles.of(enough)
        more = ~back & ~enough
        if more.any():
            few, there = rows[more], own.of(more)
            shown = values[few], observed[few]
            there = there.later(drift.peaks(predictor, *shown, best[more], _PEAKS, there.peaks))
            yield from _numbered(few, _sampled_with_drift(predictor, drift, there, usual.of(few), *shown))
        if back.any():
            few = rows[back]
            shown = values[few], observed[few]
            yield from _numbered(few, _sampled(predictor, drift, usual.of(few), *shown, was_asked=True))


def _drawn(
    predictor: Predictor, drift: Drift | None, where: _Where, values: np.ndarray, observed: np.ndarray
) -> Iterator[_Drawn]:
    """The first of the rounds, as many rows at a time as memory is to be used for."""
    draws, n_anywhere = where.rounds[0]
    n_gaussians = Proposal.n_gaussians(where.peaks, where.nearby)
    n_draws = draws // (2 * n_gaussians) * 2
    for some in chunks(len(values), min(_ROWS_AT_ONCE, rows_at_once(predictor, n_gaussians * n_draws + n_anywhere))):
        rows = np.arange(len(values))[some]
        own = where.of(rows)
        proposal = Proposal.around(own.peaks, own.nearby, predictor, n_draws, n_anywhere)
        points = proposal.draw()
        found = weighted(predictor, drift, proposal, points, values[rows], observed[rows])
        best = _highest(points, found.particles.weights, _STARTS)
        # Draws from peaks without a drift are all in the same places; those from anywhere are not.
        of_all = _highest(points, found.log_drift, _STARTS // 2)
        of_others = _highest(points[:, -n_anywhere:], found.log_drift[:, -n_anywhere:], _STARTS // 2)
        yield _Drawn(rows, own, found, best, np.concatenate([of_all, of_others], axis=1))


def _highest(points: np.ndarray, heights: np.ndarray, n_points: int) -> np.ndarray:
    """[S, P, Q] of points [S, W, Q] those with the largest of heights [S, W]."""
    return np.take_along_axis(points, np.argsort(-heights, axis=1)[:, :n_points, None], axis=1)
