"""The predictive distribution beyond its first two moments: draws and quantiles of mixtures of Gaussians."""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise
from scipy.special import ndtr, ndtri

from dpgplvm.inference.particles import Particles


def draw_entries(particles: Particles, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """[n_draws, S, D]: rows drawn as wholes. The columns of a draw share its latents, not their noise."""
    n_rows = len(particles.weights)
    reached = particles.weights.cumsum(axis=1)
    chance = rng.random((n_draws, n_rows, 1)) * reached[:, -1:]
    chosen = (chance > reached).sum(axis=2)
    rows = np.arange(n_rows)
    means, variances = particles.means[rows, chosen], particles.variances[rows, chosen]
    return means + np.sqrt(variances) * rng.normal(size=means.shape)


def quantiles_of_entries(particles: Particles, probabilities: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """[P, S, D] quantiles of the entries that are `wanted` [S, D]; NaN for the others."""
    found = np.full((len(probabilities), *wanted.shape), np.nan)
    rows, columns = np.nonzero(wanted)
    if rows.size:
        means, deviations = particles.means[rows, :, columns], np.sqrt(particles.variances[rows, :, columns])
        for i, probability in enumerate(probabilities):
            found[i, rows, columns] = _quantiles(particles.weights[rows], means, deviations, probability)
    return found


def _quantiles(weights: np.ndarray, means: np.ndarray, deviations: np.ndarray, probability: float) -> np.ndarray:
    """The quantile of every mixture [E, W] of Gaussians: it lies between those of its components."""
    each = means + deviations * ndtri(probability)
    low, high = each.min(axis=1), each.max(axis=1)
    margin = 1e-9 * (1.0 + np.abs(low) + np.abs(high) + deviations.max(axis=1))

    def excess(x, number):
        own = number.astype(int)
        below = ndtr((x[:, None] - means[own]) / deviations[own])
        return np.einsum("ew,ew->e", weights[own], below) - probability

    numbers = np.arange(len(means), dtype=float)
    return elementwise.find_root(excess, (low - margin, high + margin), args=(numbers,)).x
