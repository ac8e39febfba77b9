"""A row that is unlike those that were learned from may still be unlike them in a likely way.

Someone walks on, out of the part of the room in which they were filmed. Functions of the latents have learned nothing
there and go back to their mean, but columns that moved together will go on doing so. So a row that is far less likely
than those learned from is asked whether it has drifted: whether there is a linear part between what the latents
explain and the noise,

    y = f(x) + L w + e,    w ~ N(0, s t I),    e ~ N(0, s (V + t O)),

where L L' is the covariance, over the rows that were learned from, of what the functions are there, V are the variances
of the columns at x, O is a small share of the variances of the functions, s is the scale of the row, and t, how far it
has drifted, one of a few sizes, 0 among them. With w integrated out, s still multiplies all variances; given x and w,
columns are independent.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp

from dpgplvm.inference.modes import Modes, best_peaks
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.row_scales import RowScales, evenly_chosen, gaussian

_SIZES, _CHANCES = np.array([0.0, 0.1, 1.0, 10.0]), np.array([0.94, 0.02, 0.02, 0.02])  # of t
_OWN = 0.001  # O, as a share
# Directions in L: so many at most, no more than this share of the columns. Rows that show fewer than so many times as
# many columns are not asked: many directions would explain any few numbers.
_MOST_DIRECTIONS, _SHARE_OF_COLUMNS, _TIMES_AS_MANY, _LEAST_VARIANCE = 20, 0.25, 2, 1e-6
_WORST = 4.0  # mean square, in units of the variances, of what a drift has to leave unexplained at most
_STEPS, _DAMPING = 15, 1e-3  # to a peak
_MOST_ROWS = 1000  # to learn from
# Standard deviations of a log density, to the variance of which every column adds a half, below which rows are asked.
_MARGIN = 4.0


class Drifted(NamedTuple):
    """What W draws of the latents of one row come to when it may have drifted, with a draw of w and s for each."""

    explains: bool  # whether a drift explains the row at all
    log_joint: np.ndarray  # [W]
    log_drift: np.ndarray  # [W] of this, with a t that is not 0
    is_drift: np.ndarray  # [W] where t is not 0
    means: np.ndarray  # [W, D]
    variances: np.ndarray  # [W, D] without s
    scales: np.ndarray  # s [W]
    expected: np.ndarray  # [W] how large s is on average, in units of the one that was drawn


class _OfSize(NamedTuple):
    """The posterior of w for drifts of one size, N(C^-T h, s C^-T C^-1), and what the row is like with w gone."""

    squares: np.ndarray  # [W] in units of the variances
    logs: np.ndarray  # [W] log determinant of 2 pi times the covariance
    factors: np.ndarray  # C [W, R, R]
    halves: np.ndarray  # h [W, R]


class _Expansion(NamedTuple):
    """The log density of rows that have drifted and of their latents, around places [S, P, Q], by Gauss and Newton."""

    height: np.ndarray  # [S, P] but for a constant
    squares: np.ndarray  # [S, P] of what is apart, in units of the covariance
    slope: np.ndarray  # [S, P, Q]
    information: np.ndarray  # [S, P, Q, Q]


class Drift(NamedTuple):
    """How rows may drift, and which of them are asked whether they have. Where a density is wanted, `is_asked` is False
    and none is: only unlikely ones would be, and what only some rows get does not add up to one."""

    loadings: np.ndarray  # L [D, R]
    own: np.ndarray  # O [D]
    usual: np.ndarray  # [D] log densities of columns at the rows that were learned from
    surprise: float  # nats that the latents of such a row cost
    is_asked: bool = True

    @classmethod
    def learned(cls, predictor: Predictor, is_asked: bool = True) -> Drift | None:
        """None where rows are taken for alike, where nothing varies, or functions are linear: those go on anyway."""
        if len(predictor.row_scales.values) == 1 or not predictor.bends:
            return None
        mean, variance = map(np.asarray, predictor.training)
        some = np.linspace(0, len(mean) - 1, min(len(mean), _MOST_ROWS)).astype(int)
        values, variances = predictor.at_points(mean[some])
        _, spread, directions = np.linalg.svd((values - values.mean(axis=0)) / np.sqrt(len(some)), full_matrices=False)
        most = min(_MOST_DIRECTIONS, int(_SHARE_OF_COLUMNS * values.shape[1]))
        kept = np.flatnonzero(spread**2 > _LEAST_VARIANCE)[:most]
        if not kept.size:
            return None
        usual = -0.5 * (1.0 + np.log(2.0 * np.pi * variances).mean(axis=0))
        prior = predictor.model.latent_prior
        surprise = np.mean(prior.divergence_of_rows(prior.start(jnp.asarray(mean), jnp.asarray(variance))))
        return cls((spread[:, None] * directions)[kept].T, _OWN * values.var(axis=0), usual, float(surprise), is_asked)

    def unlikely(self, log_density: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """[S] which rows are far less likely than those learned from, by the log density [S] of what they show."""
        margin = _MARGIN * np.sqrt(0.5 * observed.sum(axis=1))
        return log_density < observed @ self.usual - self.surprise - margin

    def may_explain(self, observed: np.ndarray) -> np.ndarray:
        """[S] which rows show enough to be asked."""
        return self.is_asked & (observed.sum(axis=1) >= _TIMES_AS_MANY * self.loadings.shape[1])

    def of_row(
        self,
        scales: RowScales,
        values: np.ndarray,
        observed: np.ndarray,
        means: np.ndarray,
        variances: np.ndarray,
        log_prior: np.ndarray,
        log_likelihood: np.ndarray,
    ) -> Drifted:
        """The row with values [D], where observed [D], at draws at which its columns have means and variances [W, D],
        its latents the log density [K, W], and the row without a drift the other, with each of the scales.

        No drift may explain the row either: a wrong number in one column is no reason to expect others to follow it.
        """
        seen = observed > 0.0
        apart = values[seen] - means[:, seen]
        found = [self._of_size(size, seen, apart, variances[:, seen]) for size in _SIZES[1:]]
        squares, logs = (np.array([getattr(one, name) for one in found]) for name in ("squares", "logs"))
        explains = bool(squares.min() <= _WORST * seen.sum())
        with_drift = scales.of_each(gaussian(squares, logs, np.array(seen.sum()))).swapaxes(0, 1)
        likelihood = np.concatenate([log_likelihood[None], with_drift])  # [T, K, W]
        joint = likelihood + log_prior + np.log(np.outer(_CHANCES, scales.chances))[:, :, None]
        log_joint, log_drift = logsumexp(joint, axis=(0, 1)), logsumexp(joint[1:], axis=(0, 1))
        chances = np.exp(joint - log_joint)
        draws = np.arange(len(means))
        size, scale = np.unravel_index(evenly_chosen(chances.reshape(-1, len(draws))), chances.shape[:2])
        given_size = chances[size, :, draws].T  # [K, W]
        expected = scales.expected(given_size / given_size.sum(axis=0))
        drawn = np.array(scales.values)[scale]
        noise = np.sqrt(drawn[:, None]) * _noise(len(draws), self.loadings.shape[1])
        w = np.zeros_like(noise)
        for number, one in enumerate(found, 1):
            own = np.flatnonzero(size == number)
            w[own] = _backward(one.factors[own], one.halves[own] + noise[own])
        means, variances = means + w @ self.loadings.T, variances + _SIZES[size][:, None] * self.own
        return Drifted(explains, log_joint, log_drift, size > 0, means, variances, drawn, expected / drawn)

    def _of_size(self, size: float, seen: np.ndarray, apart: np.ndarray, variances: np.ndarray) -> _OfSize:
        L, variances = self.loadings[seen], variances + size * self.own[seen]
        n_draws, n_directions = len(apart), L.shape[1]
        squares, logs = (apart**2 / variances).sum(axis=1), np.log(2.0 * np.pi * variances).sum(axis=1)
        # Of symmetric matrices, a factorisation reads the lower triangle alone.
        rows, columns = np.tril_indices(n_directions)
        precision = np.zeros((n_draws, n_directions, n_directions))
        precision[:, rows, columns] = (1.0 / variances) @ (L[:, rows] * L[:, columns])
        precision += np.eye(n_directions) / size
        factors = np.linalg.cholesky(precision)
        halves = _forward(factors, (apart / variances) @ L)
        determinants = n_directions * np.log(size) + 2.0 * np.log(np.einsum("wrr->wr", factors)).sum(axis=1)
        return _OfSize(squares - (halves**2).sum(axis=1), logs + determinants, factors, halves)

    def peaks(
        self,
        predictor: Predictor,
        values: np.ndarray,
        observed: np.ndarray,
        starts: np.ndarray,
        n_peaks: int,
        known: Modes | None = None,
    ) -> Modes:
        """Places that are likely for rows with values [S, D], where observed [S, D], that have drifted: the best of
        those that damped Gauss-Newton steps lead to from starts [S, P, Q], and of those that are known.

        They are for drawing from: t is what suits a start best, s is 1 on the way and then what suits a place, and
        latents have a standard normal prior.
        """
        shown = values[:, None], observed[:, None]
        sizes = [np.full(starts.shape[:2], size) for size in _SIZES[1:]]
        suits = np.argmax([self._expanded(predictor, starts, size, *shown).height for size in sizes], axis=0)
        size = _SIZES[1:][suits]
        at, here = starts, self._expanded(predictor, starts, size, *shown)
        damping = np.full(size.shape, _DAMPING)
        for _ in range(_STEPS):
            curvature = here.information * (1.0 + damping[..., None, None] * np.eye(starts.shape[2]))
            tried = at + np.linalg.solve(curvature, here.slope[..., None])[..., 0]
            there = self._expanded(predictor, tried, size, *shown)
            better = there.height > here.height
            at = np.where(better[..., None], tried, at)
            here = _Expansion(
                np.where(better, there.height, here.height),
                np.where(better, there.squares, here.squares),
                np.where(better[..., None], there.slope, here.slope),
                np.where(better[..., None, None], there.information, here.information),
            )
            damping = damping * np.where(better, 0.2, 5.0)
        # What is still apart tells how large s is, and with it how wide and how high the peak.
        scales, prior, n_seen = predictor.row_scales.values, np.eye(starts.shape[2]), observed.sum(axis=1)[:, None]
        scale = np.clip(here.squares / n_seen, min(scales), max(scales))
        height = here.height + 0.5 * here.squares * (1.0 - 1.0 / scale) - 0.5 * n_seen * np.log(scale)
        found = Modes(at, (here.information - prior) / scale[..., None, None] + prior, height)
        return best_peaks(found if known is None else known.and_these(found), n_peaks)

    def _expanded(
        self, predictor: Predictor, X: np.ndarray, size: np.ndarray, values: np.ndarray, observed: np.ndarray
    ) -> _Expansion:
        n_latents, points = X.shape[2], X.reshape(-1, X.shape[2])
        f, variances = (part.reshape(*X.shape[:2], -1) for part in predictor.at_points(points))
        J = predictor.slopes_at(points, np.eye(n_latents)).reshape(n_latents, *f.shape).transpose(1, 2, 3, 0)
        variances = variances + size[..., None] * self.own
        weights = observed / variances
        # (V + t L L')^-1 = V^-1 - V^-1 L M^-1 L' V^-1, with M = I / t + L' V^-1 L.
        L, weighted = self.loadings, weights[..., None] * self.loadings
        M = np.swapaxes(weighted, 2, 3) @ L + np.eye(L.shape[1]) / size[..., None, None]
        both = np.concatenate([(values - f)[..., None], J], axis=3)  # what is apart, and how it changes
        projected = np.swapaxes(weighted, 2, 3) @ both
        products = np.swapaxes(both, 2, 3) @ (weights[..., None] * both)
        products = products - np.swapaxes(projected, 2, 3) @ np.linalg.solve(M, projected)
        logs = (observed * np.log(variances)).sum(axis=2) + np.linalg.slogdet(M)[1] + L.shape[1] * np.log(size)
        return _Expansion(
            -0.5 * (products[..., 0, 0] + logs + (X**2).sum(axis=2)),
            products[..., 0, 0],
            products[..., 1:, 0] - X,
            products[..., 1:, 1:] + np.eye(n_latents),
        )


def _forward(factors: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """C^-1 of vectors [W, R], for triangular C [W, R, R]: NumPy's own solve factorises each of them first."""
    solved = np.empty_like(vectors)
    for r in range(vectors.shape[1]):
        known = np.einsum("wk,wk->w", factors[:, r, :r], solved[:, :r])
        solved[:, r] = (vectors[:, r] - known) / factors[:, r, r]
    return solved


def _backward(factors: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """C^-T of the same."""
    return _forward(factors.swapaxes(1, 2)[:, ::-1, ::-1], vectors[:, ::-1])[:, ::-1]


def _noise(n_draws: int, n_directions: int) -> np.ndarray:
    """Always the same numbers, and others than draws of latents are made of."""
    return np.random.default_rng(30).standard_normal((n_draws, n_directions))
