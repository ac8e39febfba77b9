"""Where rows are before the first climb: along their neighbours, not across the folds of a curved table."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from dpgplvm import DPGPLVM
from dpgplvm.datasets import make_views
from dpgplvm.inference import embeddings, search
from dpgplvm.inference.embeddings import along_neighbours, embeddings_for, principal_components
from dpgplvm.inference.kernel_choice import with_best_kernel
from dpgplvm.inference.one_group import one_group
from dpgplvm.inference.options import Options
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF, Linear
from dpgplvm.numerics import NumericalError

pytestmark = pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")


def spiral(n_rows=120, n_columns=8, seed=0):
    """Rows along a curve that turns twice, and where on it each of them is."""
    rng = np.random.default_rng(seed)
    at = np.sort(rng.uniform(0.0, 4.0 * np.pi, size=n_rows))
    curve = np.stack([at * np.cos(at), at * np.sin(at)], axis=1) / 4.0
    Y = curve @ np.linalg.qr(rng.normal(size=(n_columns, 2)))[0].T + 0.01 * rng.normal(size=(n_rows, n_columns))
    order = rng.permutation(n_rows)
    return Y[order], at[order]


def in_order(embedded, at):
    return abs(spearmanr(embedded.places[:, 0], at).statistic)


def test_a_spiral_is_unrolled_along_neighbours_alone():
    Y, at = spiral()
    assert in_order(along_neighbours(Y, 2, 5), at) > 0.999
    assert in_order(principal_components(Y, 2), at) < 0.5


def test_a_spiral_with_gaps_is_unrolled_too():
    Y, at = spiral()
    gappy = np.where(np.random.default_rng(1).random(Y.shape) < 0.1, np.nan, Y)
    assert in_order(along_neighbours(gappy, 2, 5), at) > 0.99


def test_rows_beyond_the_most_are_placed_among_the_others(monkeypatch):
    Y, at = spiral(n_rows=200)
    monkeypatch.setattr(embeddings, "_MOST_ROWS", 120)
    embedded = along_neighbours(Y, 2, 5)
    assert embedded.places.shape == (200, 2)
    assert in_order(embedded, at) > 0.99


def test_a_plane_looks_the_same_from_everywhere():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.linspace(-2.0, 2.0, 24), np.linspace(-1.0, 1.0, 12)), axis=-1).reshape(-1, 2)
    Y = grid @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    along, plain = along_neighbours(Y, 2, 10), principal_components(Y, 2)
    for q in range(2):
        assert abs(np.corrcoef(along.places[:, q], plain.places[:, q])[0, 1]) > 0.99
    # Ways along a grid are a little longer than the straight line.
    np.testing.assert_allclose(along.sizes, plain.sizes, rtol=0.1)


@pytest.mark.parametrize("embedding", embeddings_for(50))
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(21, 40),
    n_columns=st.integers(1, 12),
    n_distinct=st.integers(2, 40),
    gaps=st.sampled_from([0.0, 0.2]),
)
def test_places_have_unit_variance_or_none(embedding, seed, n_rows, n_columns, n_distinct, gaps):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n_distinct, n_columns))[rng.integers(n_distinct, size=n_rows)]
    Y[0], Y[1] = 0.0, 1.0
    hidden = rng.random(Y.shape) < gaps
    hidden[:2] = False
    n_latents = min(n_columns, 10)
    try:
        embedded = embedding(np.where(hidden, np.nan, Y), n_latents)
    except NumericalError:
        assert embedding is not principal_components
        assert n_distinct < 22 or n_columns < 3
        return
    assert embedded.places.shape == (n_rows, n_latents)
    assert embedded.sizes.shape == (n_latents,)
    variance = embedded.places.var(axis=0)
    np.testing.assert_allclose(variance, (variance > 0.5).astype(float), atol=1e-9)
    np.testing.assert_allclose(embedded.places.mean(axis=0), 0.0, atol=1e-9)
    assert variance[0] > 0.5
    assert (np.diff(embedded.sizes) <= 1e-9 * embedded.sizes[0]).all()


@pytest.mark.parametrize("embedding", embeddings_for(50))
def test_an_embedding_is_the_same_every_time_and_in_every_process(embedding):
    Y, _ = spiral(n_rows=50)
    first, again = embedding(Y, 3), pickle.loads(pickle.dumps(embedding))(Y, 3)
    np.testing.assert_array_equal(first.places, again.places)


@pytest.mark.parametrize(("n_rows", "how_many"), [(2, 1), (10, 1), (11, 2), (20, 2), (21, 3), (5000, 3)])
def test_few_rows_have_few_neighbours(n_rows, how_many):
    found = embeddings_for(n_rows)
    assert found[0] is principal_components
    assert len(found) == how_many


def test_a_search_begins_where_an_embedding_led_furthest(float64):
    Y = make_views(n_samples=200, latents=((0, 1),), columns=10, random_state=2).Y
    Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
    options = Options(n_latents=4, n_inducing=20, n_groups=2, noise="column")
    rng = np.random.default_rng
    reached = {}
    for kernel in (RBF(), Linear()):
        asked = options._replace(kernels=(kernel,))
        reached[kernel] = with_best_kernel(Model(kernel), Y, asked, rng(0))
    assert reached[RBF()].beginning.embedded.by is not principal_components
    assert reached[Linear()].beginning.embedded.by is principal_components
    from_components = one_group(reached[RBF()].problem, options, rng(0))
    assert reached[RBF()].ended.corrected > from_components.ended.corrected + 100.0


def test_rows_that_are_repeated_are_one_row():
    Y, at = spiral()
    again = np.repeat(Y, 6, axis=0)
    assert in_order(along_neighbours(again, 2, 5), np.repeat(at, 6)) > 0.999
    with pytest.raises(NumericalError, match="too few rows are different"):
        along_neighbours(np.repeat(Y[:10], 12, axis=0), 2, 5)


def test_a_table_without_coordinates_along_neighbours_is_fitted_all_the_same(monkeypatch):
    def finds_no_eigenvalues(self, X):
        raise ValueError("zero-size array to reduction operation maximum which has no identity")

    monkeypatch.setattr(embeddings.Isomap, "fit", finds_no_eigenvalues)
    Y, _ = spiral()
    with pytest.raises(NumericalError, match="no coordinates along their neighbours"):
        along_neighbours(Y, 2, 5)
    settings = {"n_latents": 2, "n_inducing": 5, "truncation": 2, "max_iter": 5, "kernel": "rbf"}
    assert np.isfinite(DPGPLVM(**settings, random_state=0).fit(Y).corrected_bound_)


@pytest.mark.parametrize("n_rows", [27, *(pytest.param(n_rows, marks=pytest.mark.slow) for n_rows in (54, 64))])
def test_a_table_whose_rows_are_all_as_far_apart_is_fitted(n_rows):
    settings = {"n_latents": 2, "n_inducing": 5, "truncation": 2, "max_iter": 5, "kernel": "rbf"}
    assert np.isfinite(DPGPLVM(**settings, random_state=0).fit(np.eye(n_rows)).corrected_bound_)


def test_other_starts_are_scattered_around_the_rows_of_the_plain_one(monkeypatch):
    begun = []
    stage = search.one_group

    def noted(problem, options, rng, beginning=None, scattered=False):
        begun.append((beginning, scattered))
        return stage(problem, options, rng, beginning, scattered)

    monkeypatch.setattr(search, "one_group", noted)
    Y = make_views(n_samples=200, latents=((0, 1),), columns=10, random_state=0).Y
    settings = {"n_latents": 4, "n_inducing": 20, "truncation": 1, "max_iter": 5, "kernel": "rbf"}
    DPGPLVM(**settings, n_starts=3, random_state=0).fit(Y)
    assert [scattered for _, scattered in begun] == [True, True]
    assert all(beginning.embedded.by is not principal_components for beginning, _ in begun)
