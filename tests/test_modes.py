"""Peaks of a row's posterior, where the truth is known: the functions are given, not learned."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dpgplvm.inference.modes import Cloud, explanations, find_modes, leave_freedom, more_modes
from dpgplvm.inference.row_scales import ALIKE, MAYBE_UNLIKE
from dpgplvm.inference.whereabouts import Whereabouts
from dpgplvm.model.latents import Marginals
from dpgplvm.numerics import computing

N_LATENTS, N_COLUMNS, NOISE, FORGETTING = 6, 12, 1e-4, 0.01


class Wavy:
    """Columns that rise along a direction and wave along another, known well near the training rows and less elsewhere;
    what `find_modes` asks of a predictor."""

    def __init__(self, rng, n_rows=100):
        self.training = Marginals(rng.normal(size=(n_rows, N_LATENTS)), np.full((n_rows, N_LATENTS), 1e-4))
        self._rise, self._wave = rng.normal(size=(2, N_LATENTS, N_COLUMNS))

    used, bends = np.ones(N_LATENTS, dtype=bool), True
    row_scales, whereabouts = MAYBE_UNLIKE, Whereabouts.anywhere(used)

    def at_points(self, X):
        distance = cdist(X, self.training.mean, "sqeuclidean").min(axis=1, keepdims=True)
        variance = NOISE + 1.0 - np.exp(-FORGETTING * distance)
        return X @ self._rise + 0.5 * np.sin(2.0 * X @ self._wave), np.broadcast_to(variance, (len(X), N_COLUMNS))

    def slopes_at(self, X, axes):
        """[A, S, D] along each of the axes [A, Q]."""
        steep = np.cos(2.0 * X @ self._wave)
        return np.stack([axis @ self._rise + steep * (axis @ self._wave) for axis in axes])


@pytest.fixture
def wavy():
    return Wavy(np.random.default_rng(0))


def peaks_of(wavy, values, observed, n_peaks):
    with computing():
        cloud = Cloud.of(wavy)
        return find_modes(wavy, cloud, cloud.starts(values, observed), values, observed, n_peaks)


def found(wavy, hidden):
    """How far the highest peak of each of 50 new rows is from where the row is."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, N_LATENTS))
    values = wavy.at_points(X)[0] + np.sqrt(NOISE) * rng.normal(size=(50, N_COLUMNS))
    observed = np.ones_like(values)
    observed[:, :hidden] = 0.0
    peaks = peaks_of(wavy, values * observed, observed, 4)
    highest = peaks.at[np.arange(50), peaks.height.argmax(axis=1)]
    return np.abs(highest - X).max(axis=1)


@pytest.mark.parametrize("hidden", [0, 2])
def test_narrow_peaks_are_found(wavy, hidden):
    assert np.mean(found(wavy, hidden) < 0.1) >= 0.9


def test_peaks_that_were_missed_are_found_from_places_near_to_them(wavy):
    """What is known are peaks of other rows, which are lower for these."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(5, N_LATENTS))
    values, observed = wavy.at_points(X)[0], np.ones((5, N_COLUMNS))
    far = peaks_of(wavy, values[::-1], observed, 2)
    known = far._replace(height=np.full((5, 2), -1e6))
    near = (X + 0.02 * rng.normal(size=X.shape))[:, None]
    with computing():
        peaks = more_modes(wavy, values, observed, known, near)
    assert peaks.at.shape == (5, 2, N_LATENTS)
    np.testing.assert_allclose(peaks.at[:, 0], X, atol=0.05)
    np.testing.assert_array_equal(peaks.of(np.array([3])).at[0], peaks.at[3])


def test_what_explains_a_row_near_to_a_start_stays_near_and_explains_it(wavy):
    """Three columns are seen of what six latents do: there is a place near to almost any start."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(8, N_LATENTS))
    starts = X[:, None] + 0.4 * rng.normal(size=(8, 5, N_LATENTS))
    observed = np.zeros((8, N_COLUMNS))
    observed[:, :3] = 1.0
    values = observed * wavy.at_points(X)[0]
    with computing():
        places = explanations(wavy, starts, values, observed)
    mean, variance = wavy.at_points(places.at.reshape(-1, N_LATENTS))
    off = (np.repeat(values, 5, axis=0) - mean)[:, :3] / np.sqrt(variance[:, :3])
    assert np.median(np.abs(off)) < 0.1
    assert np.linalg.norm(places.at - starts, axis=2).max() < 2.0
    # Sideways, nothing is known but how near to the start it is.
    least = np.linalg.eigvalsh(places.information)[:, :, 0]
    np.testing.assert_allclose(least, 1.0 / 0.5**2, rtol=0.02)


def test_rows_leave_freedom_where_they_show_fewer_columns_than_there_are_latents(wavy):
    X = np.random.default_rng(4).normal(size=(6, N_LATENTS))
    values, observed = wavy.at_points(X)[0], np.ones((6, N_COLUMNS))
    observed[:3, 4:] = 0.0
    peaks = peaks_of(wavy, values * observed, observed, 2)
    assert leave_freedom(wavy, peaks).tolist() == [True] * 3 + [False] * 3
    wavy.bends = False  # a posterior is one peak then, however wide
    assert not leave_freedom(wavy, peaks).any()


def test_there_are_as_many_starts_as_there_are_to_be_however_few_are_apart():
    """Along a single latent no more than a dozen points are far from each other."""

    class OneLatent:
        training = Marginals(np.random.default_rng(0).normal(size=(30, 1)), np.full((30, 1), 1e-3))
        used, row_scales, whereabouts = np.ones(1, dtype=bool), ALIKE, Whereabouts.anywhere(np.zeros(1, dtype=bool))

        def at_points(self, X):
            return X, np.full_like(X, 0.01)

    with computing():
        cloud = Cloud.of(OneLatent())
    starts = cloud.starts(np.array([[0.3], [-1.0]]), np.ones((2, 1)))
    assert starts.shape == (2, 40, 1)
    np.testing.assert_allclose(starts[:, 0, 0], [0.3, -1.0], atol=0.1)
    for of_row in starts[:, :, 0]:
        assert len(np.unique(of_row)) == 40
        assert np.abs(np.subtract.outer(of_row[:5], of_row[:5]))[np.triu_indices(5, 1)].min() > 0.3
