"""Simulated tables hold what they say they hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpgplvm.datasets import make_views

ONE_EACH = ((0,), (1,))


def share_explained(features, y) -> float:
    """Share of the variance of y that a least-squares fit on the features explains."""
    design = np.column_stack([np.ones(len(y)), features])
    residual = y - design @ np.linalg.lstsq(design, y)[0]
    return 1.0 - residual.var() / y.var()


def bumps(x):
    """Thirteen bumps along x, whose sums are as smooth as draws of unit length-scale."""
    return np.exp(-0.5 * (x[:, None] - np.linspace(-4.0, 4.0, 13)) ** 2)


def test_default_is_the_papers_toy():
    table = make_views(random_state=0)
    assert table.Y.shape == (100, 20)
    assert table.latents.shape == (100, 3)
    assert table.groups.tolist() == [0] * 10 + [1] * 10
    assert table.listens.tolist() == [[True, True, False], [True, False, True]]
    assert np.isfinite(table.Y).all()


def test_sizes_of_groups_follow_the_arguments():
    table = make_views(n_samples=7, latents=((0,), (2, 1), (3,)), columns=(1, 4, 2), random_state=0)
    assert table.Y.shape == (7, 7)
    assert table.latents.shape == (7, 4)
    assert table.groups.tolist() == [0, 1, 1, 1, 1, 2, 2]
    assert table.listens.tolist() == [
        [True, False, False, False],
        [False, True, True, False],
        [False, False, False, True],
    ]


def test_sizes_may_be_numpy_integers():
    table = make_views(n_samples=np.int64(5), columns=np.int64(2), random_state=0)
    assert table.Y.shape == (5, 4)


def test_same_seed_same_table():
    first, again, other = (make_views(n_samples=10, random_state=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.Y, other.Y)


def test_a_generator_is_drawn_from():
    rng = np.random.default_rng(3)
    first, second = make_views(n_samples=10, random_state=rng), make_views(n_samples=10, random_state=rng)
    assert np.array_equal(first.Y, make_views(n_samples=10, random_state=3).Y)
    assert not np.array_equal(first.Y, second.Y)


@pytest.mark.parametrize("linear", [False, True])
def test_noise_has_its_variance_in_every_group(linear):
    settings = {"n_samples": 300, "latents": ONE_EACH, "columns": 20, "linear": linear, "random_state": 0}
    clean = make_views(noise_variance=0.0, **settings).Y
    noise = make_views(noise_variance=(0.01, 0.25), **settings).Y - clean
    # 6,000 draws: the standard deviation of a variance is 1.8 % of it.
    np.testing.assert_allclose(noise[:, :20].var(), 0.01, rtol=0.08)
    np.testing.assert_allclose(noise[:, 20:].var(), 0.25, rtol=0.08)


def test_smooth_columns_depend_on_their_own_latent_alone():
    table = make_views(n_samples=300, latents=ONE_EACH, columns=5, noise_variance=0.0, random_state=0)
    for d, group in enumerate(table.groups):
        own, other = bumps(table.latents[:, group]), bumps(table.latents[:, 1 - group])
        assert share_explained(own, table.Y[:, d]) > 0.999
        assert share_explained(other, table.Y[:, d]) < 0.15


def test_linear_columns_are_linear_in_their_own_latents_alone():
    table = make_views(
        n_samples=50, latents=((0, 1), (0, 2)), columns=3, noise_variance=0.0, linear=True, random_state=0
    )
    slopes = np.linalg.lstsq(table.latents, table.Y)[0]
    np.testing.assert_allclose(table.latents @ slopes, table.Y, atol=1e-12)
    listens = table.listens[table.groups].T
    np.testing.assert_allclose(slopes[~listens], 0.0, atol=1e-12)
    assert np.abs(slopes[listens]).min() > 1e-3


def test_smooth_columns_have_unit_variance():
    # Over draws of the function: short length-scales, so that the rows of one table are nearly independent draws.
    Y = make_views(n_samples=200, latents=((0,),), columns=200, weights=1e4, noise_variance=0.0, random_state=0).Y
    np.testing.assert_allclose(np.mean(Y**2), 1.0, rtol=0.05)


def test_larger_weights_make_rougher_columns():
    smooth, rough = (
        make_views(n_samples=200, latents=((0,),), weights=weight, noise_variance=0.0, random_state=0)
        for weight in (0.1, 100.0)
    )
    along = np.argsort(smooth.latents[:, 0])
    assert np.abs(np.diff(smooth.Y[along], axis=0)).mean() < 0.2 * np.abs(np.diff(rough.Y[along], axis=0)).mean()


def test_weights_may_differ_between_latents():
    table = make_views(
        n_samples=300, latents=((0, 1),), columns=5, weights=((1.0, 1e-8),), noise_variance=0.0, random_state=0
    )
    for y in table.Y.T:
        assert share_explained(bumps(table.latents[:, 0]), y) > 0.999


def test_noise_columns_listen_to_nothing():
    table = make_views(n_samples=400, latents=ONE_EACH, columns=2, n_noise_columns=3, random_state=0)
    assert table.Y.shape == (400, 7)
    assert table.groups.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert table.listens.shape == (3, 2)
    assert not table.listens[2].any()
    for y in table.Y[:, 4:].T:
        assert share_explained(np.column_stack([bumps(x) for x in table.latents.T]), y) < 0.12
        np.testing.assert_allclose(y.var(), 1.0, rtol=0.25)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"columns": (3, 4, 5)}, ["2 groups", "columns 3"]),
        ({"noise_variance": (0.1,)}, ["2 groups", "noise_variance 1"]),
        ({"weights": ((1.0, 1.0), (1.0,))}, ["weights[1]", "1 entries", "2 latents"]),
        ({"weights": ((1.0, 1.0),)}, ["weights", "2"]),
        ({"latents": ()}, ["latents"]),
        ({"latents": ((0,), ())}, ["latents"]),
        ({"latents": ((0,), (-1,))}, ["latents", "-1"]),
        ({"noise_variance": -0.1}, ["noise_variance", "-0.1"]),
        ({"weights": -1.0}, ["weights", "-1"]),
        ({"columns": -2}, ["columns", "-2"]),
        ({"n_samples": 0}, ["n_samples", "0"]),
        ({"n_noise_columns": -1}, ["n_noise_columns", "-1"]),
    ],
    ids=str,
)
def test_arguments_that_do_not_fit_are_refused(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        make_views(random_state=0, **arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)
