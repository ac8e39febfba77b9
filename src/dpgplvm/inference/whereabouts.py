"""Where the latents of a new row may be: near those of a row that was learned from, or anywhere under the prior.

The model says x ~ N(0, I). But rows lie in clusters, or along a curve, and in between the functions are guesses: a row
that shows few columns should be looked for where rows have been. So x = a x_n + sqrt(1 - a^2) e, with x_n from q(x_n)
of any training row and e from the prior; or, in some cases, x is from the prior itself. Where training rows fill the
prior this is the prior, whatever a is; a = 0 always is. How near, a, and how often not, are those under which training
rows are likeliest, each with itself left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dpgplvm.model.latents import Marginals

_NEARNESS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995)
_MOST_ROWS = 256
_DRAWS = 4  # of every training row, to see how likely it is
_LEAST_FROM_PRIOR = 0.05  # rows to come may be where no row was
_WORTH_IT = 0.1  # nats a row
_AT_ONCE = 4096  # points


class Whereabouts(NamedTuple):
    """A mixture of Gaussians whose coordinates are independent; densities are in units of (2 pi)^(-Q/2)."""

    centres: np.ndarray  # [K, Q]
    variances: np.ndarray  # [K, Q]
    shares: np.ndarray  # [K], adding up to one

    @classmethod
    def anywhere(cls, n_latents: int) -> Whereabouts:
        """The prior of the model."""
        return cls(np.zeros((1, n_latents)), np.ones((1, n_latents)), np.ones(1))

    @classmethod
    def near(cls, mean: np.ndarray, variance: np.ndarray, nearness: float, from_prior: float) -> Whereabouts:
        """Near to any of some rows, with what the prior leaves over."""
        prior = cls.anywhere(mean.shape[1])
        return cls(
            np.concatenate([prior.centres, nearness * mean]),
            np.concatenate([prior.variances, nearness**2 * variance + 1.0 - nearness**2]),
            np.concatenate([[from_prior], np.full(len(mean), (1.0 - from_prior) / len(mean))]),
        )

    @classmethod
    def learned(cls, rows: Marginals, used: np.ndarray) -> Whereabouts:
        """From training rows; along latents that none of them uses, that is the prior."""
        rng = np.random.default_rng(0)
        some = rng.permutation(len(rows.mean))[:_MOST_ROWS]
        mean, variance = (
            np.where(used, np.asarray(part)[some], away) for part, away in ((rows.mean, 0.0), (rows.variance, 1.0))
        )
        best, gain = cls.anywhere(len(used)), _WORTH_IT
        if len(some) < 2:
            return best
        drawn = mean + np.sqrt(variance) * rng.normal(size=(_DRAWS, *mean.shape))
        of_prior = -0.5 * (drawn**2).sum(axis=2)
        for nearness in _NEARNESS:
            near = cls.near(mean, variance, nearness, 0.0)
            of_others = np.array([near._left_out(points) for points in drawn])
            from_prior = max(_LEAST_FROM_PRIOR, _share(of_prior - of_others))
            total = np.logaddexp(np.log(from_prior) + of_prior, np.log1p(-from_prior) + of_others)
            gained = (total - of_prior).mean()
            if gained > gain:
                best, gain = cls.near(mean, variance, nearness, from_prior), gained
        return best

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """[...] at points [..., Q]."""
        flat = points.reshape(-1, points.shape[-1])
        parts = [logsumexp(self._joint(flat[at : at + _AT_ONCE]), axis=1) for at in range(0, len(flat), _AT_ONCE)]
        return np.concatenate([np.zeros(0), *parts]).reshape(points.shape[:-1])

    def expand(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slope [S, Q] of the log density at points [S, Q], and minus its curvature along each latent with the chances
        of the Gaussians as they are here."""
        joint = self._joint(points)
        chances = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        precision = chances @ (1.0 / self.variances)
        return chances @ (self.centres / self.variances) - precision * points, precision

    def draw(self, standard: np.ndarray) -> np.ndarray:
        """Points [W, Q] from standard Normal ones; as many from each Gaussian as its share, give or take one."""
        even = (np.arange(len(standard)) + 0.5) / len(standard)
        which = np.minimum(np.searchsorted(self.shares.cumsum(), even), len(self.shares) - 1)
        return self.centres[which] + np.sqrt(self.variances[which]) * standard

    def _joint(self, points: np.ndarray) -> np.ndarray:
        """[S, K] the log density with each of the Gaussians."""
        precision = 1.0 / self.variances
        with np.errstate(divide="ignore"):
            level = np.log(self.shares) + 0.5 * (np.log(precision) - precision * self.centres**2).sum(axis=1)
        terms = np.concatenate([-0.5 * precision, precision * self.centres], axis=1)
        return np.concatenate([points**2, points], axis=1) @ terms.T + level

    def _left_out(self, points: np.ndarray) -> np.ndarray:
        """[K - 1] the log density at the draw of every row, with that row left out."""
        joint = self._joint(points)[:, 1:]
        np.fill_diagonal(joint, -np.inf)
        return logsumexp(joint, axis=1) + np.log(len(points) / (len(points) - 1.0))


def _share(log_ratio: np.ndarray) -> float:
    """The share of the first of two densities in a mixture of them that makes points likeliest, by expectation and
    maximisation, from the logarithms of the ratio of the two at the points."""
    share = 0.5
    for _ in range(100):
        share = float(np.mean(1.0 / (1.0 + np.exp(np.clip(np.log1p(-share) - np.log(share) - log_ratio, -700, 700)))))
        share = min(max(share, 1e-6), 1.0 - 1e-6)
    return share
