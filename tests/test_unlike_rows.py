"""Rows unlike those that were learned from: they are further from all predictions, and must say so."""

from __future__ import annotations

import numpy as np
import pytest
from scales import CHANCES, SCALES
from scipy.special import logsumexp
from scipy.stats import norm

from dpgplvm import BayesianGPLVM
from dpgplvm.inference.row_scales import ALIKE, MAYBE_UNLIKE, gaussian
from dpgplvm.numerics import computing

NOISE = 0.2


SLOPES = np.random.default_rng(0).normal(size=(2, 30))
COVARIANCE = SLOPES.T @ SLOPES + NOISE**2 * np.eye(30)


def drawn(n_rows, seed, noise=1.0, out=1.0):
    """Rows of 30 columns, with so many times as much noise and so many times as far out as others."""
    rng = np.random.default_rng(seed)
    return out * rng.normal(size=(n_rows, 2)) @ SLOPES + noise * NOISE * rng.normal(size=(n_rows, 30))


@pytest.fixture(scope="module")
def linear():
    return BayesianGPLVM(n_latents=2, kernel="linear", noise="column", random_state=0).fit(drawn(200, 0))


def hidden_but(truth, n_seen):
    return np.where(np.arange(30) < 30 - n_seen, np.nan, truth)


def filled_intervals(model, truth):
    """What share of hidden entries intervals hold, and mean squares of errors in units of the standard deviations."""
    rows = hidden_but(truth, 24)
    filled, std = model.impute(rows, return_std=True)
    low, high = model.impute_quantiles(rows, (0.025, 0.975))
    z = ((filled - truth) / np.where(std > 0.0, std, 1.0))[:, :6]
    return ((low <= truth) & (truth <= high))[:, :6].mean(), np.mean(z**2)


@pytest.mark.parametrize("times", [1.0, 2.0, 4.0])
def test_intervals_of_rows_further_out_are_as_wide_as_they_must_be(linear, times):
    held, squares = filled_intervals(linear, drawn(600, 1, times, times))
    assert held == pytest.approx(0.95, abs=0.03)
    assert squares == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("times", [2.0, 3.0])
def test_intervals_of_rows_with_more_noise_alone_are_nearly_as_wide_as_they_must_be(linear, times):
    """Rows that are further out in their noise but not in their latents are not what a scale of all stands for."""
    held, squares = filled_intervals(linear, drawn(600, 2, times))
    assert held == pytest.approx(0.95, abs=0.04)
    assert squares == pytest.approx(1.0, abs=0.35)


@pytest.mark.parametrize("n_seen", [2, 6])
def test_what_a_linear_function_is_expected_to_be_hardly_depends_on_how_unlike_a_row_is(linear, n_seen):
    """Far out in what it shows, a row is as far out in what it hides: the best linear prediction, as for any other."""
    truth, hides = drawn(200, 3, 4.0, 4.0), np.arange(30) < 30 - n_seen
    to_seen = np.linalg.solve(COVARIANCE[np.ix_(~hides, ~hides)], COVARIANCE[np.ix_(~hides, hides)])
    best = truth[:, ~hides] @ to_seen
    off = linear.impute(hidden_but(truth, n_seen))[:, hides] - best
    assert np.sqrt(np.mean(off**2)) < 0.06 * np.sqrt(np.mean(best**2))


def test_density_and_gaps_of_linear_functions_are_those_of_a_fine_grid(linear):
    """Summed over the scales, with latents as many times as far out."""
    rows = hidden_but(drawn(3, 4, 3.0, 3.0), 3)
    line = np.linspace(-12.0, 12.0, 401)
    grid = np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)
    with computing():
        mean, variance = linear._predictor().at_points(grid)
    filled, std = linear.impute(rows, return_std=True)
    for n, row in enumerate((rows - linear._scaling.mean) / linear._scaling.scale):
        joint = []
        for scale, chance in zip(SCALES, CHANCES, strict=True):
            of_columns = norm.logpdf(row, mean, np.sqrt(scale * variance))[:, 27:].sum(axis=1)
            of_latents = norm.logpdf(grid, 0.0, np.sqrt(scale)).sum(axis=1) + 2.0 * np.log(line[1] - line[0])
            joint.append(of_columns + of_latents + np.log(chance))
        weights = np.exp(joint - logsumexp(joint))
        expected = weights.sum(axis=0) @ mean
        second = np.einsum("kg,kgd->d", weights, SCALES[:, None, None] * variance + mean**2)
        density = logsumexp(joint) - np.log(linear._scaling.scale[27:]).sum()
        assert linear.score_samples(rows[[n]])[0] == pytest.approx(density, abs=0.02)
        wanted = linear._scaling.scale * np.sqrt(second - expected**2)
        np.testing.assert_allclose(std[n, :27], wanted[:27], rtol=0.03)
        apart = (filled[n] - linear._scaling.mean - linear._scaling.scale * expected)[:27]
        assert np.abs(apart / wanted[:27]).max() < 0.03


def test_rows_like_those_learned_from_are_as_certain_as_the_true_model(linear):
    """Given its slopes and noise, what is hidden is Gaussian given what is seen."""
    _, std = linear.impute(hidden_but(drawn(100, 5), 24), return_std=True)
    to_seen = np.linalg.solve(COVARIANCE[6:, 6:], COVARIANCE[6:, :6])
    wanted = np.sqrt(np.diagonal(COVARIANCE[:6, :6] - COVARIANCE[:6, 6:] @ to_seen))
    assert np.median(std[:, :6] / wanted) == pytest.approx(1.0, abs=0.05)


def test_the_scale_of_a_row_is_found_from_its_columns():
    rng = np.random.default_rng(0)
    for scale in SCALES:
        squares = scale * rng.chisquare(60, size=400)
        _, chances = MAYBE_UNLIKE.sum_over(MAYBE_UNLIKE.of_each(gaussian(squares, np.zeros(400), np.full(400, 60.0))))
        assert chances.shape == (len(SCALES), 400)
        np.testing.assert_allclose(chances.sum(axis=0), 1.0)
        assert np.mean(np.abs(np.log2(SCALES[chances.argmax(axis=0)] / scale)) <= 1.0) == 1.0
        assert SCALES @ chances.mean(axis=1) == pytest.approx(scale, rel=0.1)


def test_where_nothing_is_seen_scales_have_their_prior():
    log_likelihood, chances = MAYBE_UNLIKE.sum_over(
        MAYBE_UNLIKE.of_each(gaussian(np.zeros(1), np.zeros(1), np.zeros(1)))
    )
    assert log_likelihood == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(chances[:, 0], CHANCES)


def test_draws_get_scales_as_often_as_these_are_likely():
    chances = np.random.default_rng(0).dirichlet(np.ones(len(SCALES)), size=3).T  # [K, S]
    scales = MAYBE_UNLIKE.one_for_every_draw(np.repeat(chances[:, :, None], 576, axis=2))
    for scale, wanted in zip(SCALES, chances, strict=True):
        np.testing.assert_allclose((scales == scale).mean(axis=1), wanted, atol=0.01)


def test_rows_that_are_alike_have_no_scale():
    squares = np.array([3.0, 4000.0])
    log_likelihood, chances = ALIKE.sum_over(ALIKE.of_each(gaussian(squares, np.ones(2), np.full(2, 5.0))))
    np.testing.assert_allclose(log_likelihood, -0.5 * (squares + 1.0))
    np.testing.assert_array_equal(chances, 1.0)
    np.testing.assert_array_equal(ALIKE.expected_precision(chances), 1.0)
    np.testing.assert_array_equal(ALIKE.one_for_every_draw(np.ones((1, 2, 7))), np.ones((2, 7)))
