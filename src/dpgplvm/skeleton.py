"""Bodies: which columns of a table are the coordinates of which joint, and which joints are connected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from dpgplvm.sentences import listed, plural, them

Column: TypeAlias = str | int  # a column's name, or its position

_ENDS_IN_AXIS = re.compile(r"(?P<joint>.*\S)[ _.\-](?P<axis>[xyz])", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Skeleton:
    """Joints, each a point in the plane or in space, and the bones between them.

    Parameters
    ----------
    joints : dict of name to columns
        For every joint its x and y columns, or its x, y and z columns: names or positions. All joints have two, or all
        have three.
    bones : sequence of pairs of joints
    up : {"x", "y", "z", "-x", "-y", "-z"}
        The axis that points upwards; "-y" where y grows downwards, as in images.

    Raises
    ------
    ValueError
        Where joints, bones and `up` do not fit together, in one sentence.

    Examples
    --------
    >>> from dpgplvm import Skeleton
    >>> arm = Skeleton({"elbow": ("elbow_x", "elbow_y"), "wrist": ("wrist_x", "wrist_y")}, [("elbow", "wrist")])
    >>> arm.positions([[0.0, 1.0, 2.0, 3.0]], ["elbow_x", "elbow_y", "wrist_x", "wrist_y"]).tolist()
    [[[0.0, 1.0], [2.0, 3.0]]]
    >>> Skeleton.from_names(["elbow_x", "elbow_y", "speed", "wrist_x", "wrist_y"], [("elbow", "wrist")]) == arm
    True
    """

    joints: Mapping[str, tuple[Column, ...]]
    bones: Sequence[tuple[str, str]] = field(default_factory=list)
    up: str = "y"

    def __post_init__(self) -> None:
        object.__setattr__(self, "joints", {joint: _columns(joint, own) for joint, own in dict(self.joints).items()})
        object.__setattr__(self, "bones", [_pair(bone) for bone in self.bones])
        self._check()

    @classmethod
    def from_names(cls, columns: Iterable[Any], bones: Iterable[tuple[str, str]] = (), up: str = "y") -> Skeleton:
        """The joints that columns' names speak of: "left knee x", "left_knee_y" or "left.knee.Z" is a joint's axis.

        Joints have three axes where any has, and others two; columns that are no whole joint's are left out.

        Parameters
        ----------
        columns : names of columns, as in `model.feature_names_in_`
        bones, up
            As for the class.
        """
        found: dict[str, dict[str, str]] = {}
        for name in map(str, columns):
            match = _ENDS_IN_AXIS.fullmatch(name)
            if match:
                found.setdefault(match["joint"], {})[match["axis"].lower()] = name
        axes = "xyz" if any(len(own) == 3 for own in found.values()) else "xy"
        joints = {joint: tuple(own[a] for a in axes) for joint, own in found.items() if own.keys() >= set(axes)}
        if not joints:
            raise ValueError(
                "columns have no names that end in an axis, such as 'left knee x' and 'left knee y': "
                "name them so, or give Skeleton the columns of every joint"
            )
        return cls(joints, list(bones), up)

    @property
    def n_axes(self) -> int:
        """2 in the plane, 3 in space."""
        return len(next(iter(self.joints.values())))

    def columns(self, names: Sequence[Any]) -> np.ndarray:
        """[joints, 2 or 3] Positions of the joints' columns in a table with these names."""
        position = {str(name): d for d, name in enumerate(names)}

        def find(column: Column) -> int:
            if isinstance(column, str):
                return position.get(column, -1)
            return column if 0 <= column < len(names) else -1

        places = [[find(column) for column in own] for own in self.joints.values()]
        unknown = [str(c) for own in self.joints.values() for c in own if find(c) < 0]
        if unknown:
            raise ValueError(
                f"skeleton has {plural(unknown, 'column')} {listed(unknown)}, which the table of {len(names)} columns "
                f"does not have: leave {them(unknown)} out, or name columns that it has"
            )
        return np.array(places)

    def positions(self, table: Any, names: Sequence[Any]) -> np.ndarray:
        """[S, joints, 2 or 3] The joints of every row of a table [S, D] with columns of these names."""
        values = np.asarray(table, dtype=float)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise ValueError(f"table has shape {values.shape}: give rows of {len(names)} columns, one for each name")
        return values[:, self.columns(names)]

    @property
    def turning(self) -> np.ndarray:
        """[axes, axes] The matrix that turns positions so that they stand: `positions @ turning.T` is right and up in
        the plane (mirrored where y grows downwards), and two horizontal axes and up in space (never mirrored)."""
        vertical = "xyz".index(self.up[-1])
        horizontal = [(vertical + step) % self.n_axes for step in range(1, self.n_axes)]
        sign = -1.0 if self.up.startswith("-") else 1.0
        if sign < 0.0:
            horizontal.reverse()
        turning = np.eye(self.n_axes)[[*horizontal, vertical]]
        turning[-1] *= sign
        return turning

    def _check(self) -> None:
        if not self.joints:
            raise ValueError("joints is empty: give every joint its columns")
        sizes = {joint: len(own) for joint, own in self.joints.items()}
        wrong = [joint for joint, size in sizes.items() if size not in (2, 3)]
        if wrong:
            raise ValueError(f"joints: {wrong[0]!r} has {sizes[wrong[0]]} columns: give x and y, or x, y and z")
        if len(set(sizes.values())) > 1:
            flat, deep = (next(joint for joint, size in sizes.items() if size == n) for n in (2, 3))
            raise ValueError(f"joints: {flat!r} has 2 columns and {deep!r} has 3: give all joints as many")
        unknown = [end for bone in self.bones for end in bone if end not in self.joints]
        if unknown:
            raise ValueError(
                f"bones name {plural(unknown, 'joint')} {listed(unknown)}, which the skeleton does not have: "
                f"its joints are {listed(list(self.joints))}"
            )
        axes = "xyz"[: self.n_axes]
        if self.up not in [*axes, *(f"-{axis}" for axis in axes)]:
            raise ValueError(
                f"up={self.up!r} is no axis of joints with {self.n_axes} columns: "
                f"give one of {', '.join(axes)}, with a minus where it grows downwards"
            )


def check_skeleton(given: Any) -> None:
    """Refuse what is no skeleton."""
    if not isinstance(given, Skeleton):
        raise TypeError(
            f"skeleton is a {type(given).__name__}: give a dpgplvm.Skeleton, such as Skeleton.from_names makes"
        )


def _columns(joint: str, own: Any) -> tuple[Column, ...]:
    given = [own] if isinstance(own, str | Integral) else list(own)
    for column in given:
        if not isinstance(column, str | Integral) or isinstance(column, bool):
            raise ValueError(f"joints: {joint!r} has a column {column!r}: give a name or a position")
    return tuple(column if isinstance(column, str) else int(column) for column in given)


def _pair(bone: Any) -> tuple[str, str]:
    ends = () if isinstance(bone, str) else tuple(bone)
    if len(ends) != 2:
        raise ValueError(f"bones: {bone!r} is no pair: give two joints for every bone")
    return ends
