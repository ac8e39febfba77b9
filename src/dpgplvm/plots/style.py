"""What the pictures share: axes, colours, and names that are shown where they fit and as they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from dpgplvm.summary import short

INK, FAINT, PALE = "#222222", "#8c8c8c", "#dddddd"
SHARES = "Blues"  # 0 to 1, and other amounts from nothing upwards
SCALE = "viridis"  # numbers without a natural zero

# Okabe and Ito's, which colour-blind people can tell apart; yellow is too pale on white.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
_LARGEST_FONT, _SMALLEST_FONT, _LINE = 8.0, 5.5, 1.25  # points, points, and lines a font size
_LONGEST_NAME = 28
_MOST_IN_LEGEND = 10


def canvas(ax: Any, size: tuple[float, float], space: bool = False) -> Any:
    """The axes to draw on: those given, or new ones in a figure of this size in inches."""
    if ax is None:
        import matplotlib.pyplot as plt  # here, because it settles on a way to show windows

        kind = {"projection": "3d"} if space else {}
        return plt.subplots(figsize=size, layout="constrained", subplot_kw=kind)[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"ax is a {type(ax).__name__}: give matplotlib Axes, or None for new ones")
    if hasattr(ax, "get_zlim") != space:
        wanted = 'projection="3d"' if space else "two dimensions"
        raise ValueError(f"ax has {3 - space} dimensions and this picture {2 + space}: give Axes with {wanted}")
    return ax


def colours(n: int) -> list[Any]:
    """As many colours: the seven that differ most, then the same paler, then darker, and so on."""
    found = []
    for k in range(n):
        base, turn = np.array(to_rgb(_COLOURS[k % len(_COLOURS)])), (k // len(_COLOURS)) % 3
        found.append(tuple((base, 0.5 + 0.5 * base, 0.6 * base)[turn]))
    return found


def latent_colours(n: int) -> np.ndarray:
    """One colour for each latent, which are not those of groups."""
    return colormaps[SCALE](np.linspace(0.1, 0.95, n))


def plain(name: Any, most: int = _LONGEST_NAME) -> str:
    """A user's name on one line, of at most so many characters, without anything that matplotlib would set as maths."""
    return short(str(name), most).replace("$", r"\$")


def group_names(model: Any) -> list[str]:
    """Of all groups in their order."""
    if model._group_names is None:
        return [f"group {k}" for k in range(model.n_groups_)]
    return [plain(name, 20) for name in model._group_names]


def by_group(model: Any) -> np.ndarray:
    """[D] Columns, sorted by their group."""
    return np.argsort(model.groups_, kind="stable")


def height_for(n_lines: int, least: float = 2.8, most: float = 10.0) -> float:
    """Inches in which so many names have room, if they ever do."""
    return float(np.clip(1.0 + n_lines * _LARGEST_FONT * _LINE / 72.0, least, most))


def width_for(names: Sequence[Any]) -> float:
    """Inches that the longest of these names takes at the side, if names are shown."""
    return max(len(plain(name)) for name in names) * 0.6 * _LARGEST_FONT / 72.0


def room(ax: Any, axis: str) -> float:
    """Points along an axis, with something to spare for what the layout will still take away."""
    figure = ax.get_figure(root=True)
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
    box = ax.get_window_extent()
    return 0.9 * (box.height if axis == "y" else box.width) * 72.0 / ax.figure.dpi


def name_lines(ax: Any, names: Sequence[str], what: str) -> None:
    """Names at 0, 1, ... along the y axis where they all fit; otherwise how many there are, and of what."""
    font = min(_LARGEST_FONT, room(ax, "y") / (_LINE * max(len(names), 1)))
    if font < _SMALLEST_FONT:
        ax.set_yticks([])
        ax.set_ylabel(f"{len(names)} {what}")
    else:
        ax.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=font)
        ax.tick_params(axis="y", length=0)


def number_steps(ax: Any, n: int, what: str) -> None:
    """Numbers 0 to n - 1 along the x axis, as many as fit."""
    every = int(np.ceil(n / max(room(ax, "x") / (len(str(n)) * _LARGEST_FONT), 1.0)))
    ax.set_xticks(range(0, n, every))
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel(what)


def label_blocks(ax: Any, sizes: Any, names: Sequence[str], looks: Any = None) -> None:
    """A coloured bar along the right of every block of lines, and its name where that fits; large blocks first."""
    ends = np.cumsum(sizes)
    starts, centres = ends - sizes, ends - 0.5 * np.asarray(sizes) - 0.5
    beside = blended_transform_factory(
        ax.transAxes + ScaledTranslation(6.0 / 72.0, 0.0, ax.figure.dpi_scale_trans), ax.transData
    )
    for start, end, colour in zip(starts, ends, looks or colours(len(sizes)), strict=True):
        line = Line2D([1, 1], [start - 0.5, end - 0.5], color=colour, linewidth=6, transform=beside)
        line.set(clip_on=False, solid_capstyle="butt")
        ax.add_artist(line)
    apart = _LARGEST_FONT * _LINE * ends[-1] / room(ax, "y")
    shown: list[int] = []
    for k in np.argsort(-np.asarray(sizes), kind="stable"):
        if all(abs(centres[k] - centres[other]) >= apart for other in shown):
            shown.append(int(k))
    right = ax.secondary_yaxis("right")
    right.set_yticks(centres[shown], [names[k] for k in shown], fontsize=_LARGEST_FONT)
    right.tick_params(axis="y", length=0, pad=12)
    right.spines[:].set_visible(False)


def colour_bar(ax: Any, drawn: Any, label: str) -> None:
    """What colours mean, beside the axes."""
    pad = 0.12 if hasattr(ax, "get_zlim") else 0.03  # layouts overlook the labels of axes in space
    bar = ax.figure.colorbar(drawn, ax=ax, label=label, fraction=0.05, aspect=30, pad=pad, anchor=(0.0, 1.0))
    bar.outline.set_visible(False)


def legend(ax: Any, names: Sequence[str], looks: Sequence[dict[str, Any]], **options: Any) -> None:
    """Names beside the axes, each with a look; the first few where there are many."""
    handles = [Line2D([], [], label=name, **look) for name, look in zip(names, looks, strict=True)][:_MOST_IN_LEGEND]
    if len(names) > _MOST_IN_LEGEND:
        handles.append(Line2D([], [], linestyle="none", label=f"and {len(names) - _MOST_IN_LEGEND} more"))
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False, "fontsize": _LARGEST_FONT}
    ax.legend(handles=handles, **beside | options)


def open_frame(ax: Any) -> None:
    """Only the left and the lower line of the frame."""
    ax.spines[["top", "right"]].set_visible(False)


def whole_numbers(ax: Any) -> None:
    """No fractions along the x axis."""
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def few_numbers(ax: Any) -> None:
    """Few enough along the axes of a space, which are seen at an angle, that none lies on another."""
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        axis.set_major_locator(MaxNLocator(4))


def which_latents(model: Any, latents: Sequence[int], allowed: Sequence[int]) -> list[int]:
    """The latents asked for, or a sentence."""
    asked: list[Any] = [latents] if np.isscalar(latents) else list(latents)
    if len(asked) not in allowed or len(set(asked)) < len(asked):
        raise ValueError(f"latents={latents!r}: give {' or '.join(map(str, allowed))} different numbers")
    for q in asked:
        if not isinstance(q, int | np.integer) or not 0 <= q < model.n_latents_:
            raise ValueError(
                f"latents={latents!r} names latent {q!r}, but the model has {model.n_latents_}: "
                f"give numbers from 0 to {model.n_latents_ - 1}"
            )
    return [int(q) for q in asked]
