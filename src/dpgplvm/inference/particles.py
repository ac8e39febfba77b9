"""What a row's gaps may hide, with its latents integrated out: weighted draws from the posterior of the latents.

Draws come from a mixture of Gaussians around the peaks of the posterior, narrow and wide ones, and are weighted by what
the mixture is not (importance sampling). Peaks that explain a row equally well both count, and a row far from all
training rows stays uncertain. The mean weight estimates the row's density. The random numbers are always the same, and
the same for all rows, so a row does not depend on the rows that it comes with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dpgplvm.inference.modes import Cloud, Modes, find_modes, log_joint
from dpgplvm.inference.predictor import Predictor, chunks
from dpgplvm.model.kernels.base import standard_normal_draws

_PEAKS = 4
_DRAWS = 40  # around every peak, for every width
_DRAWS_OF_ONE_GAUSSIAN = 256
_WIDTHS = (1.1, 2.5)  # of the Gaussians that are drawn from, beside those of the peaks
_ROWS_AT_ONCE = 64


class Particles(NamedTuple):
    """Weighted draws of the latents of some rows, and what the columns are predicted to be at each."""

    weights: np.ndarray  # [S, W], adding up to one in every row
    log_density: np.ndarray  # [S] of what is observed
    means: np.ndarray  # [S, W, D]
    variances: np.ndarray  # [S, W, D], noise included

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of every entry [S, D]."""
        mean = np.einsum("sw,swd->sd", self.weights, self.means)
        second = np.einsum("sw,swd->sd", self.weights, self.variances + (self.means - mean[:, None]) ** 2)
        return mean, second


def posterior_of_rows(predictor: Predictor, Y: np.ndarray) -> Iterator[tuple[slice, Particles]]:
    """The posterior of the rows of the scaled table Y, NaN for gaps; some rows at a time."""
    if not len(Y):
        return
    cloud = Cloud.of(predictor)
    for rows in chunks(len(Y), _ROWS_AT_ONCE):
        observed = (~np.isnan(Y[rows])).astype(float)
        yield rows, _sample(predictor, cloud, np.where(observed, Y[rows], 0.0), observed)


def around(predictor: Predictor, mean: np.ndarray, variance: np.ndarray) -> Iterator[tuple[slice, Particles]]:
    """Draws, all of the same weight, for rows whose latents are known to be Gaussian; some rows at a time."""
    n_draws, n_latents = _DRAWS_OF_ONE_GAUSSIAN, mean.shape[1]
    standard = standard_normal_draws(n_draws, n_latents) if (variance > 0.0).any() else np.zeros((1, n_latents))
    for rows in chunks(len(mean), _ROWS_AT_ONCE):
        points = mean[rows][:, None] + np.sqrt(variance[rows])[:, None] * standard
        means, variances = _predicted(predictor, points)
        weights = np.full(points.shape[:2], 1.0 / len(standard))
        yield rows, Particles(weights, np.full(len(points), np.nan), means, variances)


class _Proposal(NamedTuple):
    """A mixture of Gaussians for every row, all with the same share of the draws."""

    centres: np.ndarray  # [S, P, Q]
    factors: np.ndarray  # [S, P, Q, Q] triangular factors of the covariances

    @classmethod
    def around(cls, modes: Modes) -> _Proposal:
        """The peaks, in every width, and the prior: whatever the peaks miss, no weight gets out of hand."""
        n_rows, _, n_latents = modes.at.shape
        factors = np.linalg.inv(np.linalg.cholesky(modes.information)).swapaxes(2, 3)
        prior = np.zeros((n_rows, 1, n_latents)), np.tile(np.eye(n_latents), (n_rows, 1, 1, 1))
        return cls(
            np.concatenate([modes.at] * len(_WIDTHS) + [prior[0]], axis=1),
            np.concatenate([width * factors for width in _WIDTHS] + [prior[1]], axis=1),
        )

    def draw(self, standard: np.ndarray) -> np.ndarray:
        """[S, P * W, Q] from standard normal draws [W, Q]."""
        n_rows, _, n_latents = self.centres.shape
        drawn = self.centres[:, :, None] + np.einsum("spqr,wr->spwq", self.factors, standard)
        return drawn.reshape(n_rows, -1, n_latents)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """[S, W], up to a constant that is the same for all proposals."""
        inverses = np.linalg.inv(self.factors)
        log_determinants = np.log(np.einsum("spqq->spq", self.factors)).sum(axis=2)
        apart = points[:, None] - self.centres[:, :, None]
        squares = ((apart @ inverses.swapaxes(2, 3)) ** 2).sum(axis=3)
        return logsumexp(-0.5 * squares - log_determinants[:, :, None], axis=1) - np.log(self.centres.shape[1])


def _sample(predictor: Predictor, cloud: Cloud, values: np.ndarray, observed: np.ndarray) -> Particles:
    modes = find_modes(predictor, cloud, values, observed, _PEAKS)
    proposal = _Proposal.around(modes)
    points = proposal.draw(standard_normal_draws(_DRAWS, modes.at.shape[2]))
    means, variances = _predicted(predictor, points)
    joint = log_joint(points, means, variances, values[:, None], observed[:, None])
    log_weights = joint - proposal.log_density(points)
    total = logsumexp(log_weights, axis=1)
    weights = np.exp(log_weights - total[:, None])
    return Particles(weights, total - np.log(points.shape[1]), means, variances)


def _predicted(predictor: Predictor, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances [S, W, D] at points [S, W, Q]."""
    n_rows, n_draws, n_latents = points.shape
    means, variances = predictor.at_points(points.reshape(-1, n_latents))
    return means.reshape(n_rows, n_draws, -1), variances.reshape(n_rows, n_draws, -1)
