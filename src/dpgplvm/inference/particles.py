"""What a row's gaps may hide, with its latents integrated out: weighted draws from the posterior of the latents.

Draws come from Gaussians around the peaks of the posterior, narrow and wide ones, from others around places that
explain the row, which lie all along it, and from where rows are before anything is seen of them. They are weighted by
what that mixture is not (importance sampling). Peaks that explain a row equally well both count, and a row far from all
training rows stays uncertain. The mean weight estimates the row's density. How unlike the training rows a row is, its
scale, is summed over in the weights, and every draw has one. The random numbers are always the same, and the same for
all rows, so a row does not depend on the rows that it comes with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dpgplvm.inference.compiled import chunks
from dpgplvm.inference.drift import Drift
from dpgplvm.inference.modes import Modes
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.row_scales import RowScales, gaussian
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.kernels.base import standard_normal_draws

_WIDTHS, _WIDTH_NEARBY = (1.1, 2.5), 1.2  # of the Gaussians that are drawn from, in units of the posterior's
_ENTRIES_AT_ONCE = 4_000_000
_DRAWS_OF_ONE_GAUSSIAN = 1024  # standard deviations are then within half a percent, ends of intervals within two


class Particles(NamedTuple):
    """Weighted draws of the latents of some rows, and what the columns are predicted to be at each: a mixture of C
    Gaussians, of the groups that a column may be in."""

    weights: np.ndarray  # [S, W], adding up to one in every row
    log_density: np.ndarray  # [S] of what is observed
    shares: np.ndarray  # [C, D], adding up to one in every column
    means: np.ndarray  # [S, W, C, D]
    variances: np.ndarray  # [S, W, C, D], noise and a scale of the row included, drawn for every draw of the latents
    expected: np.ndarray  # [S, W] how large the scale is on average, in units of the one that was drawn

    def of(self, rows: np.ndarray) -> Particles:
        """Some of the rows."""
        weights, log_density, shares, *others = self
        return Particles(weights[rows], log_density[rows], shares, *(part[rows] for part in others))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry [S, D]."""
        mean = self._expected(self.means)
        variances = self.expected[:, :, None, None] * self.variances
        return mean, self._expected(variances + (self.means - mean[:, None, None]) ** 2)

    def _expected(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("sw,swd->sd", self.weights, (self.shares * values).sum(axis=2))

    @property
    def n_effective(self) -> np.ndarray:
        """[S] as many draws of equal weight would be worth as much."""
        return 1.0 / (self.weights**2).sum(axis=1)


def around(predictor: Predictor, mean: np.ndarray, variance: np.ndarray) -> Iterator[tuple[slice, Particles]]:
    """Draws, all of the same weight, for rows whose latents are known to be Gaussian; some rows at a time."""
    n_draws, n_latents = _DRAWS_OF_ONE_GAUSSIAN, mean.shape[1]
    standard = standard_normal_draws(n_draws, n_latents) if (variance > 0.0).any() else np.zeros((1, n_latents))
    for rows in chunks(len(mean), rows_at_once(predictor, len(standard))):
        points = mean[rows][:, None] + np.sqrt(variance[rows])[:, None] * standard
        weights = np.full(points.shape[:2], 1.0 / len(standard))
        unknown = np.full(len(points), np.nan)
        yield rows, Particles(weights, unknown, *predicted_at(predictor, points), np.ones_like(weights))


def predicted_at(predictor: Predictor, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares [C, D], means and variances [S, W, C, D] at points [S, W, Q]."""
    shares, *moments = predictor.components_at(points.reshape(-1, points.shape[2]))
    means, variances = (part.reshape(*points.shape[:2], *part.shape[1:]) for part in moments)
    return shares, means, variances


class Weighted(NamedTuple):
    """Draws with their weights, and what they say about a drift of every row."""

    particles: Particles
    is_suspect: np.ndarray  # [S] whether it is so unlikely that it may have drifted
    chance: np.ndarray  # [S] that it has
    log_drift: np.ndarray  # [S, W] log density of what a suspect shows, and of the draw, if it has


class Proposal(NamedTuple):
    """A mixture for every row, of Gaussians and of where rows are before anything is seen of them, far out ones among
    them: whatever the Gaussians miss, no weight gets out of hand."""

    centres: np.ndarray  # [S, P, Q]
    factors: np.ndarray  # [S, P, Q, Q] triangular factors of the covariances
    whereabouts: Whereabouts
    row_scales: RowScales
    n_draws: int  # from each Gaussian
    n_anywhere: int  # from where rows are

    @staticmethod
    def n_gaussians(peaks: Modes, nearby: Modes | None) -> int:
        """How many there are around these, for a row."""
        return len(_WIDTHS) * peaks.at.shape[1] + (0 if nearby is None else nearby.at.shape[1])

    @classmethod
    def around(
        cls, peaks: Modes, nearby: Modes | None, predictor: Predictor, n_draws: int, n_anywhere: int
    ) -> Proposal:
        """The peaks, in every width, and what else explains a row."""
        gaussians = [(peaks, width) for width in _WIDTHS] + ([] if nearby is None else [(nearby, _WIDTH_NEARBY)])
        factors = [width * np.linalg.inv(np.linalg.cholesky(modes.information)) for modes, width in gaussians]
        return cls(
            np.concatenate([modes.at for modes, _ in gaussians], axis=1),
            np.concatenate(factors, axis=1).swapaxes(2, 3),
            predictor.whereabouts,
            predictor.row_scales.evened(),
            n_draws,
            n_anywhere,
        )

    def draw(self) -> np.ndarray:
        """[S, W, Q]: other numbers for every Gaussian, in mirrored pairs, but the same for all rows."""
        n_rows, n_gaussians, n_latents = self.centres.shape
        n_around = n_gaussians * self.n_draws
        pairs = standard_normal_draws(n_around + self.n_anywhere, n_latents)[: (n_around + self.n_anywhere) // 2]
        of_gaussians, of_others = np.split(pairs, [n_around // 2])
        of_gaussians = of_gaussians.reshape(n_gaussians, -1, n_latents)
        standard = np.concatenate([of_gaussians, -of_gaussians], axis=1)
        around = self.centres[:, :, None] + np.einsum("spqr,pwr->spwq", self.factors, standard)
        scales = self.row_scales.some(self.n_anywhere)
        others = self.whereabouts.draw(np.concatenate([of_others, -of_others]), scales)
        return np.concatenate([around.reshape(n_rows, -1, n_latents), np.tile(others, (n_rows, 1, 1))], axis=1)

    def log_density(self, points: np.ndarray, of_whereabouts: np.ndarray) -> np.ndarray:
        """[S, W] in the units of the log densities [K, S, W] of where rows with each of the scales are."""
        n_gaussians = self.centres.shape[1]
        log_total = np.log(n_gaussians * self.n_draws + self.n_anywhere)
        found = np.log(self.n_anywhere) - log_total + self.row_scales.mixed(of_whereabouts)
        inverses = np.linalg.inv(self.factors)
        levels = np.log(self.n_draws) - log_total - np.log(np.einsum("spqq->spq", self.factors)).sum(axis=2)
        for p in range(n_gaussians):
            away = (points - self.centres[:, p, None]) @ inverses[:, p].swapaxes(1, 2)
            found = np.logaddexp(found, levels[:, p, None] - 0.5 * (away**2).sum(axis=2))
        return found


def rows_at_once(predictor: Predictor, n_points: int) -> int:
    """As many rows as memory is to be used for, with so many points for each."""
    return max(1, _ENTRIES_AT_ONCE // (n_points * predictor.groups.places.size))


def weighted(
    predictor: Predictor,
    drift: Drift | None,
    proposal: Proposal,
    points: np.ndarray,
    values: np.ndarray,
    observed: np.ndarray,
) -> Weighted:
    """The draws `points` [S, W, Q] from a proposal, for rows with values [S, D] where observed [S, D]."""
    shares, means, variances = predicted_at(predictor, points)
    scales = predictor.row_scales
    log_prior = predictor.whereabouts.log_density(points, scales.values)
    log_likelihood = scales.of_each(_likelihood(values, observed, shares, means, variances))
    log_joint, chances = scales.sum_over(log_likelihood + log_prior)
    log_proposal = proposal.log_density(points, log_prior)
    weights, log_density = _normalised(log_joint - log_proposal)
    drawn = scales.one_for_every_draw(chances)
    expected = scales.expected(chances) / drawn
    is_suspect, chance = np.zeros(len(values), dtype=bool), np.zeros(len(values))
    log_drift = np.full(weights.shape, -np.inf)
    if drift is not None:
        is_suspect = drift.suspects(log_density, observed)
        log_prior = np.broadcast_to(log_prior, log_likelihood.shape)
        for row in np.flatnonzero(is_suspect):
            # A column that may be in several groups is the one Gaussian of their mean and variance here.
            mean = (shares * means[row]).sum(axis=1)
            variance = (shares * (variances[row] + (means[row] - mean[:, None]) ** 2)).sum(axis=1)
            shown = values[row], observed[row]
            found = drift.of_row(scales, *shown, mean, variance, log_prior[:, row], log_likelihood[:, row])
            log_drift[row] = found.log_drift
            if not found.explains:
                continue
            weights[row], log_density[row] = _normalised(found.log_joint - log_proposal[row])
            chance[row] = weights[row] @ np.exp(found.log_drift - found.log_joint)
            means[row, found.is_drift] = found.means[found.is_drift, None]
            variances[row, found.is_drift] = found.variances[found.is_drift, None]
            drawn[row], expected[row] = found.scales, found.expected
    variances = drawn[:, :, None, None] * variances
    return Weighted(Particles(weights, log_density, shares, means, variances, expected), is_suspect, chance, log_drift)


def _normalised(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights that add up to one [..., W], and the logarithm of what they were on average [...]."""
    # Divided by their own sum: where densities are tiny, that of logarithms has no digits left to make it one.
    highest = log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(log_weights - highest)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / total, (highest + np.log(total))[..., 0] - np.log(log_weights.shape[-1])


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
