"""Profiles: columns that listen alike are found together, whatever axes the latents are in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, is_valid_linkage
from sklearn.metrics import adjusted_rand_score

from dpgplvm.inference.profiles import canonical, column_profiles, profiles

LISTENS = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]])


def moments_of(strengths, rng, rotate=True):
    """Second moments of gradients [D, Q, Q] that are diagonal in axes that are hidden."""
    n_latents = strengths.shape[1]
    hidden = np.linalg.qr(rng.normal(size=(n_latents, n_latents)))[0] if rotate else np.eye(n_latents)
    return hidden @ (strengths[:, :, None] * np.eye(n_latents)) @ hidden.T


def blocks(rng, sizes=(9, 6, 4)):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    order = rng.permutation(len(labels))
    strengths = LISTENS[labels] * rng.uniform(0.8, 1.2, size=(len(labels), 4))
    return strengths[order], labels[order]


@pytest.mark.parametrize("seed", range(4))
def test_blocks_are_found_in_any_axes(seed):
    rng = np.random.default_rng(seed)
    strengths, labels = blocks(rng)
    loudness = 10.0 ** rng.uniform(-1.0, 1.0, size=len(labels))
    found = profiles(loudness[:, None, None] * moments_of(strengths, rng))
    assert adjusted_rand_score(labels, found.labels) == 1.0
    # Numbered by size, as the blocks are.
    assert np.array_equal(found.labels, labels)
    assert max(found.silhouettes, key=found.silhouettes.get) == 3
    assert is_valid_linkage(found.tree)
    assert len(found.tree) == len(labels) - 1
    assert adjusted_rand_score(fcluster(found.tree, 3, "maxclust"), labels) == 1.0


@pytest.mark.parametrize("difference", [1e-9, 1e-3])
def test_columns_that_listen_alike_are_one_profile(difference):
    """A silhouette has no unit: it finds clusters in rounding errors as well."""
    rng = np.random.default_rng(0)
    found = profiles(moments_of(1.0 + difference * rng.normal(size=(10, 2)), rng, rotate=False))
    assert found.labels.tolist() == [0] * 10


@pytest.mark.parametrize("seed", range(4))
def test_no_structure_is_one_profile(seed):
    """Every column listens to everything, in its own way."""
    directions = np.random.default_rng(seed).normal(size=(60, 8, 24))
    found = profiles(directions @ directions.transpose(0, 2, 1))
    assert not found.labels.any()
    assert max(found.silhouettes.values()) < 0.25


def test_columns_that_listen_to_nothing_are_one_profile():
    found = profiles(np.zeros((5, 3, 3)))
    assert not found.labels.any()
    assert is_valid_linkage(found.tree)


@pytest.mark.parametrize("n_columns", [1, 2, 3])
def test_a_few_columns_are_enough(n_columns):
    rng = np.random.default_rng(1)
    strengths = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.9]])[:n_columns]
    found = profiles(moments_of(strengths, rng))
    assert found.labels.shape == (n_columns,)
    assert found.tree.shape == (n_columns - 1, 4)
    if n_columns > 1:
        assert is_valid_linkage(found.tree)
    assert found.labels.tolist() == {1: [0], 2: [0, 0], 3: [1, 0, 0]}[n_columns]


def test_one_latent_is_one_profile():
    assert not profiles(np.random.default_rng(2).uniform(0.5, 2.0, size=(7, 1, 1))).labels.any()


def test_strengths_are_directions():
    strengths = np.array([[9.0, 16.0], [0.0, 4.0], [0.0, 0.0]])
    found = column_profiles(moments_of(strengths, np.random.default_rng(0), rotate=False))
    np.testing.assert_allclose(found, [[0.6, 0.8], [0.0, 1.0], [0.0, 0.0]], atol=1e-12)


@given(labels=st.lists(st.integers(-3, 5), min_size=1, max_size=20))
def test_canonical_numbers_follow_size_and_then_place(labels):
    found = canonical(np.array(labels))
    sizes = np.bincount(found)
    assert (np.diff(sizes) <= 0).all()
    assert np.array_equal(np.equal.outer(labels, labels), np.equal.outer(found, found))
    firsts = np.array([np.flatnonzero(found == k)[0] for k in range(len(sizes))])
    assert all(firsts[k] < firsts[k + 1] for k in range(len(sizes) - 1) if sizes[k] == sizes[k + 1])
    assert np.array_equal(canonical(found), found)


def test_canonical_numbers_of_a_case():
    assert canonical(np.array([7, 2, 2, 7, 2, 5])).tolist() == [1, 0, 0, 1, 0, 2]
    assert canonical(np.array([4, 1])).tolist() == [0, 1]


def test_small_shares_do_not_choose_the_axes(monkeypatch):
    """Five scales of five items, each with small loadings on many latents besides its own."""
    labels = np.repeat(np.arange(5), 5)

    def agreement(seed):
        rng = np.random.default_rng(seed)
        loadings = 0.2 * rng.normal(size=(25, 10)) + 0.7 * np.eye(5, 10)[labels]
        loadings = loadings @ np.linalg.qr(rng.normal(size=(10, 10)))[0]
        return adjusted_rand_score(labels, profiles(loadings[:, :, None] * loadings[:, None, :]).labels)

    with_small_neglected = np.mean([agreement(seed) for seed in range(6)])
    monkeypatch.setattr("dpgplvm.inference.profiles._NEGLIGIBLE", 1e-4)
    assert with_small_neglected > np.mean([agreement(seed) for seed in range(6)]) + 0.1
