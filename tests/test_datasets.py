"""Simulated tables hold what they say they hold."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dpgplvm.datasets import make_views, make_walkers

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


LIMBS = (("shoulder", "elbow"), ("elbow", "wrist"), ("hip", "knee"), ("knee", "ankle"), ("shoulder", "hip"))


def column(video, name):
    return video.Y[:, video.names.tolist().index(name)]


def length_in_picture(video, person, side, limb):
    start, end = (np.stack([column(video, f"{person} {side} {joint} {axis}") for axis in "xy"]) for joint in limb)
    return np.hypot(*(end - start))


def without_walking(video, name):
    """What is left of a coordinate when a straight line in the person's own hip is taken out."""
    person, axis = name.split()[0], name[-1]
    y, hip = column(video, name), column(video, f"{person} left hip {axis}")
    return y - np.polyval(np.polyfit(hip, y, 1), hip)


def test_walkers_have_two_columns_for_each_joint():
    video = make_walkers(n_samples=40, n_people=3, random_state=0)
    assert video.Y.shape == (40, 90)
    assert video.skeleton.shape == (40, 3, 15, 3)
    assert len(set(video.names)) == 90
    assert video.names[:3].tolist() == ["0 head top x", "0 head top y", "0 nose x"]
    assert video.person.tolist() == [0] * 30 + [1] * 30 + [2] * 30
    assert [name.split()[0] for name in video.names] == video.person.astype(str).tolist()
    parts, counts = np.unique(video.part, return_counts=True)
    assert dict(zip(parts, counts, strict=True)) == {"arms": 24, "head": 18, "legs": 24, "trunk": 24}
    assert set(video.part[[("knee" in name or "ankle" in name) for name in video.names]]) == {"legs"}


@pytest.mark.parametrize(("n_people", "paths"), [(1, [0]), (2, [0, 0]), (3, [0, 0, 1]), (4, [0, 0, 0, 1])])
def test_the_last_of_three_or_more_walkers_has_a_path_of_their_own(n_people, paths):
    video = make_walkers(n_samples=5, n_people=n_people, random_state=0)
    assert video.path[::30].tolist() == paths


def test_same_seed_same_walkers():
    first, again, other = (make_walkers(n_samples=10, random_state=seed) for seed in (3, 3, 4))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.Y, other.Y)
    rng = np.random.default_rng(3)
    assert np.array_equal(make_walkers(n_samples=10, random_state=rng).Y, first.Y)
    assert not np.array_equal(make_walkers(n_samples=10, random_state=rng).Y, first.Y)


def test_trackers_error_is_added_to_the_skeleton():
    clean, noisy = (make_walkers(n_people=4, noise=noise, random_state=0) for noise in (0.0, 2.0))
    assert np.array_equal(clean.skeleton, noisy.skeleton)
    np.testing.assert_array_equal(clean.Y[:, ::2], clean.skeleton[..., 0].reshape(150, -1))
    # 18,000 draws: the standard deviation of their standard deviation is 0.5 % of it.
    np.testing.assert_allclose((noisy.Y - clean.Y).std(), 2.0, rtol=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_limbs_of_walkers_keep_their_length(seed):
    clean, noisy = (make_walkers(n_people=4, noise=noise, random_state=seed) for noise in (0.0, 1.0))
    for person in range(4):
        for side in ("left", "right"):
            for limb in LIMBS:
                start, end = (clean.names[::2].tolist().index(f"{person} {side} {joint} x") % 15 for joint in limb)
                lengths = np.linalg.norm(clean.skeleton[:, person, end] - clean.skeleton[:, person, start], axis=1)
                np.testing.assert_allclose(lengths, lengths[0], rtol=1e-12)
                if person < 3:
                    # Seen from the side. The error of a length is that of two ends.
                    lengths = length_in_picture(noisy, person, side, limb)
                    assert lengths.std() < 1.25 * np.sqrt(2.0)
                    np.testing.assert_allclose(
                        lengths.mean(), length_in_picture(clean, person, side, limb)[0], rtol=0.02
                    )


@pytest.mark.parametrize("seed", range(5))
def test_walkers_on_one_path_move_together_and_the_other_one_does_not(seed):
    video = make_walkers(n_people=4, random_state=seed)
    correlation = np.corrcoef([column(video, f"{person} neck x") for person in range(4)])
    assert correlation[:3, :3].min() > 0.999
    assert np.abs(correlation[3, :3]).max() < 0.5
    steps = np.diff(make_walkers(n_people=4, noise=0.0, random_state=seed).Y, axis=0)
    hurry = np.corrcoef(steps[:, video.names == "0 neck x"].T, steps[:, video.names == "2 neck x"].T)[0, 1]
    np.testing.assert_allclose(hurry, 1.0)


@pytest.mark.parametrize("seed", range(5))
def test_legs_of_walkers_swing_and_their_trunks_do_not(seed):
    video = make_walkers(n_people=2, noise=1.0, random_state=seed)
    for person in range(2):
        for side in ("left", "right"):
            assert without_walking(video, f"{person} {side} ankle x").std() > 20.0
            assert without_walking(video, f"{person} {side} knee x").std() > 8.0
            assert without_walking(video, f"{person} {side} wrist x").std() > 8.0
            # Two tracking errors are left, and nothing else.
            assert without_walking(video, f"{person} {side} shoulder x").std() < 1.25 * np.sqrt(2.0)
        assert without_walking(video, f"{person} head top x").std() < 1.25 * np.sqrt(2.0)


@pytest.mark.parametrize("seed", range(3))
def test_gait_of_walkers_is_a_gait(seed):
    video = make_walkers(n_samples=400, n_people=1, noise=0.0, random_state=seed)
    left, right = (without_walking(video, f"0 {side} ankle x") for side in ("left", "right"))
    wrist = without_walking(video, "0 left wrist x")
    assert np.corrcoef(left, right)[0, 1] < -0.8
    assert np.corrcoef(left, wrist)[0, 1] < -0.8
    hip, knee, ankle = (
        np.column_stack([column(video, f"0 left {joint} {axis}") for axis in "xy"])
        for joint in ("hip", "knee", "ankle")
    )
    thigh, shank = ((end - start).T for start, end in ((hip, knee), (knee, ankle)))
    bend = np.degrees(np.arctan2(*thigh) - np.arctan2(*shank))
    assert bend.min() > 0.0, "knees bend one way only"
    assert 45.0 < bend.max() < 70.0
    # A stride, 150 pixels or so, has two bobs.
    x, y = column(video, "0 neck x"), column(video, "0 neck y")
    bob = y - np.polyval(np.polyfit(x, y, 1), x)
    strides, bobs = (np.sum(np.diff(np.sign(track - np.median(track))) > 0) for track in (left, bob))
    assert 120.0 < np.ptp(x) / strides < 220.0
    assert abs(bobs - 2 * strides) <= 2


def test_all_columns_of_walkers_vary():
    assert make_walkers(n_people=4, noise=0.0, random_state=0).Y.std(axis=0).min() > 1.0


@pytest.mark.parametrize("arguments", [{"n_samples": 0}, {"n_people": 0}, {"noise": -1.0}], ids=str)
def test_impossible_walkers_are_refused(arguments):
    (name, value), *_ = arguments.items()
    with pytest.raises(ValueError, match=f"{name}={value} is too small"):
        make_walkers(**arguments)
