"""Columns that may be in several groups, beside plain loops over columns and groups."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from dpgplvm.inference.components import Components
from dpgplvm.inference.distribution import draw_entries, quantiles_of_entries
from dpgplvm.inference.particles import Particles, _likelihood
from dpgplvm.inference.predictor import Groups

PHI = np.array(
    [
        [0.0, 1.0, 0.0],
        [0.7, 0.3, 0.0],
        [0.0, 0.0, 1.0],
        [0.2, 0.5, 0.3],
        [1.0, 0.0, 0.0],
        [0.1, 0.0, 0.9],
        [1.0 - 1e-8, 0.0, 1e-8],  # as good as certain
    ]
)
N_ROWS, N_DRAWS, N_COLUMNS = 3, 5, len(PHI)


@pytest.fixture
def groups():
    return Groups.of(PHI)


@pytest.fixture
def components(groups):
    return groups.components


@pytest.fixture
def particles(components):
    rng = np.random.default_rng(0)
    shape = N_ROWS, N_DRAWS, components.n_components
    weights = rng.dirichlet(np.ones(N_DRAWS), size=N_ROWS)
    means, variances, expected = 3.0 * rng.normal(size=shape), rng.gamma(2.0, size=shape), rng.random(weights.shape)
    return Particles(weights, np.zeros(N_ROWS), components, means, variances, expected)


def own(components: Components, column: int) -> np.ndarray:
    return np.flatnonzero(components.columns == column)


def test_every_column_has_the_groups_that_it_may_be_in(groups, components):
    assert components.n_columns == N_COLUMNS
    assert components.n_components == 11
    for column, chances in enumerate(PHI):
        places = components.places[own(components, column)]
        group, number = places // groups.members.shape[1], places % groups.members.shape[1]
        assert np.array_equal(group, np.flatnonzero(chances > 1e-7))
        assert (groups.members[group, number] == column).all()
        shares = components.shares[own(components, column)]
        np.testing.assert_allclose(shares, chances[group], rtol=1e-7)
        assert shares.sum() == pytest.approx(1.0, rel=1e-15)
        assert components.first[column] == own(components, column)[0]
        assert components.counts[column] == len(shares)


def test_moments_are_those_of_the_mixture(components, particles):
    means, variances = particles.means, particles.variances
    mean, variance = components.moments(means, variances)
    of_draws, spread_of_draws = particles.moments()
    for column in range(N_COLUMNS):
        at, shares = own(components, column), components.shares[own(components, column)]
        first, second = means[..., at] @ shares, (variances[..., at] + means[..., at] ** 2) @ shares
        np.testing.assert_allclose(mean[..., column], first, rtol=1e-12)
        np.testing.assert_allclose(variance[..., column], second - first**2, rtol=1e-10)
        scaled = (particles.expected[..., None] * variances[..., at] + means[..., at] ** 2) @ shares
        first, second = ((particles.weights * part).sum(axis=1) for part in (first, scaled))
        np.testing.assert_allclose(of_draws[:, column], first, rtol=1e-12)
        np.testing.assert_allclose(spread_of_draws[:, column], second - first**2, rtol=1e-10)


def test_likelihoods_are_those_of_the_mixture(components, particles):
    rng = np.random.default_rng(1)
    values, observed = rng.normal(size=(N_ROWS, N_COLUMNS)), (rng.random((N_ROWS, N_COLUMNS)) < 0.6).astype(float)
    observed[0] = 1.0
    found = _likelihood(values, observed, components, particles.means, particles.variances)
    for scale in (1.0, 4.0):
        wanted = np.zeros((N_ROWS, N_DRAWS))
        for row, column in np.argwhere(observed):
            at, shares = own(components, column), components.shares[own(components, column)]
            deviations = np.sqrt(scale * particles.variances[row][:, at])
            each = norm.logpdf(values[row, column], particles.means[row][:, at], deviations)
            wanted[row] += logsumexp(each, axis=1, b=shares)
        np.testing.assert_allclose(found(scale), wanted, rtol=1e-12)


def test_draws_are_of_every_group_as_often_as_it_is_likely(components, particles):
    numbers = np.random.default_rng(2).random((20_000, N_COLUMNS))
    chosen = components.chosen(numbers)
    for column in range(N_COLUMNS):
        counts = np.bincount(chosen[:, column], minlength=components.n_components)
        assert counts.sum() == counts[own(components, column)].sum()
        np.testing.assert_allclose(counts[own(components, column)] / 20_000, PHI[column][PHI[column] > 1e-7], atol=0.02)
    drawn = draw_entries(particles, 20_000, np.random.default_rng(3))
    mean, variance = particles._replace(expected=np.ones((N_ROWS, N_DRAWS))).moments()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=5.0 * np.sqrt(variance.max() / 20_000))
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=0.1)


def chance(particles: Particles, row: int, column: int, value: float) -> float:
    """That an entry is below."""
    at = own(particles.components, column)
    each = norm.cdf(value, particles.means[row][:, at], np.sqrt(particles.variances[row][:, at]))
    return particles.weights[row] @ each @ particles.components.shares[at]


@pytest.mark.parametrize("n_threads", [1, 2, None])
def test_quantiles_are_those_of_the_mixture(particles, n_threads):
    wanted = np.ones((N_ROWS, N_COLUMNS), dtype=bool)
    wanted[1, ::2] = False
    probabilities = np.array([1e-12, 0.025, 0.5, 0.9])
    found = quantiles_of_entries(particles, probabilities, wanted, n_threads)
    assert np.array_equal(np.isnan(found), np.broadcast_to(~wanted, found.shape))
    for row, column in np.argwhere(wanted):
        for probability, value in zip(probabilities, found[:, row, column], strict=True):
            assert chance(particles, row, column, value) == pytest.approx(probability, rel=1e-7)


@pytest.mark.parametrize("size", [1e-10, 1.0, 1e10])
def test_both_tails_are_right_as_far_out_as_numbers_go(particles, size):
    """Those above are those below of what is mirrored, and they never turn back."""
    near_one = 1.0 - np.array([2.0**-53, 1e-14, 1e-8, 0.025, 0.5])
    near_zero = np.array([1e-310, 1e-300, *(1.0 - near_one)])
    every = np.ones((N_ROWS, N_COLUMNS), dtype=bool)
    scaled = particles._replace(means=5.0 + size * particles.means, variances=size**2 * particles.variances)
    below = quantiles_of_entries(scaled, near_zero, every)
    mirrored = quantiles_of_entries(scaled._replace(means=-scaled.means), near_one, every)
    assert np.isfinite(below).all()
    assert (np.diff(below, axis=0) >= 0.0).all()
    np.testing.assert_allclose(-mirrored, below[2:], rtol=1e-9)
    if size == 1.0:
        for row, column in np.argwhere(every):
            for probability, value in zip(near_zero[1:], below[1:, row, column], strict=True):
                assert chance(scaled, row, column, value) == pytest.approx(probability, rel=1e-6)
