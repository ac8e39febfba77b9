"""The predictive distribution beyond its first two moments: draws and quantiles of mixtures of Gaussians."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import elementwise
from scipy.special import ndtr, ndtri

from dpgplvm.inference.compiled import chunks
from dpgplvm.inference.particles import Particles
from dpgplvm.inference.threads import Threads

_COMPONENTS_AT_ONCE = 250_000  # of mixtures whose quantiles are looked for together
_CERTAIN = 5e-324, 1.0 - 2.0**-53  # probabilities that have a finite quantile
_EXACT_ENOUGH = 1e-10  # standard deviations by which a quantile may be off


def draw_entries(particles: Particles, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """[n_draws, S, D]: rows drawn as wholes. The columns of a draw share its latents, not their noise, nor the groups
    that they may be in."""
    n_rows, n_columns = len(particles.weights), particles.components.n_columns
    chosen = _chosen(particles.weights, rng.random((n_draws, n_rows)))
    component = particles.components.chosen(rng.random((n_draws, n_rows, n_columns)))
    entries = np.arange(n_rows)[:, None], chosen[:, :, None], component
    return particles.means[entries] + np.sqrt(particles.variances[entries]) * rng.normal(size=component.shape)


def _chosen(chances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """[n, S] which of the W that have these chances [S, W], for numbers [n, S] between 0 and 1."""
    reached = chances.cumsum(axis=1)
    return (numbers[..., None] > reached[:, :-1] / reached[:, -1:]).sum(axis=2)


def quantiles_of_entries(
    particles: Particles, probabilities: np.ndarray, wanted: np.ndarray, n_threads: int | None = None
) -> np.ndarray:
    """[P, S, D] quantiles of the entries that are `wanted` [S, D]; NaN for the others."""
    found = np.full((len(probabilities), *wanted.shape), np.nan)
    if not len(probabilities):
        return found
    weights, _, components, means, variances, _ = particles

    def of_entries(entries: tuple[np.ndarray, np.ndarray, int]) -> None:
        row, column, n = entries
        own = components.first[column, None] + np.arange(n)
        mixtures = (
            (weights[row][:, None] * components.shares[own][..., None]).reshape(len(row), -1),
            means[row[:, None], :, own].reshape(len(row), -1),
            np.sqrt(variances[row[:, None], :, own]).reshape(len(row), -1),
        )
        for i, probability in enumerate(probabilities):
            found[i, row, column] = _quantiles(*mixtures, probability)

    Threads(n_threads).map(of_entries, list(_alike(wanted, components.counts, weights.shape[1])))
    return found


def _alike(wanted: np.ndarray, counts: np.ndarray, n_draws: int) -> Iterator[tuple[np.ndarray, np.ndarray, int]]:
    """The entries that are wanted, some at a time: rows, columns, and how many components these columns have."""
    for n in np.unique(counts):
        rows, columns = np.nonzero(wanted & (counts == n))
        for some in chunks(len(rows), max(1, _COMPONENTS_AT_ONCE // (n_draws * n))):
            yield rows[some], columns[some], n


def _quantiles(weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, probability: float) -> np.ndarray:
    """The quantile of every mixture [E, W] of Gaussians: it lies between those of its components."""
    if probability > 0.5:  # next to zero there are more numbers than next to one
        return -_quantiles(weights, -means, deviations, 1.0 - probability)
    wanted = ndtri(probability)
    each = means + deviations * wanted
    low, high = each.min(axis=1), each.max(axis=1)
    margin = 1e-9 * (1.0 + np.abs(low) + np.abs(high) + deviations.max(axis=1))

    def excess(x, number):
        # In standard deviations of a Gaussian, where a mixture is nearly straight: half as many steps as for the
        # probability.
        own = number.astype(int)
        below = ndtr((x[:, None] - means[own]) / deviations[own])
        return ndtri(np.clip(np.einsum("ew,ew->e", weights[own], below), *_CERTAIN)) - wanted

    numbers = np.arange(len(means), dtype=float)
    tolerances = {"fatol": _EXACT_ENOUGH}
    return elementwise.find_root(excess, (low - margin, high + margin), args=(numbers,), tolerances=tolerances).x
