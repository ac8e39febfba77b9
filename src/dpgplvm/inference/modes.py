"""Where the latents of a row may be: peaks of its posterior p(x | y), given the functions that a fit has learned.

Given x and the scale of the row, its columns are independent Gaussians, with the uncertainty of the functions as part
of their variance; before its columns are seen, x is where rows are. A posterior like that can have several peaks, far
from each other, when a row shows few columns or lies where no training row was. Each peak is climbed by Gauss-Newton
steps, all rows side by side, from the best places of a cloud of points that serves all rows.

Columns with little noise make narrow peaks, with others between them and any start. So the first steps are taken with
noise added to all columns, which leaves the broad ones.

Where the columns that are seen leave a latent free, a posterior may be no sum of peaks but a bent tube. Places along it
are found from the same starts: the nearest to each of them that explain the row.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from scipy.spatial.distance import cdist

from dpgplvm.inference.predictor import STILL, Predictor
from dpgplvm.inference.row_scales import gaussian

_MOST_POINTS = 2000  # beside the training rows themselves, of which there are no more than that
_SHARE_FROM_PRIOR = 0.25
# Starts are at least this far apart, in standard deviations of the latents over the training rows.
_APART = 0.5
_BLURRED_STEPS, _FIRST_STEPS, _MOST_STEPS, _STEPS_NEARBY, _DONE, _STUCK = 5, 4, 25, 15, 1e-4, 1e6
_BLUR = 0.1  # variance added to that of a column, as a share of what its function varies
# Starts of every row, how many of them may lead to peaks, and how many go on after the first steps; two peaks are one
# when they are no more standard deviations apart than this.
_STARTS, _CLIMBED, _KEPT, _SAME_PEAK = 40, 30, 10, 1.0
_KNOWN = 0.2  # the standard deviation of a latent that is as good as known
_NEARBY = 0.5  # how far from a start what explains a row may be
_NEGLIGIBLE = 1e-6  # chance of a scale
_REPEATED = 20.0  # nats that another peak may be lower and still be kept in place of a repetition


class Modes(NamedTuple):
    """Peaks of the posterior of some rows, or of what it would be near to a start, and Gaussians that have the shape of
    it there."""

    at: np.ndarray  # [S, P, Q]
    information: np.ndarray  # [S, P, Q, Q] inverse covariances
    height: np.ndarray  # [S, P] log p(y, x) there

    def of(self, rows: np.ndarray) -> Modes:
        """Some of the rows."""
        return Modes(*(part[rows] for part in self))

    def and_these(self, others: Modes) -> Modes:
        """More of them for every row."""
        return Modes(*(np.concatenate(parts, axis=1) for parts in zip(self, others, strict=True)))

    def first(self, n_peaks: int) -> Modes:
        """The first of every row, which are the best where they were chosen."""
        return Modes(*(part[:, :n_peaks] for part in self))


class Cloud(NamedTuple):
    """Points that cover where training rows are and where the prior is, and what the columns are predicted to be at
    each: the likelihood of any row at any of them is a matrix product."""

    points: np.ndarray  # [C, Q]
    precision: np.ndarray  # [C, D], blurred
    mean: np.ndarray  # [C, D]
    log_prior: np.ndarray  # [C]
    near: np.ndarray  # [C, C] too near to each other to be two starts
    blur: np.ndarray  # [D] variance added to that of every column

    @classmethod
    def of(cls, predictor: Predictor) -> Cloud:
        mean, variance = predictor.training
        rng = np.random.default_rng(0)
        n_latents = mean.shape[1]
        used = predictor.used
        n_prior = int(_SHARE_FROM_PRIOR * _MOST_POINTS)
        rows = np.resize(rng.permutation(len(mean)), _MOST_POINTS - n_prior)
        around = mean[rows] + np.sqrt(variance[rows]) * rng.normal(size=(len(rows), n_latents))
        prior = rng.normal(size=(n_prior, n_latents))
        own = mean[rows[: len(mean)]]
        points = np.concatenate([own, around, prior]) * used
        predicted, spread = predictor.at_points(points)
        scaled = points[:, used] / np.maximum(mean[:, used].std(axis=0), STILL)
        near = cdist(scaled, scaled) < _APART
        blur = _BLUR * predicted[: len(own)].var(axis=0)
        scales = predictor.row_scales
        log_prior = scales.mixed(predictor.whereabouts.log_density(points, scales.values))
        return cls(points, 1.0 / (spread + blur), predicted, log_prior, near, blur)

    def starts(self, values: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """[S, P, Q]: for every row the points with the highest posterior, blurred, that are not too near to each other
        as long as there are such points."""
        pull = self.precision * self.mean
        level = pull * self.mean - np.log(self.precision)
        heights = values @ pull.T - 0.5 * values**2 @ self.precision.T - 0.5 * observed @ level.T + self.log_prior
        starts = []
        apart, every = heights.copy(), np.arange(len(values))
        for _ in range(_STARTS):
            chosen = apart.argmax(axis=1)
            # Where all are near to one that was chosen: any that was not chosen itself.
            crowded = ~np.isfinite(apart[every, chosen])
            chosen[crowded] = heights[crowded].argmax(axis=1)
            starts.append(self.points[chosen])
            heights[every, chosen] = -np.inf
            apart[self.near[chosen]] = -np.inf
        return np.stack(starts, axis=1)


def find_modes(
    predictor: Predictor, cloud: Cloud, starts: np.ndarray, values: np.ndarray, observed: np.ndarray, n_peaks: int
) -> Modes:
    """The best peaks of every row from starts [S, P, Q]; `values` [S, D] are zero where `observed` [S, D] is."""
    climb = partial(_climbed, predictor, values, observed)
    blurred = climb(starts[:, :_CLIMBED], _BLURRED_STEPS, blur=cloud.blur)
    modes = climb(best_peaks(blurred, _KEPT).at, _FIRST_STEPS)
    return climb(best_peaks(modes, n_peaks).at, _MOST_STEPS)


def leave_freedom(predictor: Predictor, peaks: Modes) -> np.ndarray:
    """[S] whether some latent is not as good as known at the highest peak, so that functions may bend along what is
    left of it. Those that do not bend make a posterior of one peak."""
    if not predictor.bends:
        return np.zeros(len(peaks.height), dtype=bool)
    highest = peaks.information[np.arange(len(peaks.height)), peaks.height.argmax(axis=1)]
    used = np.flatnonzero(predictor.used)
    least = np.linalg.eigvalsh(highest[:, used[:, None], used])[:, 0]
    return least < 1.0 / _KNOWN**2


def explanations(predictor: Predictor, starts: np.ndarray, values: np.ndarray, observed: np.ndarray) -> Modes:
    """The place nearest to each start that explains a row, and the shape of the posterior there: peaks of what it would
    be if a row were known to be near to the start."""
    return _climbed(predictor, values, observed, starts, _STEPS_NEARBY, near_starts=True)


def more_modes(
    predictor: Predictor, values: np.ndarray, observed: np.ndarray, known: Modes, starts: np.ndarray
) -> Modes:
    """As many peaks as are known, the best of these and of what is reached from other starts [S, P, Q]."""
    found = _climbed(predictor, values, observed, starts, _MOST_STEPS)
    return best_peaks(known.and_these(found), known.at.shape[1])


def _climbed(
    predictor: Predictor,
    values: np.ndarray,
    observed: np.ndarray,
    starts: np.ndarray,
    max_steps: int,
    blur: np.ndarray | float = 0.0,
    near_starts: bool = False,
) -> Modes:
    """From starts [S, P, Q], P of them for every row."""
    n_rows, n_starts, n_latents = starts.shape
    of_starts = np.repeat(values, n_starts, axis=0), np.repeat(observed, n_starts, axis=0)
    every_start = starts.reshape(-1, n_latents)
    prior = _NearStarts(every_start) if near_starts else _WhereRowsAre(predictor)
    climbing = _GaussNewton(predictor, prior, *of_starts, blur)
    at, information, height = climbing.climb(every_start, max_steps)
    of_rows = (part.reshape(n_rows, n_starts, *part.shape[1:]) for part in (at, information, height))
    return Modes(*of_rows)


def best_peaks(modes: Modes, n_peaks: int) -> Modes:
    """The peaks with most of the mass, by Laplace's approximation, each of them once where there are enough."""
    log_mass = modes.height - 0.5 * np.linalg.slogdet(modes.information)[1]
    every = np.arange(len(log_mass))
    chosen = []
    for _ in range(n_peaks):
        best = log_mass.argmax(axis=1)
        chosen.append(best)
        apart = modes.at - modes.at[every, best][:, None]
        distance = ((apart @ modes.information[every, best]) * apart).sum(axis=2)
        # The same peak once more is better than a place that was chosen for being far from all that is likely.
        log_mass = np.where(distance < _SAME_PEAK**2, log_mass - _REPEATED, log_mass)
    return Modes(*(np.stack([part[every, best] for best in chosen], axis=1) for part in modes))


class _Prior(Protocol):
    """Where rows are thought to be before their columns are seen."""

    def log_density(self, rows: np.ndarray, X: np.ndarray) -> np.ndarray:
        """[K, S] of these rows at X [S, Q], with each of the scales that rows may have."""

    def expand(self, rows: np.ndarray, X: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Its slope [S, Q] and minus its curvature [S, Q] with chances [K, S] of the scales."""


class _WhereRowsAre:
    """What the predictor says."""

    def __init__(self, predictor: Predictor) -> None:
        self._whereabouts, self._scales = predictor.whereabouts, predictor.row_scales.values

    def log_density(self, rows: np.ndarray, X: np.ndarray) -> np.ndarray:
        return self._whereabouts.log_density(X, self._scales)

    def expand(self, rows: np.ndarray, X: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not self._whereabouts.stretches.any():
            return self._whereabouts.expand(X)
        pull, tightness = np.zeros((2, *X.shape))
        for scale, own in zip(self._scales, chances, strict=True):
            likely = np.flatnonzero(own > _NEGLIGIBLE)
            parts = self._whereabouts.expand(X[likely], scale)
            pull[likely] += own[likely, None] * parts[0]
            tightness[likely] += own[likely, None] * parts[1]
        return pull, tightness


class _NearStarts(NamedTuple):
    """Near to where each of them starts."""

    starts: np.ndarray  # [S, Q]

    def log_density(self, rows: np.ndarray, X: np.ndarray) -> np.ndarray:
        return -0.5 * ((X - self.starts[rows]) ** 2).sum(axis=1)[None] / _NEARBY**2

    def expand(self, rows: np.ndarray, X: np.ndarray, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (self.starts[rows] - X) / _NEARBY**2, np.full(X.shape, 1.0 / _NEARBY**2)


class _Seen(NamedTuple):
    """What the columns of some rows are to the places where they are looked for."""

    error: np.ndarray  # [S, D], zero for gaps
    precision: np.ndarray  # [S, D], zero for gaps, with the scales that the rows may have
    chances: np.ndarray  # [K, S] of these scales

    def of(self, rows: np.ndarray) -> _Seen:
        """Some of the rows."""
        return _Seen(self.error[rows], self.precision[rows], self.chances[:, rows])


class _GaussNewton:
    """Damped Gauss-Newton steps (Levenberg and Marquardt's) up log p(y, x), for all rows at once, along the latents
    that the training rows use; the others stay where they are."""

    def __init__(
        self,
        predictor: Predictor,
        prior: _Prior,
        values: np.ndarray,
        observed: np.ndarray,
        blur: np.ndarray | float,
    ) -> None:
        self._predictor, self._prior = predictor, prior
        self._values, self._observed, self._blur = values, observed, blur
        self._axes = np.eye(predictor.training.mean.shape[1])[predictor.used]
        self._identity = np.eye(len(self._axes))

    def climb(self, at: np.ndarray, max_steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Where the rows end, the information matrix [S, Q, Q] of x there, and how high."""
        at = at.copy()
        every = on_the_way = np.arange(len(at))
        damping = np.full(len(at), 1e-3)
        height, seen = self._evaluate(every, at)
        slope, information = self._expand(every, at, seen)
        for _ in range(max_steps):
            if not on_the_way.size:
                break
            rows = on_the_way
            diagonal = np.einsum("sqq->sq", information[rows])
            damped = information[rows] + (damping[rows, None] * diagonal)[:, :, None] * self._identity
            step = np.linalg.solve(damped, slope[rows][:, :, None])[:, :, 0]
            promised = np.einsum("sq,sq->s", step, slope[rows])
            there = at[rows] + step @ self._axes
            height_there, seen = self._evaluate(rows, there)
            up = height_there > height[rows]
            moved, gained = rows[up], height_there[up] - height[rows[up]]
            at[moved], height[moved] = there[up], height_there[up]
            if moved.size:
                slope[moved], information[moved] = self._expand(moved, at[moved], seen.of(up))
            damping[rows] *= np.where(up, 0.2, 10.0)
            arrived = promised < _DONE
            arrived[up] |= gained < _DONE
            on_the_way = rows[~arrived & (damping[rows] < _STUCK)]
        # The latents that are not used have their prior.
        return at, np.eye(at.shape[1]) + self._axes.T @ (information - self._identity) @ self._axes, height

    def _evaluate(self, rows: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, _Seen]:
        """How high log p(y, x) is, and what is to be known to see where it rises."""
        mean, variance = self._predictor.at_points(X)
        variance = variance + self._blur
        values, observed = self._values[rows], self._observed[rows]
        error, precision = observed * (values - mean), observed / variance
        squares, logs = (precision * error**2).sum(axis=1), (observed * np.log(2.0 * np.pi * variance)).sum(axis=1)
        scales = self._predictor.row_scales
        log_likelihood = scales.of_each(gaussian(squares, logs, observed.sum(axis=1)))
        height, chances = scales.sum_over(log_likelihood + self._prior.log_density(rows, X))
        return height, _Seen(error, precision * scales.expected_precision(chances)[:, None], chances)

    def _expand(self, rows: np.ndarray, X: np.ndarray, seen: _Seen) -> tuple[np.ndarray, np.ndarray]:
        """Slope and minus curvature of log p(y, x) with the variances of the columns as they are here."""
        of_rows = self._predictor.slopes_at(X, self._axes).transpose(1, 0, 2)
        pull, tightness = (part @ self._axes.T for part in self._prior.expand(rows, X, seen.chances))
        slope = (of_rows @ (seen.precision * seen.error)[:, :, None])[:, :, 0] + pull
        curvature = (of_rows * seen.precision[:, None]) @ of_rows.swapaxes(1, 2)
        return slope, curvature + tightness[:, :, None] * self._identity
