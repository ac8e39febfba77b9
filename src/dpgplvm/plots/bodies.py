"""Groups and latents on a body: joints, bones and paths, and the poses that latents stand for."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap
from matplotlib.path import Path
from sklearn.utils.validation import check_is_fitted

from dpgplvm.plots.style import (
    FAINT,
    PALE,
    canvas,
    colour_bar,
    colours,
    group_names,
    legend,
    open_frame,
    room,
    which_latents,
)
from dpgplvm.skeleton import Skeleton, check_skeleton

_SMALLEST_JOINT, _LARGEST_JOINT = 3.5, 9.0  # points across
_DASH = 8.0  # points
_STRENGTHS = ListedColormap(colormaps["viridis_r"](np.linspace(0.1, 1.0, 256)))  # each stands out against white
_PALEST = 0.2  # opacity of a pose of which the model knows nothing


def skeleton(
    model: Any,
    skeleton: Skeleton,
    *,
    row: int | None = None,
    span: int | None = None,
    latent: int | None = None,
    ax: Any = None,
) -> Any:
    """A body in one row, its joints in the colours of their groups, and the paths that they take over the rows.

    A joint whose columns are in different groups is divided like a clock: x comes first from twelve o'clock on
    anticlockwise, then y, then z. Its path has the colours in turn. Gaps are filled.

    Parameters
    ----------
    model : fitted model
    skeleton : Skeleton
    row : int or None
        Which row; None takes the one in the middle.
    span : int or None
        How many rows before it and after it paths are drawn for; None: all.
    latent : int or None
        Colour joints by how much they listen to this latent (`relevance_`), rather than by their groups.
    ax : Axes or None
        Bodies in space are drawn in it with projection="3d", and as seen from the side on others. None makes a figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from dpgplvm import MRD, Skeleton, plots
    >>> from dpgplvm.datasets import make_walkers
    >>> import pandas as pd
    >>> video = make_walkers(n_samples=40, n_people=1, random_state=0)
    >>> table = pd.DataFrame(video.Y, columns=video.names)
    >>> model = MRD(views=video.part, n_latents=3, n_inducing=10, max_iter=20, random_state=0).fit(table)
    >>> ax = plots.skeleton(model, Skeleton.from_names(video.names, video.bones, up="-y"))
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['head', 'trunk', 'arms', 'legs']
    """
    check_is_fitted(model)
    check_skeleton(skeleton)
    positions = _upright(skeleton, _table(model), model._names)
    n_axes, now = positions.shape[-1], _row(len(positions), row)
    in_space = n_axes == 3 and hasattr(ax, "get_zlim")
    if n_axes == 3 and not in_space:
        positions = _from_the_side(positions)
    body = positions[now]
    paths = positions if span is None else positions[max(now - span, 0) : now + span + 1]
    wide, high = np.maximum(np.ptp(paths, axis=(0, 1))[[0, -1]], 1e-9)
    ax = canvas(ax, (8.0, float(np.clip(7.0 * high / wide, 3.0, 7.0))), space=in_space)
    columns = skeleton.columns(model._names)
    if latent is None:
        palette = colours(model.n_groups_)
        looks = [[palette[k] for k in model.groups_[own]] for own in columns]
    else:
        (q,) = which_latents(model, [latent], (1,))
        looks = [[_STRENGTHS(model.relevance_[own, q].mean())] * n_axes for own in columns]
    for j, look in enumerate(looks):
        distinct = list(dict.fromkeys(look))
        for part, colour in enumerate(distinct):
            dash = (_DASH * part, (_DASH, _DASH * (len(distinct) - 1))) if len(distinct) > 1 else "solid"
            ax.plot(*paths[:, j].T, color=colour, linestyle=dash, linewidth=1.0, alpha=0.5, zorder=1)
    for one, other in _ends(skeleton):
        ax.plot(*body[[one, other]].T, color=FAINT, linewidth=1.5, zorder=2, solid_capstyle="round")
    scale = min(room(ax, "x") / wide, room(ax, "y") / high)
    _joints(ax, body, looks, scale * np.ptp(body[:, -1]) / 16.0)
    if latent is None:
        _legend_of_groups(model, ax, columns)
    else:
        colour_bar(ax, ScalarMappable(cmap=_STRENGTHS), f"relevance of latent {latent}")
    if in_space:
        ax.set_aspect("equal")
        ax.computed_zorder = False  # joints above bones above paths
    else:
        ax.set_aspect("equal", adjustable="datalim")
    ax.set_axis_off()
    return ax


def poses(
    model: Any,
    skeleton: Skeleton,
    *,
    latents: Sequence[int] | None = None,
    steps: int = 5,
    ax: Any = None,
) -> Any:
    """The poses that the model predicts over two latents, the others being where rows are on average.

    Every pose is drawn round its own middle, at the latents that it stands for. It is the paler, the less the model
    knows about it. Bodies in space are seen from the side. Joints have the colours of their groups, and dots are rows.

    Parameters
    ----------
    model : fitted model
    skeleton : Skeleton
    latents : one or two numbers, or None
        As in `latents_`; None takes the first two, or the one that there is.
    steps : int
        Poses along each latent.
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    check_skeleton(skeleton)
    shown = which_latents(model, range(min(2, model.n_latents_)) if latents is None else latents, (1, 2))
    if not isinstance(steps, Integral) or steps < 1:
        raise ValueError(f"steps={steps!r}: give a whole number from 1 on")
    columns = skeleton.columns(model._names)
    ax = canvas(ax, (7.5, 6.5 if len(shown) == 2 else 2.6))
    low, high = model.latents_[model._seen][:, shown].min(axis=0), model.latents_[model._seen][:, shown].max(axis=0)
    sides = [np.linspace(a, b, steps) if steps > 1 else np.array([(a + b) / 2]) for a, b in zip(low, high, strict=True)]
    places = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, len(shown))
    X = np.repeat(model.latents_.mean(axis=0, keepdims=True), len(places), axis=0)
    X[:, shown] = places
    mean, std = (np.asarray(part) for part in model.predict(X, return_std=True))
    unknown = np.mean(((std / model._scaling.scale) ** 2)[:, columns.ravel()], axis=1)
    opacity = np.clip(1.0 - unknown, _PALEST, 1.0)
    bodies = _centred(_upright(skeleton, mean, model._names))
    bodies = _from_the_side(bodies) if bodies.shape[-1] == 3 else bodies
    cell = np.ones(2)
    cell[: len(shown)] = np.maximum(high - low, 1e-6) / max(steps - 1, 1)
    # One scale for both directions on paper: the axes are `cell` wide and high for equal lengths.
    size = 0.8 / max(np.ptp(bodies, axis=(0, 1)).max(), 1e-9)
    middles = np.column_stack([places, np.zeros((len(places), 2 - len(shown)))])
    drawn = middles[:, None] + size * bodies * cell
    ax.plot(*_in_plane(model.latents_[model._seen][:, shown]).T, ".", color=PALE, markersize=3, zorder=0)
    palette = colours(model.n_groups_)
    ends = _ends(skeleton)
    for pose, strength in zip(drawn, opacity, strict=True):
        ax.add_collection(LineCollection(pose[ends], colors=FAINT, linewidths=1.4, alpha=strength, zorder=1))
        for axis, own in enumerate(columns.T):
            wedge = _wedge(axis, columns.shape[1])
            dots = [palette[k] for k in model.groups_[own]]
            ax.scatter(*pose.T, c=dots, marker=wedge, s=_SMALLEST_JOINT**2, alpha=strength, linewidths=0, zorder=2)
    ax.update_datalim([middles.min(axis=0) - 0.5 * cell, middles.max(axis=0) + 0.5 * cell])
    ax.autoscale_view()
    ax.set_aspect(cell[0] / cell[1], adjustable="datalim")
    ax.set_xlabel(f"latent {shown[0]}")
    if len(shown) == 2:
        ax.set_ylabel(f"latent {shown[1]}")
    else:
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    _legend_of_groups(model, ax, columns)
    open_frame(ax)
    return ax


def _table(model: Any) -> np.ndarray:
    """What the model was fitted to, gaps filled."""
    _, table = model._rows(None)
    return np.asarray(model.impute()) if np.isnan(table).any() else table


def _upright(skeleton: Skeleton, table: np.ndarray, names: Sequence[str]) -> np.ndarray:
    return skeleton.positions(table, names) @ skeleton.turning.T


def _row(n_rows: int, row: int | None) -> int:
    if row is None:
        return n_rows // 2
    if not isinstance(row, Integral) or not -n_rows <= row < n_rows:
        raise ValueError(f"row={row!r} is not in the table of {n_rows} rows: give the position of one")
    return int(row)


def _ends(skeleton: Skeleton) -> np.ndarray:
    """[bones, 2] Positions of the joints at both ends."""
    number = {joint: j for j, joint in enumerate(skeleton.joints)}
    return np.array([[number[one], number[other]] for one, other in skeleton.bones], dtype=int).reshape(-1, 2)


def _wedge(part: int, n_parts: int) -> Path:
    """One of the equal parts of a disc, as a marker."""
    angles = np.pi / 2 + 2 * np.pi * np.linspace(part, part + 1, 31) / n_parts
    return Path(np.vstack([[0.0, 0.0], np.column_stack([np.cos(angles), np.sin(angles)]), [0.0, 0.0]]))


def _joints(ax: Any, places: np.ndarray, looks: list[list[Any]], across: float) -> None:
    """Discs of this many points, within reason, each in the colours of its columns."""
    size = np.clip(across, _SMALLEST_JOINT, _LARGEST_JOINT) ** 2
    space = {"depthshade": False} if places.shape[1] == 3 else {}
    ax.scatter(*places.T, s=1.5 * size, color="white", linewidths=0, zorder=3, **space)
    for axis, own in enumerate(zip(*looks, strict=True)):
        wedge = _wedge(axis, len(looks[0]))
        ax.scatter(*places.T, s=size, c=list(own), marker=wedge, linewidths=0, zorder=4, **space)


def _legend_of_groups(model: Any, ax: Any, columns: np.ndarray) -> None:
    palette, names = colours(model.n_groups_), group_names(model)
    there = np.unique(model.groups_[columns])
    dots = [{"marker": "o", "linestyle": "none", "color": palette[k], "markersize": 7} for k in there]
    divided = (model.groups_[columns] != model.groups_[columns][:, :1]).any()
    halves = "left half: x\nright half: y" if columns.shape[1] == 2 else "upper left third: x\nbelow: y\nupper right: z"
    legend(ax, [names[k] for k in there], dots, title=halves if divided else None, title_fontsize=8)


def _from_the_side(places: np.ndarray) -> np.ndarray:
    """[S, joints, 2] Places in space [S, joints, 3] as seen from where they spread most, the side of most bodies."""
    flat = places[..., :2].reshape(-1, 2)
    along = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)[2][0]
    return np.stack([places[..., :2] @ along, places[..., 2]], axis=-1)


def _centred(bodies: np.ndarray) -> np.ndarray:
    """Every body round its own middle."""
    return bodies - (bodies.min(axis=1, keepdims=True) + bodies.max(axis=1, keepdims=True)) / 2.0


def _in_plane(latents: np.ndarray) -> np.ndarray:
    return np.column_stack([latents, np.zeros((len(latents), 2 - latents.shape[1]))])
