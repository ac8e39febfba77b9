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

    def mixed(self, log_densities: np.ndarray) -> np.ndarray:
        """The log density [...] where the scale is not known, from those [K, ...] with each of the scales."""
        return logsumexp(self._joint(log_densities), axis=0)

    def sum_over(self, log_densities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and the chances [K, ...] of the scales, given what has these densities."""
        joint = self._joint(log_densities)
        total = logsumexp(joint, axis=0)
        return total, np.exp(joint - total)

    def _joint(self, log_densities: np.ndarray) -> np.ndarray:
        return log_densities + np.log(self.chances).reshape(-1, *[1] * (log_densities.ndim - 1))

    def of_each(self, log_likelihood: Callable[[float], np.ndarray]) -> np.ndarray:
        """A function of the scale [...] with each of them [K, ...]."""
        return np.stack([log_likelihood(scale) for scale in self.values])

    def expected(self, chances: np.ndarray) -> np.ndarray:
        """[...] how large it is on average, with chances [K, ...]."""
        return np.tensordot(np.array(self.values), chances, axes=1)

    def expected_precision(self, chances: np.ndarray) -> np.ndarray:
        """[...] by how much the precision of columns is smaller, with chances [K, ...]."""
        return np.tensordot(1.0 / np.array(self.values), chances, axes=1)

    def one_for_every_draw(self, chances: np.ndarray) -> np.ndarray:
        """Scales [S, W] with chances [K, S, W]; which of the draws get which is the same for all rows."""
        return np.array(self.values)[evenly_chosen(chances)]

    def evened(self) -> RowScales:
        """Halfway between these chances and equal ones: to draw enough of what is rare."""
        return RowScales(self.values, tuple(0.5 * chance + 0.5 / len(self.chances) for chance in self.chances))

    def some(self, n_draws: int) -> np.ndarray:
        """[W] of rows of which nothing is known."""
        chances = np.array(self.chances)[:, None, None]
        return self.one_for_every_draw(np.broadcast_to(chances, (len(self.chances), 1, n_draws)))[0]


ALIKE = RowScales((1.0,), (1.0,))
MAYBE_UNLIKE = RowScales((1.0, 2.0, 4.0, 8.0, 16.0), (0.95, 0.4 / 15, 0.2 / 15, 0.1 / 15, 0.05 / 15))


def evenly_chosen(chances: np.ndarray) -> np.ndarray:
    """One of K with chances [K, ..., W] for every one of W draws; always the same ones, spread evenly."""
    even = (np.arange(1, chances.shape[-1] + 1) * _GOLDEN) % 1.0
    return (chances[:-1].cumsum(axis=0) < even).sum(axis=0)


def gaussian(squares: np.ndarray, logs: np.ndarray, n_columns: np.ndarray) -> Callable[[float], np.ndarray]:
    """The log likelihood [...] of independent Gaussian columns as a function of the scale, from sums over the columns:
    of squares in units of the variances, and of log(2 pi variance)."""
    return lambda scale: -0.5 * (squares / scale + logs + n_columns * np.log(scale))
