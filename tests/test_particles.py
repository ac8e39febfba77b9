"""Weighted draws of a row's latents where the functions are given, not learned, and a sum over a grid is the answer."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from dpgplvm.inference.predictor import Groups
from dpgplvm.inference.rounds import posterior_of_rows
from dpgplvm.inference.row_scales import ALIKE
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.latents import Marginals
from dpgplvm.numerics import computing

N_LATENTS, N_COLUMNS, NOISE = 3, 6, 0.1


class Wavy:
    """Columns that rise along a direction and wave along another; what `posterior_of_rows` asks of a predictor."""

    def __init__(self, rng):
        self.training = Marginals(rng.normal(size=(100, N_LATENTS)), np.full((100, N_LATENTS), 1e-4))
        self._rise, self._wave = rng.normal(size=(2, N_LATENTS, N_COLUMNS))

    inducing, groups = np.zeros((5, N_LATENTS)), Groups.of(np.ones((N_COLUMNS, 1)))
    row_scales, whereabouts = ALIKE, Whereabouts.anywhere(np.zeros(N_LATENTS, dtype=bool))
    used, bends = np.ones(N_LATENTS, dtype=bool), True

    def at_points(self, X):
        return X @ self._rise + np.sin(2.0 * X @ self._wave), np.full((len(X), N_COLUMNS), NOISE**2)

    components_at = at_points

    def slopes_at(self, X, axes):
        """[A, S, D] along each of the axes [A, Q]."""
        steep = np.cos(2.0 * X @ self._wave)
        return np.stack([axis @ self._rise + 2.0 * steep * (axis @ self._wave) for axis in axes])


def test_rows_that_may_be_anywhere_in_a_bent_tube_are_weighed_as_on_a_grid():
    """Two columns are seen of what three latents do, with little noise."""
    rng = np.random.default_rng(0)
    wavy = Wavy(rng)
    X = rng.normal(size=(10, N_LATENTS))
    rows = wavy.at_points(X)[0] + NOISE * rng.normal(size=(10, N_COLUMNS))
    rows[:, 2:] = np.nan
    line = np.linspace(-4.2, 4.2, 141)
    grid = np.stack(np.meshgrid(line, line, line), axis=-1).reshape(-1, N_LATENTS)
    mean, _ = wavy.at_points(grid)
    volume = 3.0 * np.log((line[1] - line[0]) / np.sqrt(2.0 * np.pi)) - np.log(2.0 * np.pi * NOISE**2)
    with computing():
        parts = list(posterior_of_rows(wavy, rows))
    off = []
    for numbers, particles in parts:
        found, variance = particles.moments()
        for row, of_row, spread, density in zip(rows[numbers], found, variance, particles.log_density, strict=True):
            joint = -0.5 * ((row - mean)[:, :2] ** 2).sum(axis=1) / NOISE**2 - 0.5 * (grid**2).sum(axis=1)
            likely = joint > joint.max() - 30.0
            weights = np.exp(joint[likely] - logsumexp(joint))
            wanted = weights @ mean[likely]
            std = np.sqrt(weights @ (mean[likely] - wanted) ** 2 + NOISE**2)
            off_density = np.full(N_COLUMNS, density - logsumexp(joint) - volume)
            off.append([(of_row - wanted) / std, np.log(np.sqrt(spread) / std), off_density])
    of_means, of_spreads, of_densities = np.sqrt(np.mean(np.square(off)[:, :, 2:], axis=(0, 2)))
    assert of_means < 0.06
    assert of_spreads < 0.06
    assert of_densities < 0.06


def test_there_are_no_more_rounds_than_asked_for():
    """No draws are enough where columns have next to no noise and are waved through many times."""
    rng = np.random.default_rng(0)
    wavy = Wavy(rng)
    wavy._wave = 6.0 * wavy._wave
    rows = wavy.at_points(rng.normal(size=(6, N_LATENTS)))[0]
    rows[:, 2:] = np.nan
    with computing():
        most = [
            max(particles.weights.shape[1] for _, particles in posterior_of_rows(wavy, rows, most_rounds))
            for most_rounds in (1, 2, None)
        ]
    assert most[0] < most[1] < most[2]
