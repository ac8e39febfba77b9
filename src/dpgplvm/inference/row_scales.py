"""A new row may be unlike those that were learned from: then all its variances are some times as large.

A fit takes its kernels and its noise for certain, and has learned them from rows in other places. Where a row lies far
from these, it is further from the predictions than they say, and how far it is in the columns that it shows tells how
far it may be in those that it hides. So every new row has a scale of its own, one of a few. Nearly all rows have the
one of those that were learned from; of the others, each is half as likely as the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

_GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0  # its multiples, without their whole parts, are spread evenly


class RowScales(NamedTuple):
    """Scales that the variances of a row may have, and the chances of these."""

    values: tuple[float, ...]
    chances: tuple[float, ...]

    def sum_over(self, log_likelihood: Callable[[float], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The log likelihood [...] of rows whose scales are not known, from that with any scale; and the chances
        [K, ...] of the scales, given the rows."""
        joint = np.stack([log_likelihood(scale) for scale in self.values], axis=-1) + np.log(self.chances)
        total = logsumexp(joint, axis=-1)
        return total, np.moveaxis(np.exp(joint - total[..., None]), -1, 0)

    def expected_precision(self, chances: np.ndarray) -> np.ndarray:
        """[...] by how much the precision of columns is smaller, with chances [K, ...]."""
        return np.tensordot(1.0 / np.array(self.values), chances, axes=1)

    def one_for_every_draw(self, chances: np.ndarray) -> np.ndarray:
        """Scales [S, W] with chances [K, S, W]; which of the draws get which is the same for all rows."""
        even = (np.arange(1, chances.shape[2] + 1) * _GOLDEN) % 1.0
        return np.array(self.values)[(chances[:-1].cumsum(axis=0) < even).sum(axis=0)]


ALIKE = RowScales((1.0,), (1.0,))
MAYBE_UNLIKE = RowScales((1.0, 2.0, 4.0, 8.0, 16.0), (0.95, 0.4 / 15, 0.2 / 15, 0.1 / 15, 0.05 / 15))


def gaussian(squares: np.ndarray, logs: np.ndarray, n_columns: np.ndarray) -> Callable[[float], np.ndarray]:
    """The log likelihood [...] of independent Gaussian columns as a function of the scale, from sums over the columns:
    of squares in units of the variances, and of log(2 pi variance)."""
    return lambda scale: -0.5 * (squares / scale + logs + n_columns * np.log(scale))
