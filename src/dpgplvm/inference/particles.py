"""What a row's gaps may hide, with its latents integrated out: weighted draws from the posterior of the latents.

Draws come from Gaussians around the peaks of the posterior, narrow and wide ones, and from where rows are before
anything is seen of them, and are weighted by what that mixture is not (importance sampling). Peaks that explain a row
equally well both count, and a row far from all training rows stays uncertain. The mean weight estimates the row's
density. How unlike the training rows a row is, its scale, is summed over in the weights, and every draw has one. The
random numbers are always the same, and the same for all rows, so a row does not depend on the rows that it comes with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dpgplvm.inference.modes import Cloud, Modes, find_modes, more_modes
from dpgplvm.inference.predictor import Predictor, chunks
from dpgplvm.inference.row_scales import gaussian
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.kernels.base import standard_normal_draws

_PEAKS = 4
_WIDTHS = (1.1, 2.5)  # of the Gaussians that are drawn from, beside those of the peaks
_ROWS_AT_ONCE, _ENTRIES_AT_ONCE = 64, 4_000_000
# Draws from every Gaussian: at first, and at most for rows of which fewer than enough have any weight.
_DRAWS, _MOST_DRAWS, _ENOUGH = 64, 1024, 150.0
_MORE_ANYWHERE = 4  # as many from where rows are, then
_STARTS = 8  # the draws with most weight, from which peaks that were missed may be found
_DRAWS_OF_ONE_GAUSSIAN = 256


class Particles(NamedTuple):
    """Weighted draws of the latents of some rows, and what the columns are predicted to be at each: a mixture of C
    Gaussians, of the groups that a column may be in."""

    weights: np.ndarray  # [S, W], adding up to one in every row
    log_density: np.ndarray  # [S] of what is observed
    shares: np.ndarray  # [C, D], adding up to one in every column
    means: np.ndarray  # [S, W, C, D]
    variances: np.ndarray  # [S, W, C, D], noise and the scale of the row included

    def of(self, rows: np.ndarray) -> Particles:
        """Some of the rows."""
        return Particles(
            self.weights[rows], self.log_density[rows], self.shares, self.means[rows], self.variances[rows]
        )

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry [S, D]."""
        mean = self._expected(self.means)
        return mean, self._expected(self.variances + (self.means - mean[:, None, None]) ** 2)

    def _expected(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("sw,swd->sd", self.weights, (self.shares * values).sum(axis=2))

    @property
    def n_effective(self) -> np.ndarray:
        """[S] as many draws of equal weight would be worth as much."""
        return 1.0 / (self.weights**2).sum(axis=1)


def posterior_of_rows(predictor: Predictor, Y: np.ndarray) -> Iterator[tuple[np.ndarray, Particles]]:
    """The posterior of the rows of the scaled table Y, NaN for gaps; some rows at a time, by their numbers."""
    nothing_seen = np.isnan(Y).all(axis=1)
    unseen = np.flatnonzero(nothing_seen)
    nowhere = np.zeros((len(unseen), predictor.inducing.shape[1]))
    for some, of_prior in around(predictor, nowhere, np.ones_like(nowhere)):
        yield unseen[some], of_prior._replace(log_density=np.zeros(len(of_prior.weights)))
    seen = np.flatnonzero(~nothing_seen)
    if not seen.size:
        return
    cloud = Cloud.of(predictor)
    for some in chunks(len(seen), _ROWS_AT_ONCE):
        rows = seen[some]
        observed = (~np.isnan(Y[rows])).astype(float)
        values = np.where(observed, Y[rows], 0.0)
        modes = find_modes(predictor, cloud, values, observed, _PEAKS)
        for own, particles in _sampled(predictor, modes, values, observed):
            yield rows[own], particles


def around(predictor: Predictor, mean: np.ndarray, variance: np.ndarray) -> Iterator[tuple[slice, Particles]]:
    """Draws, all of the same weight, for rows whose latents are known to be Gaussian; some rows at a time."""
    n_draws, n_latents = _DRAWS_OF_ONE_GAUSSIAN, mean.shape[1]
    standard = standard_normal_draws(n_draws, n_latents) if (variance > 0.0).any() else np.zeros((1, n_latents))
    for rows in chunks(len(mean), _rows_at_once(predictor, len(standard))):
        points = mean[rows][:, None] + np.sqrt(variance[rows])[:, None] * standard
        weights = np.full(points.shape[:2], 1.0 / len(standard))
        yield rows, Particles(weights, np.full(len(points), np.nan), *predicted_at(predictor, points))


def predicted_at(predictor: Predictor, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares [C, D], means and variances [S, W, C, D] at points [S, W, Q]."""
    shares, *moments = predictor.components_at(points.reshape(-1, points.shape[2]))
    means, variances = (part.reshape(*points.shape[:2], *part.shape[1:]) for part in moments)
    return shares, means, variances


class _Proposal(NamedTuple):
    """A mixture for every row, of Gaussians and of where rows are before anything is seen of them: whatever the
    Gaussians miss, no weight gets out of hand."""

    centres: np.ndarray  # [S, P, Q]
    factors: np.ndarray  # [S, P, Q, Q] triangular factors of the covariances
    whereabouts: Whereabouts
    n_draws: int  # from each Gaussian
    n_anywhere: int  # from where rows are

    @classmethod
    def around(cls, modes: Modes, whereabouts: Whereabouts, n_draws: int) -> _Proposal:
        """The peaks, in every width."""
        factors = np.linalg.inv(np.linalg.cholesky(modes.information)).swapaxes(2, 3)
        return cls(
            np.concatenate([modes.at] * len(_WIDTHS), axis=1),
            np.concatenate([width * factors for width in _WIDTHS], axis=1),
            whereabouts,
            n_draws,
            _n_anywhere(n_draws),
        )

    def draw(self) -> np.ndarray:
        """[S, W, Q]: other numbers for every Gaussian, around peaks in mirrored pairs, but the same for all rows."""
        n_rows, n_gaussians, n_latents = self.centres.shape
        n_peaks = n_gaussians * self.n_draws
        pairs = standard_normal_draws(n_peaks + self.n_anywhere, n_latents)[: (n_peaks + self.n_anywhere) // 2]
        of_peaks, of_others = np.split(pairs, [n_peaks // 2])
        of_peaks = of_peaks.reshape(n_gaussians, -1, n_latents)
        standard = np.concatenate([of_peaks, -of_peaks], axis=1)
        peaks = self.centres[:, :, None] + np.einsum("spqr,pwr->spwq", self.factors, standard)
        others = self.whereabouts.draw(np.concatenate([of_others, -of_others]))
        return np.concatenate([peaks.reshape(n_rows, -1, n_latents), np.tile(others, (n_rows, 1, 1))], axis=1)

    def log_density(self, points: np.ndarray, of_whereabouts: np.ndarray) -> np.ndarray:
        """[S, W] in the units of the log density [S, W] of where rows are, which is known."""
        inverses = np.linalg.inv(self.factors)
        log_determinants = np.log(np.einsum("spqq->spq", self.factors)).sum(axis=2)
        apart = points[:, None] - self.centres[:, :, None]
        squares = ((apart @ inverses.swapaxes(2, 3)) ** 2).sum(axis=3)
        of_peaks = logsumexp(-0.5 * squares - log_determinants[:, :, None], axis=1)
        total = self.centres.shape[1] * self.n_draws + self.n_anywhere
        shares = np.log(self.n_draws / total), np.log(self.n_anywhere / total)
        return np.logaddexp(shares[0] + of_peaks, shares[1] + of_whereabouts)


def _n_anywhere(n_draws: int) -> int:
    """Draws from where rows are. Where the first ones did not do, a posterior may be no sum of a few Gaussians."""
    return n_draws if n_draws == _DRAWS else _MORE_ANYWHERE * n_draws


def _sampled(
    predictor: Predictor, modes: Modes, values: np.ndarray, observed: np.ndarray, n_draws: int = _DRAWS
) -> Iterator[tuple[np.ndarray, Particles]]:
    """Draws for all of these rows. Where few of them have any weight, these may be near to a peak that was missed: it
    is looked for, and there are more draws."""
    n_points = n_draws * _PEAKS * len(_WIDTHS) + _n_anywhere(n_draws)
    for some in chunks(len(values), _rows_at_once(predictor, n_points)):
        rows = np.arange(len(values))[some]
        own = modes.of(rows)
        proposal = _Proposal.around(own, predictor.whereabouts, n_draws)
        points = proposal.draw()
        particles = _weighted(predictor, proposal, points, values[rows], observed[rows])
        enough = (particles.n_effective >= _ENOUGH) | (n_draws >= _MOST_DRAWS)
        yield rows[enough], particles.of(enough)
        if not enough.all():
            best = np.argsort(-particles.weights[~enough], axis=1)[:, :_STARTS, None]
            starts = np.take_along_axis(points[~enough], best, axis=1)
            few = rows[~enough]
            more = more_modes(predictor, values[few], observed[few], own.of(~enough), starts)
            for again, particles in _sampled(predictor, more, values[few], observed[few], 4 * n_draws):
                yield few[again], particles


def _rows_at_once(predictor: Predictor, n_points: int) -> int:
    """As many rows as memory is to be used for, with so many points for each."""
    return int(np.clip(_ENTRIES_AT_ONCE // (n_points * predictor.groups.places.size), 1, _ROWS_AT_ONCE))


def _weighted(
    predictor: Predictor, proposal: _Proposal, points: np.ndarray, values: np.ndarray, observed: np.ndarray
) -> Particles:
    shares, means, variances = predicted_at(predictor, points)
    of_scales = _likelihood(values, observed, shares, means, variances)
    log_likelihood, chances = predictor.row_scales.sum_over(of_scales)
    log_prior = predictor.whereabouts.log_density(points)
    log_weights = log_likelihood + log_prior - proposal.log_density(points, log_prior)
    # Divided by their own sum: where densities are tiny, that of logarithms has no digits left to make it one.
    highest = log_weights.max(axis=1)
    weights = np.exp(log_weights - highest[:, None])
    total = weights.sum(axis=1)
    log_density = highest + np.log(total) - np.log(points.shape[1])
    scales = predictor.row_scales.one_for_every_draw(chances)[:, :, None, None]
    return Particles(weights / total[:, None], log_density, shares, means, scales * variances)


def _likelihood(
    values: np.ndarray, observed: np.ndarray, shares: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> Callable[[float], np.ndarray]:
    """The log likelihood [S, W] of every draw as a function of the row's scale."""
    alone = shares[0] == 1.0  # columns that can be in one group only, of which a few sums are all that is needed
    squares = (values[:, None, alone] - means[:, :, 0, alone]) ** 2 / variances[:, :, 0, alone]
    logs = np.log(2.0 * np.pi * variances[:, :, 0, alone])
    n_alone = observed[:, alone].sum(axis=1, keepdims=True)
    squares, logs = (np.einsum("swd,sd->sw", part, observed[:, alone]) for part in (squares, logs))
    of_these = gaussian(squares, logs, n_alone)
    if alone.all():
        return of_these
    apart, spread = (values[:, None, None] - means)[..., ~alone], variances[..., ~alone]
    of_components = gaussian(apart**2 / spread, np.log(2.0 * np.pi * spread), np.ones(()))

    def of_all(scale: float) -> np.ndarray:
        of_columns = logsumexp(of_components(scale), axis=2, b=shares[:, ~alone])
        return of_these(scale) + np.einsum("swd,sd->sw", of_columns, observed[:, ~alone])

    return of_all
