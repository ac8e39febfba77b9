"""The table as the model sees it: numbers, and which of them were observed.

Columns that were observed in the same rows share their sums over rows, so what counts is the number P of distinct
patterns, not the number D of columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int


class Table(NamedTuple):
    """Rows and columns; gaps hold zeros."""

    values: Float[Array | np.ndarray, "N D"]
    observed: Float[Array | np.ndarray, "N P"] | None = None  # 1 in rows where a pattern is observed; None: no gaps
    pattern: Int[Array | np.ndarray, " D"] | None = None  # which pattern each column has

    @classmethod
    def of(cls, Y: np.ndarray) -> Table:
        """A table whose gaps are NaN."""
        gaps = np.isnan(Y)
        if not gaps.any():
            return cls(Y)
        patterns, pattern = np.unique(~gaps, axis=1, return_inverse=True)
        return cls(np.where(gaps, 0.0, Y), patterns.astype(float), pattern.ravel())

    def of_columns(self, columns: np.ndarray) -> Table:
        """The same rows of some of the columns, which keep the numbers of their patterns."""
        pattern = None if self.pattern is None else self.pattern[columns]
        return Table(self.values[:, columns], self.observed, pattern)

    def row_blocks(self) -> tuple[Float[Array | np.ndarray, "N _"], ...]:
        """What of it has rows."""
        return (self.values,) if self.observed is None else (self.values, self.observed)
