"""Where a new row may be before anything is seen of it: where rows were, or anywhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from dpgplvm import BayesianGPLVM
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.latents import Marginals
from dpgplvm.numerics import computing

ALL_USED = np.ones(2, dtype=bool)


def gaussians(seed, n_gaussians=4, n_latents=3):
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(n_gaussians))
    centres, variances = rng.normal(size=(n_gaussians, n_latents)), rng.gamma(1.0, size=(n_gaussians, n_latents))
    return Whereabouts(centres, variances, shares, np.arange(n_latents) > 0)


def log_density(whereabouts, points, scale=1.0):
    with computing():
        return whereabouts.log_density(points, (scale,))[0]


def densities(whereabouts, point, scale=1.0):
    """SciPy's, one Gaussian after the other."""
    centres, variances, shares, stretches = whereabouts
    variances = variances * np.where(stretches, scale, 1.0)
    parts = zip(centres, variances, shares, strict=True)
    return np.array([share * multivariate_normal.pdf(point, centre, np.diag(var)) for centre, var, share in parts])


def density(whereabouts, point, scale=1.0):
    return densities(whereabouts, point, scale).sum()


@given(st.integers(0, 10**6))
def test_the_density_is_that_of_its_gaussians(seed):
    whereabouts = gaussians(seed)
    points = np.random.default_rng(seed + 1).normal(size=(2, 3, 3))
    with computing():
        found = np.exp(whereabouts.log_density(points, (1.0, 7.0))) / np.sqrt(2.0 * np.pi) ** 3
    assert found.shape == (2, 2, 3)
    wanted = [[[density(whereabouts, one, scale) for one in some] for some in points] for scale in (1.0, 7.0)]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from([1.0, 5.0]))
def test_slopes_are_those_of_the_density(seed, scale):
    whereabouts, points = gaussians(seed), np.random.default_rng(seed + 1).normal(size=(5, 3))
    slope, tightness = whereabouts.expand(points, scale)
    for q, step in enumerate(1e-5 * np.eye(3)):
        rise = log_density(whereabouts, points + step, scale) - log_density(whereabouts, points - step, scale)
        np.testing.assert_allclose(slope[:, q], rise / 2e-5, rtol=1e-4, atol=1e-5)
    variances = whereabouts.variances * np.where(whereabouts.stretches, scale, 1.0)
    for point, found in zip(points, tightness, strict=True):
        chances = densities(whereabouts, point, scale)
        np.testing.assert_allclose(found, chances @ (1.0 / variances) / chances.sum(), rtol=1e-7)


def test_draws_are_from_its_gaussians():
    whereabouts = gaussians(3)
    points = whereabouts.draw(np.random.default_rng(0).normal(size=(40_000, 3)), np.full(40_000, 2.0))
    mean = whereabouts.shares @ whereabouts.centres
    variances = whereabouts.variances * np.where(whereabouts.stretches, 2.0, 1.0)
    second = whereabouts.shares @ (variances + whereabouts.centres**2)
    np.testing.assert_allclose(points.mean(axis=0), mean, atol=0.03)
    np.testing.assert_allclose((points**2).mean(axis=0), second, rtol=0.05)
    few = whereabouts.draw(np.zeros((10, 3)), np.ones(10))
    counts = np.array([(few == centre).all(axis=1).sum() for centre in whereabouts.centres])
    assert counts.sum() == 10
    assert (np.abs(counts - 10 * whereabouts.shares) <= 1.0).all()


def test_the_prior_is_the_models():
    points = np.random.default_rng(0).normal(size=(7, 2))
    found = log_density(Whereabouts.anywhere(ALL_USED), points)
    np.testing.assert_allclose(found, -0.5 * (points**2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("nearness", [0.0, 0.5, 0.9, 1.0])
def test_rows_that_fill_the_prior_leave_it_as_it_is(nearness):
    """Rows of unit variance in all, of which some is where rows are and some how well that is known."""
    line = np.linspace(-2.0, 2.0, 9)[:, None]
    known = 0.6
    rows = np.sqrt(known) * np.random.default_rng(0).normal(size=(200_000, 1))
    near = Whereabouts.near(rows, np.full_like(rows, 1.0 - known), np.ones(1, dtype=bool), nearness, 0.3)
    found = log_density(near, line)
    np.testing.assert_allclose(found, -0.5 * line[:, 0] ** 2, atol=0.02)


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_fill_the_prior_are_no_reason_to_leave_it(seed):
    rng = np.random.default_rng(seed)
    rows = Marginals(np.sqrt(0.9) * rng.normal(size=(300, 2)), np.full((300, 2), 0.1))
    points = rng.normal(size=(200, 2))
    change = log_density(Whereabouts.learned(rows, ALL_USED, is_linear=False), points) + 0.5 * (points**2).sum(axis=1)
    assert np.abs(change).mean() < 0.15


def clusters(rng, n_rows):
    centres = np.array([[-1.5, -0.5], [0.2, 1.3], [1.4, -0.9]])
    return centres[rng.integers(3, size=n_rows)] + 0.1 * rng.normal(size=(n_rows, 2))


def test_rows_in_clusters_are_looked_for_in_clusters():
    rng = np.random.default_rng(0)
    rows, others = clusters(rng, 150), clusters(rng, 150)
    found = Whereabouts.learned(Marginals(rows, np.full(rows.shape, 1e-3)), ALL_USED, is_linear=False)
    gain = log_density(found, others) + 0.5 * (others**2).sum(axis=1)
    # Three clusters of this size: their true density is three nats above the prior, on average.
    assert gain.mean() == pytest.approx(3.0, abs=0.5)
    assert found.shares[0] == pytest.approx(0.05)  # never less: rows to come may be elsewhere
    assert log_density(found, np.array([[4.0, 4.0]]))[0] >= -16.0 + np.log(0.05)


def test_how_near_is_chosen_by_rows_that_are_left_out():
    rng = np.random.default_rng(1)
    rows = clusters(rng, 60)
    found = Whereabouts.learned(Marginals(rows, np.full(rows.shape, 1e-4)), ALL_USED, is_linear=False)

    def left_out(nearness):
        """Every row under all others."""
        values = []
        for n, row in enumerate(rows):
            others = np.delete(rows, n, axis=0)
            near = Whereabouts.near(others, np.full(others.shape, 1e-4), ALL_USED, nearness, 0.05)
            values.append(np.log(density(near, row)))
        return np.mean(values)

    known = np.sqrt((1.0 - found.variances[1, 0]) / (1.0 - 1e-4))
    np.testing.assert_allclose(found.centres[1:].std(axis=0), known * rows.std(axis=0))
    grid = [0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.995]
    assert left_out(known) >= max(map(left_out, grid)) - 0.02


def test_along_latents_that_are_not_used_there_is_the_prior():
    rng = np.random.default_rng(0)
    rows = np.hstack([clusters(rng, 50), 1e-4 * rng.normal(size=(50, 1))])
    found = Whereabouts.learned(Marginals(rows, np.full(rows.shape, 0.01)), np.array([True, True, False]), True)
    assert len(found.shares) == 51
    np.testing.assert_array_equal(found.centres[:, 2], 0.0)
    np.testing.assert_allclose(found.variances[:, 2], 1.0, rtol=1e-12)
    np.testing.assert_array_equal(found.stretches, [True, True, False])


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_a_few_rows_are_enough_to_ask(n_rows):
    rows = np.random.default_rng(0).normal(size=(n_rows, 2))
    found = Whereabouts.learned(Marginals(rows, np.full(rows.shape, 0.1)), ALL_USED, is_linear=False)
    assert found.shares.sum() == pytest.approx(1.0)
    assert np.isfinite(log_density(found, rows)).all()
    if n_rows == 1:
        assert len(found.shares) == 1


def test_what_a_row_of_a_cluster_hides_is_that_of_the_cluster():
    """Columns that are seen tell two clusters apart but hardly say where in them a row is; those that are hidden do not
    depend on anything but the cluster. Between the clusters there were no rows."""
    rng = np.random.default_rng(0)

    def drawn(n_rows):
        side = rng.choice([-1.0, 1.0], size=(n_rows, 1))
        seen = side * np.ones(3) + 0.6 * rng.normal(size=(n_rows, 3))
        return side[:, 0], np.hstack([seen, side * np.ones(3) + 0.05 * rng.normal(size=(n_rows, 3))])

    _, Y = drawn(150)
    side, truth = drawn(200)
    model = BayesianGPLVM(n_latents=2, n_inducing=20, noise="column", random_state=0).fit(Y)
    rows = truth.copy()
    rows[:, 3:] = np.nan
    filled = model.impute(rows)[:, 3:]
    # Given the sides, the best is the chance of each: y = tanh(sum / noise variance).
    best = np.tanh(truth[:, :3].sum(axis=1) / 0.36)
    error, least = (np.mean((found - side) ** 2) for found in (filled.mean(axis=1), best))
    assert error < 1.1 * least + 0.01
