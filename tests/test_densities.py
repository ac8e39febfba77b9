"""Densities of rows that are unlike those that were learned from."""

from __future__ import annotations

import numpy as np
import pytest
from scales import CHANCES, SCALES
from scipy.special import logsumexp
from scipy.stats import norm

from dpgplvm import BayesianGPLVM
from dpgplvm.numerics import computing


@pytest.fixture(scope="module")
def curve():
    """Along one latent, and columns that it explains."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=60)
    Y = np.column_stack([np.sin(1.5 * z), z, 0.5 * z**2, np.cos(z)]) + 0.1 * rng.normal(size=(60, 4))
    return BayesianGPLVM(n_latents=2, n_inducing=15, kernel="rbf", max_iter=200, random_state=0).fit(Y), Y


def test_densities_of_a_row_that_may_have_drifted_add_up(curve):
    """Over what one column may be, to the density of the others: only some of these rows would be asked for a drift."""
    model, Y = curve
    row = Y[:1] + 0.3
    of_last = np.linspace(-6.0, 6.0, 121)
    rows = np.repeat(row, len(of_last), axis=0)
    rows[:, 3] = of_last
    together = np.trapezoid(np.exp(model.score_samples(rows)), of_last)
    row[0, 3] = np.nan
    assert np.log(together) == pytest.approx(model.score_samples(row)[0], abs=0.02)


def test_densities_of_unlikely_rows_are_those_of_a_grid(curve):
    """Their first draws may miss most of where they may be without having few weights."""
    model, Y = curve
    away = np.linspace(0.0, 3.0, 16)[:, None] * np.array([1.0, -1.0, 1.0, 1.0])
    line = np.linspace(-8.0, 8.0, 321)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    with computing():
        predictor = model._predictor()
        mean, variance = predictor.at_points(grid)
        prior = predictor.whereabouts.log_density(grid[None], predictor.row_scales.values)
    prior = np.broadcast_to(prior, (len(SCALES), 1, len(grid)))[:, 0]
    prior = prior - logsumexp(prior, axis=1, keepdims=True)
    wanted = []
    for row in model._scaling.to_model(Y[:1] + away):
        each = [
            logsumexp(norm.logpdf(row, mean, np.sqrt(scale * variance)).sum(axis=1) + of_scale)
            for scale, of_scale in zip(SCALES, prior, strict=True)
        ]
        wanted.append(logsumexp(each, b=CHANCES))
    found = model.score_samples(Y[:1] + away) + np.log(model._scaling.scale).sum()
    assert wanted[0] > wanted[-1] + 20.0  # they do become unlikely
    np.testing.assert_allclose(found, wanted, atol=0.1)
