"""Densities and filled gaps against answers that are known: sums over fine grids of the latents, and the models that
tables were drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from scales import CHANCES, SCALES
from scipy.special import logsumexp
from scipy.stats import norm

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM
from dpgplvm.numerics import computing


def chances_on(grid, whereabouts):
    """Log density of places of the latents, before anything is seen: one Gaussian after the other."""
    centres, variances, shares, stretches = whereabouts
    assert not stretches.any()  # with kernels that bend, rows are where they are, however unlike others
    parts = [norm.logpdf(grid, *one).sum(axis=1) for one in zip(centres, np.sqrt(variances), strict=True)]
    return logsumexp(parts, axis=0, b=shares[:, None])


def on_grid(row, grid, step, mean, variance, whereabouts):
    """Log density of a row, and mean and standard deviation of every entry, from sums over a grid of the latents and
    over the scales of the row."""
    seen = ~np.isnan(row)
    variance = SCALES[:, None, None] * variance
    log_likelihood = -0.5 * ((row - mean) ** 2 / variance + np.log(2 * np.pi * variance))[..., seen].sum(axis=2)
    log_prior = chances_on(grid, whereabouts) + grid.shape[1] * np.log(step)
    joint = log_likelihood + log_prior + np.log(CHANCES)[:, None]
    weights = np.exp(joint - logsumexp(joint))
    expected = weights.sum(axis=0) @ mean
    second = np.einsum("kg,kgd->d", weights, variance + mean**2)
    return logsumexp(joint), expected, np.sqrt(second - expected**2)


def test_with_one_latent_density_and_gaps_are_those_of_a_fine_grid():
    """y_1 = x^2 and y_2 = x: a row that shows y_1 alone may be on either side, and its gap must say so."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    Y = np.stack([x**2, x, x + 1.0], axis=1) + 0.05 * rng.normal(size=(80, 3))
    model = MRD(views="columns", n_latents=1, n_inducing=15, standardise=False, random_state=0).fit(Y)
    rows = np.array([[1.2, np.nan, np.nan], [0.3, np.nan, 1.4], [np.nan, -0.8, np.nan]])
    grid = np.linspace(-6.0, 6.0, 6001)[:, None]
    with computing():
        mean, variance = model._predictor().at_points(grid)
    filled, std = model.impute(rows, return_std=True)
    for n, row in enumerate(rows):
        seen = ~np.isnan(row)
        density, wanted, wanted_std = on_grid(row, grid, 0.002, mean, variance, model._predictor().whereabouts)
        assert model.score_samples(rows[[n]])[0] == pytest.approx(density, abs=0.02)
        np.testing.assert_allclose(filled[n][~seen], wanted[~seen], atol=0.05 * wanted_std[~seen].max())
        np.testing.assert_allclose(std[n][~seen], wanted_std[~seen], rtol=0.05)
    assert std[0, 1] > 0.8  # either side
    low, high = model.impute_quantiles(rows[:1], (0.1, 0.9))[:, 0, 1]
    assert low == pytest.approx(-high, abs=0.4)
    assert high > 0.8
    drawn = model.sample_imputations(rows[:1], 200, random_state=0)[:, 0, 1]
    assert 0.3 < (drawn > 0.0).mean() < 0.7
    assert np.abs(drawn).min() > 0.5


def test_with_two_latents_a_row_that_may_be_anywhere_on_a_ring_is_weighed_as_on_a_grid():
    """y_1 is the distance from the middle: one column that is seen leaves a ring of places for the latents."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2))
    angles = rng.uniform(0.0, np.pi, size=4)
    others = x @ np.stack([np.cos(angles), np.sin(angles)])
    Y = np.concatenate([(x**2).sum(axis=1, keepdims=True), others], axis=1) + 0.1 * rng.normal(size=(120, 5))
    model = MRD(views="columns", n_latents=2, n_inducing=30, standardise=False, random_state=0).fit(Y)
    line = np.linspace(-5.0, 5.0, 161)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    with computing():
        mean, variance = model._predictor().at_points(grid)
    for value in (0.5, 2.0, 4.0):
        row = np.full((1, 5), np.nan)
        row[0, 0] = value
        density, wanted, wanted_std = on_grid(
            row[0], grid, line[1] - line[0], mean, variance, model._predictor().whereabouts
        )
        assert model.score_samples(row)[0] == pytest.approx(density, abs=0.03)
        filled, std = model.impute(row, return_std=True)
        np.testing.assert_allclose(std[0, 1:], wanted_std[1:], rtol=0.05)
        np.testing.assert_allclose(filled[0, 1:], wanted[1:], atol=0.05 * wanted_std.max())


def test_what_is_hidden_is_filled_nearly_as_well_as_by_the_true_model():
    """Linear functions of two latents: given its slopes and noise, the true model's answer is that of a Gaussian."""
    rng = np.random.default_rng(0)
    slopes, noise = rng.normal(size=(2, 12)), 0.4
    Y = rng.normal(size=(600, 2)) @ slopes + noise * rng.normal(size=(600, 12))
    train, truth = Y[:300], Y[300:]
    hidden = rng.random(truth.shape) < 0.4
    rows = np.where(hidden, np.nan, truth)
    covariance = slopes.T @ slopes + noise**2 * np.eye(12)
    best = np.zeros_like(truth)
    for n, gaps in enumerate(hidden):
        to_seen = np.linalg.solve(covariance[np.ix_(~gaps, ~gaps)], covariance[np.ix_(~gaps, gaps)])
        best[n, gaps] = truth[n, ~gaps] @ to_seen
    model = BayesianGPLVM(n_latents=4, kernel="linear", noise="column", random_state=0).fit(train)
    filled, std = model.impute(rows, return_std=True)
    error, least = (np.mean((found - truth)[hidden] ** 2) for found in (filled, best))
    assert error < 1.1 * least
    z = (filled - truth)[hidden] / std[hidden]
    assert np.mean(np.abs(z) < 1.96) == pytest.approx(0.95, abs=0.02)
    assert np.mean(z**2) == pytest.approx(1.0, abs=0.1)


def known_functions(n_columns, rng):
    """Draws of a smooth Gaussian process, as functions that can be asked anywhere: waves of random lengths."""
    waves, phases, weights = rng.normal(size=(3, n_columns, 200))

    def values(x):
        return np.einsum("dk,ndk->nd", weights, np.cos(0.8 * waves * x[:, None, None] + 2.0 * np.pi * phases)) / 10.0

    return values


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_groups_are_found_and_hidden_entries_filled_nearly_as_well_as_by_the_true_functions(seed):
    """Two groups, each of a latent of its own: given its functions and noise, the true model's answer is a sum over a
    fine grid of that latent."""
    rng = np.random.default_rng(seed)
    groups, noise = (known_functions(6, rng), known_functions(6, rng)), 0.15
    latents = rng.normal(size=(500, 2))
    Y = np.hstack([values(x) for values, x in zip(groups, latents.T, strict=True)]) + noise * rng.normal(size=(500, 12))
    train, truth = Y[:300], Y[300:]
    hidden = rng.random(truth.shape) < 0.4
    grid = np.linspace(-5.0, 5.0, 2001)
    best = []
    for values, shown, gaps in zip(groups, np.split(truth, 2, axis=1), np.split(hidden, 2, axis=1), strict=True):
        squares = (~gaps[:, None] * (shown[:, None] - values(grid)) ** 2).sum(axis=2) / noise**2
        log_weights = -0.5 * (squares + grid**2)
        best.append(np.exp(log_weights - logsumexp(log_weights, axis=1, keepdims=True)) @ values(grid))
    model = DPGPLVM(n_latents=4, n_inducing=30, truncation=4, kernel="rbf", random_state=0).fit(train)
    assert model.groups_.tolist() in ([0] * 6 + [1] * 6, [1] * 6 + [0] * 6)
    low, high = model.impute_quantiles(np.where(hidden, np.nan, truth), (0.025, 0.975))
    error, least = (
        np.mean((found - truth)[hidden] ** 2)
        for found in (model.impute(np.where(hidden, np.nan, truth)), np.hstack(best))
    )
    assert error < 1.1 * least
    assert np.mean(((low <= truth) & (truth <= high))[hidden]) == pytest.approx(0.95, abs=0.02)
