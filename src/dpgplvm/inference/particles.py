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

from dpgplvm.inference.compiled import chunks
from dpgplvm.inference.components import Components
from dpgplvm.inference.drift import Drift
from dpgplvm.inference.modes import Modes
from dpgplvm.inference.predictor import Predictor
from dpgplvm.inference.row_scales import RowScales, gaussian
from dpgplvm.inference.threads import Threads
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.kernels.base import standard_normal_draws

_WIDTHS, _WIDTH_NEARBY = (1.1, 2.5), 1.2  # of the Gaussians that are drawn from, in units of the posterior's
_ENTRIES_AT_ONCE = 4_000_000
_DRAWS_OF_ONE_GAUSSIAN = 1024  # standard deviations are then within half a percent, ends of intervals within two


class Particles(NamedTuple):
    """Weighted draws of the latents of some rows, and what the E components of columns are predicted to be at each."""

    weights: np.ndarray  # [S, W], adding up to one in every row
    log_density: np.ndarray  # [S] of what is observed
    components: Components
    means: np.ndarray  # [S, W, E]
    variances: np.ndarray  # [S, W, E], noise and a scale of the row included, drawn for every draw of the latents
    expected: np.ndarray  # [S, W] how large the scale is on average, in units of the one that was drawn

    def of(self, rows: np.ndarray) -> Particles:
        """Some of the rows."""
        weights, log_density, components, *others = self
        return Particles(weights[rows], log_density[rows], components, *(part[rows] for part in others))

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry [S, D]."""
        mean = self.components.mean(self._expected(self.means))
        apart = self.means - mean[:, None, self.components.columns]
        return mean, self.components.mean(self._expected(self.expected[:, :, None] * self.variances + apart**2))

    def _expected(self, values: np.ndarray) -> np.ndarray:
        return np.einsum("sw,swe->se", self.weights, values)

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


def predicted_at(predictor: Predictor, points: np.ndarray) -> tuple[Components, np.ndarray, np.ndarray]:
    """The components of the columns, their means and variances [S, W, E] at points [S, W, Q]."""
    moments = predictor.components_at(points.reshape(-1, points.shape[2]))
    means, variances = (part.reshape(*points.shape[:2], -1) for part in moments)
    return predictor.groups.components, means, variances


class Weighted(NamedTuple):
    """Draws with their weights, and what they say about a drift of every row."""

    particles: Particles
    is_unlikely: np.ndarray  # [S] whether it is far less likely than those that were learned from
    is_suspect: np.ndarray  # [S] whether it may therefore have drifted
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
    return max(1, _ENTRIES_AT_ONCE // (n_points * predictor.groups.components.n_components))


def weighted(
    predictor: Predictor,
    drift: Drift | None,
    proposal: Proposal,
    points: np.ndarray,
    values: np.ndarray,
    observed: np.ndarray,
) -> Weighted:
    """The draws `points` [S, W, Q] from a proposal, for rows with values [S, D] where observed [S, D]."""
    components, means, variances = predicted_at(predictor, points)
    scales = predictor.row_scales
    log_prior = predictor.whereabouts.log_density(points, scales.values)
    log_likelihood = scales.of_each(_likelihood(values, observed, components, means, variances))
    log_joint, chances = scales.sum_over(log_likelihood + log_prior)
    log_proposal = proposal.log_density(points, log_prior)
    weights, log_density = _normalised(log_joint - log_proposal)
    drawn = scales.one_for_every_draw(chances)
    expected = scales.expected(chances) / drawn
    is_unlikely, is_suspect = np.zeros((2, len(values)), dtype=bool)
    chance = np.zeros(len(values))
    log_drift = np.full(weights.shape, -np.inf)
    if drift is not None:
        is_unlikely = drift.unlikely(log_density, observed)
        is_suspect = is_unlikely & drift.may_explain(observed)
        log_prior = np.broadcast_to(log_prior, log_likelihood.shape)

        def ask(row: int) -> None:
            # A column that may be in several groups is the one Gaussian of their mean and variance here.
            shown = values[row], observed[row], *components.moments(means[row], variances[row])
            found = drift.of_row(scales, *shown, log_prior[:, row], log_likelihood[:, row])
            log_drift[row] = found.log_drift
            if not found.explains:
                return
            weights[row], log_density[row] = _normalised(found.log_joint - log_proposal[row])
            chance[row] = weights[row] @ np.exp(found.log_drift - found.log_joint)
            means[row, found.is_drift] = found.means[found.is_drift][:, components.columns]
            variances[row, found.is_drift] = found.variances[found.is_drift][:, components.columns]
            drawn[row], expected[row] = found.scales, found.expected

        Threads(predictor.n_threads).map(ask, np.flatnonzero(is_suspect))
    particles = Particles(weights, log_density, components, means, drawn[:, :, None] * variances, expected)
    return Weighted(particles, is_unlikely, is_suspect, chance, log_drift)


def _normalised(log_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights that add up to one [..., W], and the logarithm of what they were on average [...]."""
    # Divided by their own sum: where densities are tiny, that of logarithms has no digits left to make it one.
    highest = log_weights.max(axis=-1, keepdims=True)
    weights = np.exp(log_weights - highest)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / total, (highest + np.log(total))[..., 0] - np.log(log_weights.shape[-1])


def _likelihood(
    values: np.ndarray, observed: np.ndarray, components: Components, means: np.ndarray, variances: np.ndarray
) -> Callable[[float], np.ndarray]:
    """The log likelihood [S, W] of every draw as a function of the row's scale."""
    squares = (values[:, None, components.columns] - means) ** 2 / variances
    logs = np.log(2.0 * np.pi * variances)
    # Columns that can be in one group only, of which a few sums are all that is needed.
    is_alone = components.counts == 1
    alone, others = is_alone[components.columns], np.flatnonzero(~is_alone & observed.any(axis=0))
    shown = np.where(alone, observed[:, components.columns], 0.0)
    of_these = gaussian(
        np.einsum("swe,se->sw", squares, shown),
        np.einsum("swe,se->sw", logs, shown),
        shown.sum(axis=1, keepdims=True),
    )
    if not others.size:
        return of_these
    of_others = np.isin(components.columns, others)
    of_components = gaussian(squares[..., of_others], logs[..., of_others], np.ones(()))
    log_shares = np.log(components.shares[of_others])
    first, column = np.unique(components.columns[of_others], return_index=True, return_inverse=True)[1:]

    def of_all(scale: float) -> np.ndarray:
        each = of_components(scale) + log_shares
        highest = np.maximum.reduceat(each, first, axis=2)  # logaddexp.reduceat takes twice as long
        of_columns = highest + np.log(np.add.reduceat(np.exp(each - highest[..., column]), first, axis=2))
        return of_these(scale) + np.einsum("swd,sd->sw", of_columns, observed[:, others])

    return of_all
