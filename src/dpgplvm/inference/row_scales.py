"""A new row may be unlike those that were learned from: then all its variances are some times as large.

A fit takes its kernels and its noise for certain, and has learned them from rows in other places. Where a row lies far
from these, it is further from the predictions than they say, and how far it is in the columns that it shows tells how
far it may be in those that it hides. So every new row has a scale of its own, one of a few. Nearly all rows have the
one of those that were learned from; of the others, each is half as likely as the one before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp

SCALES = np.array([1.0, 2.0, 4.0, 8.0, 16.0])  # of variances
_UNLIKE = 0.05  # the chance of all but the first
_LOG_CHANCES = np.log(np.append(1.0 - _UNLIKE, _UNLIKE / SCALES[1:] / np.sum(1.0 / SCALES[1:])))
_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0  # its multiples, without their whole parts, are spread evenly


def over_scales(log_likelihood: Callable[[float], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The log likelihood [...] of rows whose scales are not known, from that with any scale; and the chances [K, ...]
    of the scales, given the rows."""
    joint = np.stack([log_likelihood(scale) + chance for scale, chance in zip(SCALES, _LOG_CHANCES, strict=True)])
    total = logsumexp(joint, axis=0)
    return total, np.exp(joint - total)


def gaussian(squares: np.ndarray, logs: np.ndarray, n_columns: np.ndarray) -> Callable[[float], np.ndarray]:
    """The log likelihood [...] of independent Gaussian columns as a function of the scale, from sums over the columns:
    of squares in units of the variances, and of log(2 pi variance)."""
    return lambda scale: -0.5 * (squares / scale + logs + n_columns * np.log(scale))


def one_for_every_draw(chances: np.ndarray) -> np.ndarray:
    """Scales [S, W] with chances [K, S, W]; which of the draws get which is the same for all rows."""
    even = (np.arange(1, chances.shape[2] + 1) * _GOLDEN) % 1.0
    return SCALES[(chances[:-1].cumsum(axis=0) < even).sum(axis=0)]
