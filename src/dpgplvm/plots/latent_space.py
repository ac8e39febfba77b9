"""Rows among the latents, and where the model knows what to expect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.collections import EllipseCollection, LineCollection
from mpl_toolkits.mplot3d.art3d import Line3DCollection
from sklearn.utils.validation import check_is_fitted

from dpgplvm.arguments import one_for_every_row
from dpgplvm.plots.style import (
    FAINT,
    INK,
    PALE,
    SCALE,
    canvas,
    colour_bar,
    colours,
    few_numbers,
    legend,
    open_frame,
    plain,
    which_latents,
    whole_numbers,
)

_GRID = 40  # places along each side of the background
_MOST_WITH_SPREAD = 1500  # rows; with more, their own uncertainty would only be a blur
_MOST_KINDS = 10


def latents(
    model: Any, *, latents: Sequence[int] | None = None, colour: Any = None, sequence: Any = None, ax: Any = None
) -> Any:
    """Rows among two or three latents, or along one, with how uncertain their places are (one standard deviation).

    With two latents the background shows how uncertain predictions are, the other latents being where rows are on
    average: the root mean square over columns of the standard deviation, in units of each column's own. Rows in which
    nothing was observed are left out.

    Parameters
    ----------
    model : fitted model
    latents : one, two or three numbers, or None
        As in `latents_`; None takes the first two, or the one that there is.
    colour : one value for every row, or None
        Numbers are shown on a scale, with the name that a Series has; text, and up to ten different whole numbers,
        with a legend.
    sequence : True, one label for every row, or None
        Rows that follow each other are joined: True for all of them, labels for several sequences. A ring marks where
        one begins.
    ax : Axes or None
        With projection="3d" for three latents. None makes a figure.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from dpgplvm import BayesianGPLVM, plots
    >>> from dpgplvm.datasets import make_views
    >>> Y = make_views(n_samples=30, columns=3, random_state=0).Y
    >>> model = BayesianGPLVM(n_latents=2, n_inducing=10, random_state=0).fit(Y)
    >>> ax = plots.latents(model, colour=Y[:, 0], sequence=True)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('latent 0', 'latent 1')
    """
    check_is_fitted(model)
    shown = which_latents(model, range(min(2, model.n_latents_)) if latents is None else latents, (1, 2, 3))
    ax = canvas(ax, (6.4, 4.8), space=len(shown) == 3)
    seen = np.flatnonzero(model._seen)
    places, spread = model.latents_[seen][:, shown], np.sqrt(model.latent_variance_[seen][:, shown])
    if len(shown) == 1:
        places, spread = np.column_stack([seen, places]), np.column_stack([np.zeros(len(seen)), spread])
    if len(shown) == 2:
        _background(model, ax, shown, places)
    if len(seen) <= _MOST_WITH_SPREAD:
        _spread(ax, places, spread)
    values = _one_a_row("colour", colour, model)
    paths = _paths(_one_a_row("sequence", sequence, model), seen)
    for path in paths:
        ax.plot(*places[path].T, color=FAINT, linewidth=0.8, zorder=2)
        ax.plot(*places[path[:1]].T, "o", markersize=9, markerfacecolor="none", markeredgecolor=INK, zorder=4)
    _rows(ax, places, None if values is None else values[seen], plain(getattr(colour, "name", None) or ""))
    names = ["row" if len(shown) == 1 else "", *(f"latent {q}" for q in shown)][-max(len(shown), 2) :]
    for axis, name in zip("xyz", names, strict=False):
        getattr(ax, f"set_{axis}label")(name, labelpad=14.0 if len(shown) == 3 else None)
    if len(shown) < 3:
        open_frame(ax)
    else:
        few_numbers(ax)
    if len(shown) == 1:
        whole_numbers(ax)
    return ax


def _background(model: Any, ax: Any, shown: list[int], places: np.ndarray) -> None:
    low, high = places.min(axis=0), places.max(axis=0)
    margin = 0.12 * np.maximum(high - low, 1e-6)
    sides = [np.linspace(a, b, _GRID) for a, b in zip(low - margin, high + margin, strict=True)]
    X = np.repeat(model.latents_.mean(axis=0, keepdims=True), _GRID**2, axis=0)
    X[:, shown] = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    _, std = model.predict(X, return_std=True)
    uncertain = np.sqrt(np.mean((np.asarray(std) / model._scaling.scale) ** 2, axis=1)).reshape(_GRID, _GRID)
    most = max(1.0, uncertain.max())  # 1: no more is known than the column's own mean and spread
    image = ax.imshow(
        uncertain,
        extent=(sides[0][0], sides[0][-1], sides[1][0], sides[1][-1]),
        origin="lower",
        aspect="auto",
        interpolation="bilinear",
        cmap="Greys",
        vmin=0.0,
        vmax=2.0 * most,  # so that dots stand out against the darkest
        zorder=0,
    )
    colour_bar(ax, image, "uncertainty of a prediction")
    image.colorbar.ax.set_ylim(0.0, most)


def _spread(ax: Any, places: np.ndarray, spread: np.ndarray) -> None:
    """One standard deviation round every row."""
    if places.shape[1] == 3:
        along = spread[:, None, :] * np.eye(3)
        ends = np.stack([places[:, None] - along, places[:, None] + along], axis=2)
        ax.computed_zorder = False  # dots above paths above spreads
        ax.add_collection3d(Line3DCollection(ends.reshape(-1, 2, 3), colors=PALE, linewidths=0.8, zorder=1))
    elif not spread[:, 0].any():
        ends = np.stack([places - spread, places + spread], axis=1)
        ax.add_collection(LineCollection(list(ends), colors=PALE, linewidths=2.0))
        ax.autoscale_view()
    else:
        round_rows = EllipseCollection(
            2.0 * spread[:, 0],
            2.0 * spread[:, 1],
            np.zeros(len(places)),
            units="xy",
            offsets=places,
            offset_transform=ax.transData,
        )
        round_rows.set(facecolor=(1, 1, 1, 0.15), edgecolor=FAINT, linewidth=0.4, zorder=1)
        ax.add_collection(round_rows)


def _rows(ax: Any, places: np.ndarray, values: np.ndarray | None, name: str) -> None:
    look = {"s": 16, "linewidths": 0.3, "edgecolors": "white", "zorder": 3, "depthshade": False}
    if places.shape[1] < 3:
        del look["depthshade"]
    if values is None:
        ax.scatter(*places.T, color=colours(1), **look)
        return
    kinds = np.unique(values)
    if values.dtype.kind == "f" or (values.dtype.kind in "iu" and len(kinds) > _MOST_KINDS):
        dots = ax.scatter(*places.T, c=values, cmap=SCALE, **look)
        colour_bar(ax, dots, name)
        return
    palette = colours(len(kinds))
    for kind, own in zip(kinds, palette, strict=True):
        ax.scatter(*places[values == kind].T, color=own, **look)
    dots = [{"marker": "o", "linestyle": "none", "color": own} for own in palette]
    legend(ax, [plain(kind) for kind in kinds], dots)


def _one_a_row(name: str, given: Any, model: Any) -> np.ndarray | None:
    n_rows = len(model.latents_)
    if given is None or given is False:
        return None
    if given is True:
        return np.zeros(n_rows, dtype=int)
    return one_for_every_row(given, name, n_rows)


def _paths(labels: np.ndarray | None, seen: np.ndarray) -> list[np.ndarray]:
    """For every sequence the positions in `seen` of its rows."""
    if labels is None:
        return []
    return [np.flatnonzero(labels[seen] == label) for label in np.unique(labels[seen])]
