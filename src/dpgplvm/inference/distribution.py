"""The predictive distribution beyond its first two moments: draws and quantiles of mixtures of Gaussians."""

from __future__ import annotations

import numpy as np
from scipy.optimize import elementwise
from scipy.special import ndtr, ndtri

from dpgplvm.inference.particles import Particles


def draw_entries(particles: Particles, n_draws: int, rng: np.random.Generator) -> np.ndarray:
    """[n_draws, S, D]: rows drawn as wholes. The columns of a draw share its latents, not their noise, nor the groups
    that they may be in."""
    n_rows, n_columns = len(particles.weights), particles.shares.shape[1]
    chosen = _chosen(particles.weights, rng.random((n_draws, n_rows)))
    group = _chosen(particles.shares.T, rng.random((n_draws, n_rows, n_columns)))
    entries = np.arange(n_rows)[:, None], chosen[:, :, None], group, np.arange(n_columns)
    return particles.means[entries] + np.sqrt(particles.variances[entries]) * rng.normal(size=group.shape)


def _chosen(chances: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Which of the K that have these chances [..., K], for numbers between 0 and 1 that go with all axes but K."""
    reached = chances.cumsum(axis=-1)
    return (numbers[..., None] > reached[..., :-1] / reached[..., -1:]).sum(axis=-1)


def quantiles_of_entries(particles: Particles, probabilities: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """[P, S, D] quantiles of the entries that are `wanted` [S, D]; NaN for the others."""
    found = np.full((len(probabilities), *wanted.shape), np.nan)
    rows, columns = np.nonzero(wanted)
    if rows.size and len(probabilities):
        weights = particles.weights[rows][:, :, None] * particles.shares[:, columns].T[:, None]
        means, variances = (part[rows, :, :, columns] for part in (particles.means, particles.variances))
        weights, means, deviations = (part.reshape(len(rows), -1) for part in (weights, means, np.sqrt(variances)))
        for i, probability in enumerate(probabilities):
            found[i, rows, columns] = _quantiles(weights, means, deviations, probability)
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
