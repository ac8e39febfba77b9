"""Simulated tracks of walking people."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_PART_OF_JOINT = {
    "head top": "head",
    "nose": "head",
    "neck": "head",
    "left shoulder": "trunk",
    "right shoulder": "trunk",
    "left hip": "trunk",
    "right hip": "trunk",
    "left elbow": "arms",
    "left wrist": "arms",
    "right elbow": "arms",
    "right wrist": "arms",
    "left knee": "legs",
    "left ankle": "legs",
    "right knee": "legs",
    "right ankle": "legs",
}
_BONES = (
    ("head top", "neck"),
    ("nose", "neck"),
    ("left hip", "right hip"),
    *(
        (f"{side} {near}" if near != "neck" else near, f"{side} {far}")
        for side in ("left", "right")
        for near, far in (
            ("neck", "shoulder"),
            ("shoulder", "elbow"),
            ("elbow", "wrist"),
            ("shoulder", "hip"),
            ("hip", "knee"),
            ("knee", "ankle"),
        )
    ),
)
_PIXELS_A_FRAME = 6.0  # 1.3 m/s at 25 frames a second, people of 1.7 m being 200 pixels tall
_RISE_WITH_DEPTH = 0.3  # the camera looks down a little, so that what is further away is higher in the picture


class Walkers(NamedTuple):
    """Simulated tracks of walking people, one row a frame.

    Attributes
    ----------
    Y : [N, D]
        Places of joints, in pixels, y downwards.
    names : [D]
        Of the columns, as "0 left knee x".
    person : [D]
        Whose joint it is.
    part : [D]
        "head", "trunk", "arms" or "legs".
    path : [D]
        The path on which that person walks.
    skeleton : [N, n_people, 15, 3]
        The joints without noise: right, down and away from the camera.
    bones : list of pairs
        Joints that are connected, as ("0 left hip", "0 left knee").
    """

    Y: np.ndarray
    names: np.ndarray
    person: np.ndarray
    part: np.ndarray
    path: np.ndarray
    skeleton: np.ndarray
    bones: list[tuple[str, str]]


def make_walkers(
    n_samples: int = 150,
    n_people: int = 2,
    noise: float = 2.0,
    random_state: int | np.random.Generator | None = None,
) -> Walkers:
    """Draw what a pose tracker sees of people who walk: jointed stick figures, in pixels.

    All people cross the picture on one path, beside or behind one another, slower and faster together; of three or more
    the last one walks round a bend of their own. Legs swing and knees bend as the way goes on, arms swing against the
    legs, and a rigid trunk bobs twice a stride. Sizes, strides and phases are everyone's own.

    Parameters
    ----------
    n_samples : int
        Frames, 25 a second.
    n_people : int
    noise : float
        Standard deviation of the tracker's error, in pixels; people are about 200 pixels tall.
    random_state : int, Generator or None

    Returns
    -------
    Walkers
        `Y`, with x and y of 15 joints a person; `names`, `person`, `part` and `path` of its columns; `skeleton` and
        `bones`.

    Examples
    --------
    >>> from dpgplvm.datasets import make_walkers
    >>> video = make_walkers(n_people=3, random_state=0)
    >>> video.Y.shape, video.names[:4].tolist()
    ((150, 90), ['0 head top x', '0 head top y', '0 nose x', '0 nose y'])
    >>> video.path[::30].tolist()
    [0, 0, 1]
    >>> from dpgplvm import Skeleton
    >>> skeleton = Skeleton.from_names(video.names, video.bones, up="-y")
    >>> len(skeleton.joints), len(skeleton.bones)
    (45, 45)
    """
    for name, value, least in (("n_samples", n_samples, 1), ("n_people", n_people, 1), ("noise", noise, 0)):
        if value < least:
            raise ValueError(f"{name}={value} is too small: give at least {least}")
    rng = np.random.default_rng(random_state)
    paths, path_of = [_across(n_samples, rng)], np.zeros(n_people, dtype=int)
    if n_people > 2:
        paths.append(_round_a_bend(n_samples, rng))
        path_of[-1] = 1
    skeleton = np.stack([_walker(paths[path], rng) for path in path_of], axis=1)
    right, down, away = np.moveaxis(skeleton, -1, 0)
    Y = np.stack([right, down - _RISE_WITH_DEPTH * away], axis=-1).reshape(n_samples, -1)
    joints = [(joint, axis) for joint in _PART_OF_JOINT for axis in "xy"]
    return Walkers(
        Y=Y + noise * rng.normal(size=Y.shape),
        names=np.array([f"{person} {joint} {axis}" for person in range(n_people) for joint, axis in joints]),
        person=np.repeat(np.arange(n_people), len(joints)),
        part=np.tile([_PART_OF_JOINT[joint] for joint, _ in joints], n_people),
        path=np.repeat(path_of, len(joints)),
        skeleton=skeleton,
        bones=[(f"{person} {one}", f"{person} {other}") for person in range(n_people) for one, other in _BONES],
    )


class _Path(NamedTuple):
    place: np.ndarray  # [N, 3] right, down, away
    heading: np.ndarray  # [N] radians, 0 to the right, towards pi / 2 away from the camera
    distance: np.ndarray  # [N] walked so far


def _distance(n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """[N] Way walked up to every frame, at a speed of its own that changes slowly."""
    time = np.linspace(0.0, 1.0, n_samples)
    hurry = 0.25 * np.sin(2.0 * np.pi * (rng.uniform(1.0, 1.5) * time + rng.uniform()))
    return np.cumsum(_PIXELS_A_FRAME * rng.uniform(0.8, 1.1) * (1.0 + hurry))


def _across(n_samples: int, rng: np.random.Generator) -> _Path:
    """To the right, on ground that slopes."""
    distance = _distance(n_samples, rng)
    slope = rng.choice([-1.0, 1.0]) * rng.uniform(0.05, 0.1)
    place = np.column_stack([distance, slope * distance, np.zeros(n_samples)])
    return _Path(place + np.array([100.0, 400.0, 0.0]), np.zeros(n_samples), distance)


def _round_a_bend(n_samples: int, rng: np.random.Generator) -> _Path:
    """Into the picture from the right, and out of it there again, further away."""
    distance = _distance(n_samples, rng)
    turn = rng.uniform(1.1, 1.3) * np.pi
    heading = np.pi / 2.0 + turn * (0.5 - distance / distance[-1])
    radius = distance[-1] / turn
    place = np.column_stack([-radius * np.sin(heading), np.zeros(n_samples), radius * np.cos(heading)])
    return _Path(place + np.array([900.0, 400.0, 0.0]), heading, distance)


def _walker(path: _Path, rng: np.random.Generator) -> np.ndarray:
    """[N, joints, 3] Joints of somebody with their own build, gait and place beside the path."""
    height = 200.0 * rng.uniform(0.85, 1.15)
    stride = height * rng.uniform(0.75, 0.9)
    phase = 2.0 * np.pi * (path.distance / stride + rng.uniform())
    forward, up, left = np.moveaxis(height * _joints(phase, rng), -1, 0)
    beside = rng.uniform([-60.0, 0.0, -80.0], [60.0, 0.0, 80.0])
    cos, sin = np.cos(path.heading)[:, None], np.sin(path.heading)[:, None]
    body = np.stack([forward * cos - left * sin, -up, forward * sin + left * cos], axis=-1)
    return (path.place + beside)[:, None] + body


def _joints(phase: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[N, joints, 3] A gait as joints: forward, up and left of where the pelvis is on average, for a height of 1."""
    degrees = np.pi / 180.0
    thigh_swing, knee_bend = rng.uniform([22.0, 50.0], [30.0, 65.0]) * degrees
    arm_swing, elbow_bend, lean = rng.uniform([15.0, 10.0, 2.0], [30.0, 25.0, 6.0]) * degrees
    bob = rng.uniform(0.01, 0.02) * np.cos(2.0 * phase)
    pelvis = np.column_stack([np.zeros_like(phase), bob, np.zeros_like(phase)])
    upright, leftwards = np.array([np.sin(lean), np.cos(lean), 0.0]), np.array([0.0, 0.0, 1.0])
    shoulders, neck = pelvis + 0.29 * upright, pelvis + 0.34 * upright
    joints = {"head top": neck + 0.18 * upright, "nose": neck + np.array([0.05, 0.08, 0.0]), "neck": neck}
    for side, step, sideways in (("left", phase, leftwards), ("right", phase + np.pi, -leftwards)):
        hip, shoulder = pelvis + 0.095 * sideways, shoulders + 0.13 * sideways
        thigh = thigh_swing * np.sin(step)
        # Bent most while the leg swings forward, which is when the thigh's angle grows.
        shank = thigh - knee_bend * (0.1 + 0.9 * (0.5 + 0.5 * np.cos(step)) ** 2)
        upper_arm = -arm_swing * np.sin(step)
        forearm = upper_arm + elbow_bend * (1.5 - np.sin(step))
        knee, elbow = hip + _hanging(thigh, 0.245), shoulder + _hanging(upper_arm, 0.186)
        joints |= {f"{side} hip": hip, f"{side} knee": knee, f"{side} ankle": knee + _hanging(shank, 0.246)}
        joints |= {
            f"{side} shoulder": shoulder,
            f"{side} elbow": elbow,
            f"{side} wrist": elbow + _hanging(forearm, 0.15),
        }
    return np.stack([joints[joint] for joint in _PART_OF_JOINT], axis=1)


def _hanging(angle: np.ndarray, length: float) -> np.ndarray:
    """[N, 3] A bone that swings forward by an angle."""
    return length * np.column_stack([np.sin(angle), -np.cos(angle), np.zeros_like(angle)])
