"""Where the latents of a new row may be: near those of a row that was learned from, or anywhere under the prior.

The model says x ~ N(0, I). But rows lie in clusters, or along a curve, and in between the functions are guesses: a row
that shows few columns should be looked for where rows have been. So x = a x_n + sqrt(1 - a^2) e, with x_n from q(x_n)
of any training row and e from the prior; or, in some cases, x is from the prior itself. Where training rows fill the
prior this is the prior, whatever a is; a = 0 always is. How near, a, and how often not, are those under which training
rows are likeliest, each with itself left out.

Where functions are linear, a row that is unlike those learned from is also further out: these variances are as many
times as large as those of its columns, so that what it is expected to hide hardly depends on how unlike it is. A
function that bends is unknown far out: there rows are where they are, however unlike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float
from scipy.special import logsumexp as log_sum
from scipy.special import softmax

from dpgplvm.inference.compiled import chunks, padded, size_for
from dpgplvm.inference.compiling import runs_fast
from dpgplvm.model.latents import Marginals

_NEARNESS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995)
_MOST_ROWS = 256
_DRAWS = 4  # of every training row, to see how likely it is
_LEAST_FROM_PRIOR = 0.05  # rows to come may be where no row was
_WORTH_IT = 0.1  # nats a row
_SIZES = (64, 1024, 4096)  # points evaluated together: few sizes, so that few functions are compiled


class Whereabouts(NamedTuple):
    """A mixture of Gaussians whose coordinates are independent; densities are in units of (2 pi)^(-Q/2)."""

    centres: np.ndarray  # [G, Q]
    variances: np.ndarray  # [G, Q] of rows like those learned from
    shares: np.ndarray  # [G], adding up to one
    stretches: np.ndarray  # [Q] latents along which unlike rows are further out

    @classmethod
    def anywhere(cls, stretches: np.ndarray) -> Whereabouts:
        """The prior of the model."""
        n_latents = len(stretches)
        return cls(np.zeros((1, n_latents)), np.ones((1, n_latents)), np.ones(1), stretches)

    @classmethod
    def near(
        cls, mean: np.ndarray, variance: np.ndarray, stretches: np.ndarray, nearness: float, from_prior: float
    ) -> Whereabouts:
        """Near to any of some rows, with what the prior leaves over."""
        prior = cls.anywhere(stretches)
        return cls(
            np.concatenate([prior.centres, nearness * mean]),
            np.concatenate([prior.variances, nearness**2 * variance + 1.0 - nearness**2]),
            np.concatenate([[from_prior], np.full(len(mean), (1.0 - from_prior) / len(mean))]),
            stretches,
        )

    @classmethod
    def learned(cls, rows: Marginals, used: np.ndarray, is_linear: bool) -> Whereabouts:
        """From training rows; along latents that none of them uses, that is the prior."""
        stretches = used & is_linear
        rng = np.random.default_rng(0)
        some = rng.permutation(len(rows.mean))[:_MOST_ROWS]
        mean, variance = (
            np.where(used, np.asarray(part)[some], away) for part, away in ((rows.mean, 0.0), (rows.variance, 1.0))
        )
        best, gain = cls.anywhere(stretches), _WORTH_IT
        if len(some) < 2:
            return best
        drawn = mean + np.sqrt(variance) * rng.normal(size=(_DRAWS, *mean.shape))
        of_prior = -0.5 * (drawn**2).sum(axis=2)
        for nearness in _NEARNESS:
            near = cls.near(mean, variance, stretches, nearness, 0.0)
            of_others = np.array([near._left_out(points) for points in drawn])
            from_prior = max(_LEAST_FROM_PRIOR, _share(of_prior - of_others))
            total = np.logaddexp(np.log(from_prior) + of_prior, np.log1p(-from_prior) + of_others)
            gained = (total - of_prior).mean()
            if gained > gain:
                best, gain = cls.near(mean, variance, stretches, nearness, from_prior), gained
        return best

    def log_density(self, points: np.ndarray, scales: Sequence[float]) -> np.ndarray:
        """[K, ...] at points [..., Q] of rows with K scales."""
        flat = points.reshape(-1, points.shape[-1])
        of_scales = np.array(scales) if self.stretches.any() else np.ones(1)
        parts = [np.zeros((len(of_scales), 0))]
        for some in chunks(len(flat), _SIZES[-1]):
            n_points = some.stop - some.start
            found = _log_densities(self, padded(flat[some], size_for(n_points, _SIZES)), of_scales)
            parts.append(np.asarray(found)[:, :n_points])
        found = np.concatenate(parts, axis=1).reshape(len(of_scales), *points.shape[:-1])
        return np.broadcast_to(found, (len(scales), *found.shape[1:]))

    def expand(self, points: np.ndarray, scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Slope [S, Q] of the log density at points [S, Q] of rows with this scale, and minus its curvature along each
        latent with the chances of the Gaussians as they are here."""
        joint = self._joint(points, scale)
        chances = softmax(joint, axis=1)
        precisions = 1.0 / self._stretched(self.variances, scale)
        precision = chances @ precisions
        return chances @ (self.centres * precisions) - precision * points, precision

    def draw(self, standard: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Points [W, Q] from standard Normal ones, of rows with these scales [W]; as many from each Gaussian as its
        share, give or take one."""
        even = (np.arange(len(standard)) + 0.5) / len(standard)
        which = np.minimum(np.searchsorted(self.shares.cumsum(), even), len(self.shares) - 1)
        variances = self._stretched(self.variances[which], scales[:, None])
        return self.centres[which] + np.sqrt(variances) * standard

    def _stretched(self, variances: np.ndarray, scales: np.ndarray | float) -> np.ndarray:
        return variances * np.where(self.stretches, scales, 1.0)

    def _joint(self, points: np.ndarray, scale: float = 1.0) -> np.ndarray:
        """[S, G] the log density with each of the Gaussians."""
        variances = self._stretched(self.variances, scale)
        with np.errstate(divide="ignore"):
            level = np.log(self.shares) - 0.5 * (np.log(variances) + self.centres**2 / variances).sum(axis=1)
        terms = np.concatenate([-0.5 / variances, self.centres / variances], axis=1)
        return np.concatenate([points**2, points], axis=1) @ terms.T + level

    def _left_out(self, points: np.ndarray) -> np.ndarray:
        """[G - 1] the log density at the draw of every row, with that row left out."""
        joint = self._joint(points)[:, 1:]
        np.fill_diagonal(joint, -np.inf)
        return log_sum(joint, axis=1) + np.log(len(points) / (len(points) - 1.0))


@runs_fast()
def _log_densities(
    whereabouts: Whereabouts, points: Float[Array, "S Q"], scales: Float[Array, " K"]
) -> Float[Array, "K S"]:
    """The logarithms of sums over all Gaussians: that is what time goes into where there are many."""
    centres, variances, shares, stretches = whereabouts

    def squares(along):
        precision = along / variances
        terms = jnp.concatenate([precision, -2.0 * precision * centres], axis=1)
        return jnp.concatenate([points**2, points], axis=1) @ terms.T + (precision * centres**2).sum(axis=1)

    level = jnp.log(shares) - 0.5 * jnp.log(variances).sum(axis=1) - 0.5 * squares(~stretches)
    stretched = -0.5 * squares(stretches)
    sums = jax.lax.map(lambda scale: logsumexp(level + stretched / scale, axis=1), scales)
    return sums - 0.5 * stretches.sum() * jnp.log(scales)[:, None]


def _share(log_ratio: np.ndarray) -> float:
    """The share of the first of two densities in a mixture of them that makes points likeliest, by expectation and
    maximisation, from the logarithms of the ratio of the two at the points."""
    share = 0.5
    for _ in range(100):
        share = float(np.mean(1.0 / (1.0 + np.exp(np.clip(np.log1p(-share) - np.log(share) - log_ratio, -700, 700)))))
        share = min(max(share, 1e-6), 1.0 - 1e-6)
    return share
