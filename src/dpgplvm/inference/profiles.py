"""Profiles: columns clustered by which latents they listen to, whether or not the evidence pays for separate groups.

A group needs hyperparameters of its own, and its columns have to pay for them. Columns of one group can still listen to
different latents, because each has a function of its own; the second moments of the functions' gradients show it, in
the axes in which they are sparsest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import silhouette_score

from dpgplvm.inference.axes import sparse_axes

_MOST_PROFILES = 20
# Kaufman and Rousseeuw's reading of a silhouette: below this there is no substantial structure.
_SUBSTANTIAL = 0.25
# Directions, of unit length, that are closer than this are alike: a silhouette knows no scale.
_ALIKE = 0.1
# The share of a column's variation from which on a latent counts as heard.
_HEARD_AT_ALL = 0.005
# The share below which it does not count how little a column listens to a latent: with many latents, axes would
# otherwise be chosen to make small shares smaller.
_NEGLIGIBLE = 0.01


class Profiles(NamedTuple):
    """Clusters of the columns, and the tree they were cut from."""

    labels: np.ndarray  # [D], 0 for the largest
    tree: np.ndarray  # [D - 1, 4], a SciPy linkage (Ward)
    strengths: np.ndarray  # [D, Q] what was clustered: directions of unit length, in the sparsest axes
    silhouettes: dict[int, float]  # of every number of clusters that was tried


def profiles(moments: np.ndarray) -> Profiles:
    """Cluster columns by the second moments of their gradients [D, Q, Q]: Ward's linkage of the directions in which
    they listen, cut into the number of clusters with the largest mean silhouette, or into one where no number has a
    substantial one, or where clusters would be next to each other."""
    strengths = column_profiles(rotated(moments))
    n_columns = len(strengths)
    if n_columns == 1:
        return Profiles(np.zeros(1, dtype=int), np.zeros((0, 4)), strengths, {})
    tree = linkage(strengths, "ward")
    distances = squareform(pdist(strengths))
    silhouettes = {}
    for k in range(2, min(_MOST_PROFILES, n_columns - 1) + 1):
        labels = fcluster(tree, k, "maxclust")
        if len(np.unique(labels)) == k and _apart(strengths, labels) >= _ALIKE:
            silhouettes[k] = float(silhouette_score(distances, labels, metric="precomputed"))
    best = max(silhouettes, key=lambda k: silhouettes[k], default=1)
    if silhouettes.get(best, 0.0) < _SUBSTANTIAL:
        best = 1
    return Profiles(canonical(fcluster(tree, best, "maxclust")), tree, strengths, silhouettes)


def _apart(strengths: np.ndarray, labels: np.ndarray) -> float:
    """The least distance between the centres of two clusters."""
    return float(pdist([strengths[labels == k].mean(axis=0) for k in np.unique(labels)]).min())


def rotated(moments: np.ndarray) -> np.ndarray:
    """The moments in the axes in which each column listens to as few latents as possible."""
    R = sparse_axes(moments, np.random.default_rng(0), softening=_NEGLIGIBLE)
    return R.T @ moments @ R


def column_profiles(moments: np.ndarray) -> np.ndarray:
    """[D, Q] how strongly each column listens to each latent, as directions of unit length."""
    strengths = np.sqrt(np.maximum(np.diagonal(moments, axis1=1, axis2=2), 0.0))
    return strengths / np.maximum(np.linalg.norm(strengths, axis=1, keepdims=True), 1e-300)


def trees(moments: np.ndarray) -> list[np.ndarray]:
    """Linkages of the columns, each another idea of what it is to listen alike: in the same proportions, or to the same
    latents at all, however much to each."""
    directions = column_profiles(moments)
    shares = directions**2
    supports = shares / (shares + _HEARD_AT_ALL)
    return [linkage(directions, "ward"), linkage(supports, "ward")]


def canonical(labels: np.ndarray) -> np.ndarray:
    """The same grouping with groups numbered by size, ties by their first column."""
    _, first, numbers, counts = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    order = np.lexsort((first, -counts))
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return rank[numbers]
