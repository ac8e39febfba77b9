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

    def of_groups(self, members: np.ndarray) -> list[Table]:
        """The columns [T, K] of every group, with the patterns that they have; as many in all of them, so that what is
        compiled for one group serves the others."""
        if self.observed is None or self.pattern is None:
            return [Table(self.values[:, own]) for own in members]
        used = [np.unique(self.pattern[own], return_inverse=True) for own in members]
        most = max(len(patterns) for patterns, _ in used)
        return [
            Table(self.values[:, own], self.observed[:, np.resize(patterns, most)], pattern.ravel())
            for own, (patterns, pattern) in zip(members, used, strict=True)
        ]

    def row_blocks(self) -> tuple[Float[Array | np.ndarray, "N _"], ...]:
        """What of it has rows."""
        return (self.values,) if self.observed is None else (self.values, self.observed)
