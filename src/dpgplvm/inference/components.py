"""Columns as mixtures of Gaussians, one for each group that a column may be in.

Most columns are certain of their group and have one component, some have several: those of all columns are kept side
by side in one row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_LEAST_CHANCE = 1e-6  # of a group, to be one of those that a column is a mixture of


class Components(NamedTuple):
    """The E components of D columns, in the order of their columns."""

    shares: np.ndarray  # [E], adding up to one in every column
    columns: np.ndarray  # [E] whose they are
    places: np.ndarray  # [E] among all [T * K] of the groups and their columns
    first: np.ndarray  # [D] of every column

    @classmethod
    def of(cls, members: np.ndarray, shares: np.ndarray) -> Components:
        """Of groups with members [T, K], that have these shares [T, K] of them."""
        places = np.flatnonzero(shares > _LEAST_CHANCE)
        columns, chances = members.ravel()[places], shares.ravel()[places]
        order = np.argsort(columns, kind="stable")
        places, columns, chances = places[order], columns[order], chances[order]
        first = np.flatnonzero(np.diff(columns, prepend=-1))
        return cls(chances / np.add.reduceat(chances, first)[columns], columns, places, first)

    @property
    def n_columns(self) -> int:
        return len(self.first)

    @property
    def n_components(self) -> int:
        return len(self.shares)

    @property
    def counts(self) -> np.ndarray:
        """[D] how many every column has."""
        return np.diff(self.first, append=self.n_components)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """[..., D] of [..., E], over the components of every column."""
        if self.n_columns == self.n_components:
            return values
        return np.add.reduceat(self.shares * values, self.first, axis=-1)

    def moments(self, means: np.ndarray, variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance [..., D] of every column, from those of its components [..., E]."""
        mean = self.mean(means)
        return mean, self.mean(variances + (means - mean[..., self.columns]) ** 2)

    def chosen(self, numbers: np.ndarray) -> np.ndarray:
        """[..., D] one component of every column, for numbers [..., D] between 0 and 1."""
        reached = self.shares.cumsum()
        before = (reached - self.shares)[self.first]
        found = np.searchsorted(reached, before + numbers, side="right")
        return np.clip(found, self.first, self.first + self.counts - 1)
