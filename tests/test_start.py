"""Where a fit starts: principal components, with gaps filled by themselves."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from sklearn.decomposition import PCA

from dpgplvm.inference.embeddings import filled, principal_components
from dpgplvm.inference.start import SCATTER, finest_precision, start_from_embedding
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import NAMED_KERNELS, RBF

N, D, RANK = 80, 12, 3


def low_rank(seed, noise=0.0):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(N, RANK)) @ rng.normal(size=(RANK, D)) + rng.normal(size=D)
    return Y + noise * rng.normal(size=Y.shape), rng


def with_gaps(Y, rng, share=0.3):
    return np.where(rng.random(Y.shape) < share, np.nan, Y)


def rms(values):
    return np.sqrt(np.mean(values**2))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("noise", "largest_share"), [(0.0, 0.02), (0.1, 0.2)])
def test_gaps_of_a_low_rank_table_are_recovered(seed, noise, largest_share):
    Y, rng = low_rank(seed, noise)
    gappy = with_gaps(Y, rng)
    gaps = np.isnan(gappy)
    found = filled(gappy, RANK)
    assert np.array_equal(found[~gaps], Y[~gaps])
    by_column_means = np.where(gaps, np.nanmean(gappy, axis=0), gappy)
    assert rms((found - Y)[gaps]) < largest_share * rms((by_column_means - Y)[gaps])


@pytest.mark.parametrize("n_components", [1, 2 * RANK, 10])
def test_the_wrong_number_of_components_is_better_than_column_means(n_components):
    Y, rng = low_rank(0, noise=0.1)
    gappy = with_gaps(Y, rng)
    gaps = np.isnan(gappy)
    by_column_means = np.where(gaps, np.nanmean(gappy, axis=0), gappy)
    assert rms((filled(gappy, n_components) - Y)[gaps]) < rms((by_column_means - Y)[gaps])


@pytest.mark.parametrize("n_components", [1, D, 5 * D])
def test_any_number_of_components_fills_the_gaps(n_components):
    Y, rng = low_rank(1, noise=0.1)
    gappy = with_gaps(Y, rng)
    found = filled(gappy, n_components)
    assert np.isfinite(found).all()
    assert np.abs(found).max() < 10.0 * np.nanmax(np.abs(gappy))


@pytest.mark.parametrize("seed", range(3))
def test_gaps_are_not_filled_with_noise(seed):
    rng = np.random.default_rng(seed)
    gappy = with_gaps(rng.normal(size=(N, D)), rng, share=0.1)
    found = filled(gappy, 5) - np.nanmean(gappy, axis=0)
    assert rms(found[np.isnan(gappy)]) < 0.6


def test_a_table_without_gaps_is_left_alone():
    Y, _ = low_rank(2)
    before = Y.copy()
    assert filled(Y, RANK) is Y
    assert np.array_equal(Y, before)


def test_the_table_with_gaps_is_left_alone():
    Y, rng = low_rank(3)
    gappy = with_gaps(Y, rng)
    before = gappy.copy()
    filled(gappy, RANK)
    assert np.array_equal(gappy, before, equal_nan=True)


def test_one_column_is_filled_with_its_mean():
    Y = np.array([[1.0], [np.nan], [3.0], [np.nan]])
    np.testing.assert_allclose(filled(Y, 2), [[1.0], [2.0], [3.0], [2.0]])


def test_components_are_sklearns_with_unit_variance():
    Y, _ = low_rank(4, noise=0.3)
    found = principal_components(Y, RANK).places
    wanted = PCA(RANK, whiten=True).fit_transform(Y) * np.sqrt(N / (N - 1))
    np.testing.assert_allclose(np.abs(found), np.abs(wanted), atol=1e-10)
    np.testing.assert_allclose(found.var(axis=0), 1.0)


def test_components_survive_gaps():
    Y, rng = low_rank(5, noise=0.05)
    whole, gappy = (principal_components(table, RANK).places for table in (Y, with_gaps(Y, rng)))
    # The same subspace: all of one is explained by the other.
    left = whole - gappy @ np.linalg.lstsq(gappy, whole)[0]
    assert rms(left) < 0.2


def test_a_component_without_variance_is_switched_off():
    Y, _ = low_rank(6)
    found = principal_components(Y, RANK + 2).places
    np.testing.assert_array_equal(found[:, RANK:], 0.0)
    np.testing.assert_allclose(found[:, :RANK].var(axis=0), 1.0)


def start_of(Y, noise="group", scattered=False, kernel="rbf", seed=0):
    rng = np.random.default_rng(seed)
    return start_from_embedding(Model(NAMED_KERNELS[kernel]), Y, 2, 5, 3, rng, noise, scattered)


@pytest.mark.parametrize("kernel", sorted(NAMED_KERNELS))
def test_noise_of_columns_starts_alike_for_all(float64, kernel):
    Y, _ = low_rank(7, noise=0.3)
    of_groups, of_columns = (start_of(Y, noise, kernel=kernel) for noise in ("group", "column"))
    assert of_groups.log_scale is None
    assert not of_groups.of_columns
    assert of_columns.of_columns
    assert of_columns.n_groups == of_groups.n_groups == 3
    np.testing.assert_array_equal(of_columns.log_scale, np.zeros(D))
    # A hundredth of the variance of the columns, on average.
    np.testing.assert_allclose(np.exp(-of_columns.log_noise_precision), np.full(D, 0.01 * Y.var(axis=0).mean()))
    np.testing.assert_allclose(of_groups.log_noise_precision, of_columns.log_noise_precision[:3])


def test_scattered_starts_are_other_places_of_the_same_size(float64):
    Y, _ = low_rank(8, noise=0.3)
    plain, scattered, other = (
        np.asarray(start_of(Y, scattered=s, seed=k).latents["mean"]) for s, k in ((False, 1), (True, 1), (True, 2))
    )
    for mean in (scattered, other):
        np.testing.assert_allclose(mean.var(axis=0), 1.0, atol=0.3)
        for q in range(2):
            assert np.corrcoef(plain[:, q], mean[:, q])[0, 1] == pytest.approx(1 / np.sqrt(1 + SCATTER**2), abs=0.1)
    assert np.abs(scattered - other).max() > 0.1


def test_a_start_has_no_gaps(float64):
    Y, rng = low_rank(9, noise=0.3)
    gappy = with_gaps(Y, rng)
    free = start_from_embedding(Model(RBF()), gappy, 2, 5, 3, rng, "column", scattered=True)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(free))
    np.testing.assert_allclose(
        np.exp(-free.log_noise_precision), np.full(D, 0.01 * np.nanvar(gappy, axis=0).mean()), rtol=1e-12
    )


def density_over_steps(deviation):
    """The largest sum, over values in steps of 1, of a Gaussian density around a point between them."""
    around = np.linspace(0.0, 1.0, 101)[:, None] - np.arange(-20, 21)
    return (np.exp(-0.5 * (around / deviation) ** 2) / (deviation * np.sqrt(2.0 * np.pi))).sum(axis=1).max()


def test_noise_is_too_wide_to_see_steps():
    rng = np.random.default_rng(0)
    exact = 10.0 * rng.random(size=1000)
    in_steps = np.stack([np.round(exact), np.round(2.0 * exact) / 2.0, exact, exact > 5.0], axis=1)
    deviation = np.exp(-0.5 * finest_precision(in_steps, "column")["log_noise_precision"])
    assert density_over_steps(deviation[0] / 1.0) < 1.015
    assert density_over_steps(deviation[1] / 0.5) < 1.015
    assert density_over_steps(1.0 / np.sqrt(12.0)) > 1.3  # a rounding error's own deviation would not do
    assert deviation[2] == 0.0
    assert deviation[3] == pytest.approx(0.5 * in_steps[:, 3].std())
    # A group may hold any column: its noise has to suit the finest.
    assert finest_precision(in_steps, "group")["log_noise_precision"] == np.inf
    of_group = finest_precision(in_steps[:, :2], "group")["log_noise_precision"]
    assert np.exp(-0.5 * of_group) == pytest.approx(deviation[1])


def test_gaps_are_no_steps():
    column = np.array([1.0, np.nan, 2.0, 1.0, 2.0, 4.0, 4.0, np.nan])
    assert finest_precision(column[:, None], "column")["log_noise_precision"] == pytest.approx(np.log(4.0))
