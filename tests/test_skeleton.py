"""Joints and bones: found by name, checked, and turned upright."""

import numpy as np
import pytest

from dpgplvm import Skeleton
from dpgplvm.datasets import make_walkers


def test_joints_are_found_by_the_ends_of_names():
    names = ["knee x", "speed", "knee y", "left_foot_X", "left_foot_Y", "a.b.x", "a.b.y", "l-toe-x", "l-toe-y"]
    skeleton = Skeleton.from_names(names)
    assert skeleton.joints == {
        "knee": ("knee x", "knee y"),
        "left_foot": ("left_foot_X", "left_foot_Y"),
        "a.b": ("a.b.x", "a.b.y"),
        "l-toe": ("l-toe-x", "l-toe-y"),
    }
    assert skeleton.columns(names).tolist() == [[0, 2], [3, 4], [5, 6], [7, 8]]


def test_what_is_no_whole_joint_is_left_out():
    assert list(Skeleton.from_names(["a x", "a y", "a z", "b x", "b y", "max", "x", " y", "c x"]).joints) == ["a"]
    with pytest.raises(ValueError, match="no names that end in an axis"):
        Skeleton.from_names(["temperature", "c x"])


def test_positions_are_the_columns_whatever_their_order():
    table = np.arange(12.0).reshape(2, 6)
    skeleton = Skeleton({"a": (5, "third", 0), "b": (1, 3, 4)}, [("a", "b")], up="z")
    names = ["first", "second", "third", "fourth", "fifth", "sixth"]
    assert skeleton.positions(table, names).tolist() == [[[5, 2, 0], [1, 3, 4]], [[11, 8, 6], [7, 9, 10]]]


def test_walkers_come_with_their_bones():
    video = make_walkers(n_samples=20, n_people=2, noise=0.0, random_state=0)
    skeleton = Skeleton.from_names(video.names, video.bones, up="-y")
    positions = dict(zip(skeleton.joints, np.moveaxis(skeleton.positions(video.Y, video.names), 1, 0), strict=True))
    true = dict(zip(skeleton.joints, np.moveaxis(video.skeleton.reshape(20, 30, 3), 1, 0), strict=True))
    assert {end for bone in skeleton.bones for end in bone} == set(skeleton.joints)
    for one, other in skeleton.bones:
        assert one[0] == other[0], "a bone belongs to one person"
        lengths = np.linalg.norm(true[one] - true[other], axis=-1)
        np.testing.assert_allclose(lengths, lengths[0], rtol=1e-6)
    upright = positions["0 head top"] @ skeleton.turning.T - positions["0 left ankle"] @ skeleton.turning.T
    assert (upright[:, 1] > 0).all(), "heads are above feet"


@pytest.mark.parametrize("up", ["x", "y", "z", "-x", "-y", "-z"])
def test_turning_puts_up_last_and_mirrors_no_body_in_space(up):
    turning = Skeleton({"a": (0, 1, 2)}, up=up).turning
    upwards = np.zeros(3)
    upwards["xyz".index(up[-1])] = -1.0 if up.startswith("-") else 1.0
    np.testing.assert_array_equal(turning @ upwards, [0.0, 0.0, 1.0])
    assert np.linalg.det(turning) == pytest.approx(1.0)


@pytest.mark.parametrize(("up", "right_and_up"), [("y", [3, 4]), ("-y", [3, -4]), ("x", [4, 3]), ("-x", [4, -3])])
def test_turning_in_the_plane(up, right_and_up):
    skeleton = Skeleton({"a": (0, 1)}, up=up)
    assert (skeleton.turning @ [3, 4]).tolist() == right_and_up


A, B = {"a": (0, 1)}, {"b": (2, 3)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: Skeleton({}), "joints is empty"),
        (lambda: Skeleton({"a": (0,)}), "'a' has 1 columns: give x and y, or x, y and z"),
        (lambda: Skeleton({"a": "knee x"}), "'a' has 1 columns"),
        (lambda: Skeleton({"a": (0, 1.5)}), "column 1.5: give a name or a position"),
        (lambda: Skeleton(A | {"b": (2, 3, 4)}), "'a' has 2 columns and 'b' has 3"),
        (lambda: Skeleton(A | B, [("a", "c")]), "bones name joint 'c', which the skeleton does not have"),
        (lambda: Skeleton(A | B, [("a", "b", "a")]), "is no pair"),
        (lambda: Skeleton(A | B, ["ab"]), "'ab' is no pair"),
        (lambda: Skeleton(A, up="z"), "up='z' is no axis of joints with 2 columns: give one of x, y"),
        (lambda: Skeleton(A | B).positions(np.zeros((2, 3)), ["p", "q", "r"]), "column '3', which the table of 3"),
        (lambda: Skeleton({"a": ("u", "v")}).columns(["p"]), "2 columns 'u', 'v'.*leave them out"),
        (lambda: Skeleton(A).positions(np.zeros(2), ["p", "q"]), r"table has shape \(2,\): give rows of 2 columns"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(given, said):
    with pytest.raises(ValueError, match=said):
        given()
