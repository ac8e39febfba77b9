"""The picture of the structure suite: how well every run agrees with the known groups."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")  # a file, never a window

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from structure_methods import RIGHT
from structure_report import ROWS, Record, Row, answering
from structure_sets import REAL, SIMULATED

_LANE_INCHES = 0.125
_LOWEST = -0.15


def draw(records: list[Record], file: str) -> None:
    """Simulated sets on the left, real ones on the right; a dot for every run, the mean in figures beside it."""
    answered = {record["set"] for record in records if "answers" in record}
    columns = {
        "simulated": [name for name in SIMULATED if name in answered],
        "real": [name for name in REAL if name in answered],
    }
    columns = {title: names for title, names in columns.items() if names}
    rows = [row for row in ROWS if answering(records, row)]
    if not columns:
        return
    height = 1.3 + _LANE_INCHES * (len(rows) + 1) * max(map(len, columns.values()))
    figure, panels = plt.subplots(
        1, len(columns), figsize=(6.2 * len(columns), height), squeeze=False, layout="constrained"
    )
    for axes, (title, names) in zip(panels[0], columns.items(), strict=True):
        _draw_sets(axes, records, names, rows)
        axes.set_title(title, fontsize=11)
    handles = [plt.Line2D([], [], linestyle="", marker=row.marker, color=row.colour, label=row.title) for row in rows]
    figure.legend(handles=handles, loc="outside upper center", ncols=4 if len(columns) > 1 else 2, frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _draw_sets(axes: Axes, records: list[Record], names: Sequence[str], rows: Sequence[Row]) -> None:
    """A band for every set, and in it a lane for every answer."""
    lanes = (np.arange(len(rows)) + 1.0) / (len(rows) + 1) - 0.5
    for i, name in enumerate(names):
        axes.axhspan(i - 0.5, i + 0.5, color="0.94" if i % 2 else "white", linewidth=0)
        for row, lane in zip(rows, lanes, strict=True):
            own = answering((record for record in records if record["set"] == name), row)
            if own:
                _draw_lane(axes, np.array([one["answers"][row.answer]["ari"] for one in own]), i + lane, row)
    axes.axvline(RIGHT, color="0.55", linewidth=0.8, linestyle=":", zorder=1)
    axes.set(xlim=(_LOWEST, 1.13), ylim=(len(names) - 0.5, -0.5), xlabel="adjusted Rand index, and its mean over runs")
    axes.set_xticks(np.linspace(0.0, 1.0, 6))
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_lane(axes: Axes, values: np.ndarray, height: float, row: Row) -> None:
    # Many runs end at exactly 1: spread a little, they show how many.
    spread = np.random.default_rng(0).uniform(-0.025, 0.025, size=len(values)) if len(values) > 1 else 0.0
    # Below chance is below chance: how far is of no interest, and the axis stays the same in every picture.
    at = np.maximum(values, _LOWEST + 0.03)
    line = 1.0 if row.marker == "x" else 0.0
    axes.scatter(at, height + spread, s=16, color=row.colour, marker=row.marker, alpha=0.6, zorder=3, linewidths=line)
    axes.text(1.125, height, f"{values.mean():.2f}", color=row.colour, fontsize=7, ha="right", va="center")
