"""Where rows are before the first climb: in few dimensions, from the table alone.

A climb does not unfold what starts folded. Principal components of a curved surface fold it; distances along the
surface, from neighbour to neighbour, do not. Which neighbours are on the same sheet depends on the table, so there are
several embeddings to choose from, by what each leads to.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.sparse import SparseEfficiencyWarning
from sklearn.manifold import Isomap

from dpgplvm.numerics import NumericalError

_NEIGHBOURS = (5, 10)
# Distances along neighbours are between all pairs of so many rows; others are placed among these.
_MOST_ROWS = 1000
# With fewer rows for each component than this, distances that no Euclidean space has make components of their own.
_ROWS_PER_COMPONENT = 3


Embedding = Callable[[np.ndarray, int], "Embedded"]  # of a table [N, D] with gaps, and the number of latents


class Embedded(NamedTuple):
    """Places of the rows: coordinates of unit variance, or zero, and how large each was, the largest first."""

    places: np.ndarray  # [N, Q]
    sizes: np.ndarray  # [Q]
    by: Embedding


def principal_components(Y: np.ndarray, n_latents: int) -> Embedded:
    """Scores of the first principal components; gaps are filled by the model of the components itself."""
    centred = filled(Y, n_latents)
    left, sizes, _ = np.linalg.svd(centred - centred.mean(axis=0), full_matrices=False)
    return _of_unit_variance(left[:, :n_latents] * sizes[:n_latents], principal_components)


def along_neighbours(Y: np.ndarray, n_latents: int, n_neighbours: int) -> Embedded:
    """Coordinates whose distances are like those from neighbour to neighbour (Isomap); raises NumericalError where a
    table has none."""
    # The same row many times over has no neighbours but itself.
    whole = filled(Y, n_latents)
    _, first, which = np.unique(whole, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    distinct, which = whole[first[order]], np.argsort(order)[which]
    if len(distinct) <= 2 * n_neighbours:
        raise NumericalError("too few rows are different from each other to have neighbours")
    rows = np.linspace(0, len(distinct) - 1, min(len(distinct), _MOST_ROWS)).astype(int)
    n_components = min(n_latents, max(1, len(rows) // _ROWS_PER_COMPONENT))
    embedding = Isomap(n_neighbors=n_neighbours, n_components=n_components, eigen_solver="dense")
    with warnings.catch_warnings():
        # Parts of the table that no neighbours connect are joined where they are nearest.
        warnings.filterwarnings("ignore", "The number of connected components")
        warnings.simplefilter("ignore", SparseEfficiencyWarning)
        try:
            embedding.fit(distinct[rows])
        except (ValueError, np.linalg.LinAlgError) as error:
            # LAPACK may find no eigenvalues where many are the same.
            raise NumericalError("the rows have no coordinates along their neighbours") from error
    places = embedding.embedding_ if len(rows) == len(distinct) else embedding.transform(distinct)
    places = places[which]
    padded = np.pad(places - places.mean(axis=0), ((0, 0), (0, n_latents - n_components)))
    return _of_unit_variance(padded, partial(along_neighbours, n_neighbours=n_neighbours))


def embeddings_for(n_rows: int) -> list[Embedding]:
    """Those that so many rows allow, the plain one first."""
    along = [partial(along_neighbours, n_neighbours=n) for n in _NEIGHBOURS if 2 * n < n_rows]
    return [principal_components, *along]


def filled(Y: np.ndarray, n_components: int, max_iter: int = 200, tol: float = 1e-5) -> np.ndarray:
    """Y with its gaps (NaN) filled by probabilistic PCA: expectation and maximisation in turn, from column means."""
    gaps = np.isnan(Y)
    if not gaps.any():
        return Y
    Y = np.where(gaps, np.nanmean(Y, axis=0), Y)
    n_components = min(n_components, min(Y.shape) - 1)
    for _ in range(max_iter):
        mean = Y.mean(axis=0)
        left, sizes, right = np.linalg.svd(Y - mean, full_matrices=False)
        # Shrunk as the posterior mean of probabilistic PCA is, so that gaps are not filled with noise.
        noise = (sizes[n_components:] ** 2).mean()
        kept = np.maximum(sizes[:n_components] - noise / np.maximum(sizes[:n_components], 1e-300), 0.0)
        guess = mean + (left[:, :n_components] * kept) @ right[:n_components]
        change = np.abs(guess - Y)[gaps].max()
        Y = np.where(gaps, guess, Y)
        if change < tol * Y.std():
            break
    return Y


def _of_unit_variance(places: np.ndarray, by: Embedding) -> Embedded:
    spread = places.std(axis=0)
    largest_first = np.argsort(-spread, kind="stable")
    places, spread = places[:, largest_first], spread[largest_first]
    # A coordinate without variance has an arbitrary direction; as a latent it starts switched off.
    varies = spread > 1e-8 * spread[0]
    unit = np.where(varies, places / np.where(varies, spread, 1.0), 0.0)
    return Embedded(unit, spread * np.sqrt(len(places)), by)
