"""Rows unlike those that were learned from: they are further from all predictions, and must say so."""

from __future__ import annotations

import numpy as np
import pytest
from scales import CHANCES, SCALES

from dpgplvm import BayesianGPLVM
from dpgplvm.inference.row_scales import ALIKE, MAYBE_UNLIKE, gaussian

NOISE = 0.2


@pytest.fixture(scope="module")
def linear():
    """A model of 30 columns, new rows of the same kind with as much noise and as far out as is asked for, and the true
    slopes."""
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(2, 30))

    def drawn(n_rows, noise, out=1.0):
        return out * rng.normal(size=(n_rows, 2)) @ slopes + noise * rng.normal(size=(n_rows, 30))

    model = BayesianGPLVM(n_latents=2, kernel="linear", noise="column", random_state=0).fit(drawn(200, NOISE))
    return model, drawn, slopes


def filled_intervals(model, truth):
    """What share of hidden entries intervals hold, and mean squares of errors in units of the standard deviations."""
    rows = truth.copy()
    rows[:, :6] = np.nan
    filled, std = model.impute(rows, return_std=True)
    low, high = model.impute_quantiles(rows, (0.025, 0.975))
    z = ((filled - truth) / np.where(std > 0.0, std, 1.0))[:, :6]
    return ((low <= truth) & (truth <= high))[:, :6].mean(), np.mean(z**2)


@pytest.mark.parametrize("times", [1.0, 2.0, 4.0])
def test_intervals_of_rows_further_out_are_as_wide_as_they_must_be(linear, times):
    model, drawn, _ = linear
    held, squares = filled_intervals(model, drawn(600, times * NOISE, times))
    assert held == pytest.approx(0.95, abs=0.03)
    assert squares == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize("times", [2.0, 3.0])
def test_intervals_of_rows_with_more_noise_alone_are_nearly_wide_enough(linear, times):
    """Rows that are further out in their noise but not in their latents are not what a scale of all stands for."""
    model, drawn, _ = linear
    held, squares = filled_intervals(model, drawn(600, times * NOISE))
    assert held > 0.9
    assert squares == pytest.approx(1.0, abs=0.4)


def test_what_a_linear_function_is_expected_to_be_does_not_depend_on_how_unlike_a_row_is(linear):
    """Far out in what it shows, a row is as far out in what it hides: the best linear prediction, as for any other."""
    model, drawn, slopes = linear
    truth = drawn(100, 4.0 * NOISE, 4.0)
    rows = truth.copy()
    rows[:, :6] = np.nan
    covariance = slopes.T @ slopes + NOISE**2 * np.eye(30)
    best = truth[:, 6:] @ np.linalg.solve(covariance[6:, 6:], covariance[6:, :6])
    np.testing.assert_allclose(model.impute(rows)[:, :6], best, atol=0.1 * truth.std())


def test_rows_like_those_learned_from_are_as_certain_as_the_true_model(linear):
    """Given its slopes and noise, what is hidden is Gaussian given what is seen."""
    model, drawn, slopes = linear
    rows = drawn(100, NOISE)
    rows[:, :6] = np.nan
    _, std = model.impute(rows, return_std=True)
    covariance = slopes.T @ slopes + NOISE**2 * np.eye(30)
    to_seen = np.linalg.solve(covariance[6:, 6:], covariance[6:, :6])
    wanted = np.sqrt(np.diagonal(covariance[:6, :6] - covariance[:6, 6:] @ to_seen))
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
