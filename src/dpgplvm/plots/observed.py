"""One column: what was observed beside what the model expects."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpgplvm.plots.style import FAINT, INK, PALE, canvas, colours, open_frame, plain, whole_numbers

_IN_95_PERCENT = 1.96  # standard deviations of a Gaussian
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "ncols": 3, "borderaxespad": 0.2}


def predicted(model: Any, column: str | int, *, ax: Any = None) -> Any:
    """What is predicted of a column for the rows of the fit, against what was observed, with 95 % intervals.

    The predictions are from the rows' latents, which have seen the column: this shows how well the model describes, not
    how well it generalises.

    Parameters
    ----------
    model : fitted model
    column : str or int
        Its name, or its position.
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    d = _position(model, column)
    ax = canvas(ax, (4.8, 4.8))
    _, table = model._rows(None)
    rows = np.flatnonzero(~np.isnan(table[:, d]))
    mean, std = (
        np.asarray(part)[:, d]
        for part in model.predict(model.latents_[rows], variance=model.latent_variance_[rows], return_std=True)
    )
    seen, reach = table[rows, d], _IN_95_PERCENT * std
    blue = colours(1)[0]
    held = np.mean(np.abs(seen - mean) <= reach)
    ax.vlines(seen, mean - reach, mean + reach, color=blue, alpha=0.25, linewidth=1.0, label="95 % interval")
    ax.plot(seen, mean, ".", color=blue, markersize=5, label="predicted")
    ends = [min(seen.min(), mean.min()), max(seen.max(), mean.max())]
    ax.plot(ends, ends, color=INK, linewidth=0.8, zorder=1, label="as observed")
    name = plain(model._names[d])
    ax.set(xlabel=f"{name}, observed", ylabel=f"{name}, predicted")
    ax.legend(
        frameon=False, fontsize=8, title=f"intervals hold {held:.0%}", title_fontsize=8, alignment="left", **_ABOVE
    )
    open_frame(ax)
    return ax


def gaps(model: Any, column: str | int, Y: Any = None, *, ax: Any = None) -> Any:
    """A column over the rows, with its gaps filled by what is expected there and 95 % intervals.

    Parameters
    ----------
    model : fitted model
    column : str or int
        Its name, or its position.
    Y : array or DataFrame [S, D], or None
        Rows, new or not; None: the table that the model was fitted to.
    ax : Axes or None
        None makes a figure.

    Returns
    -------
    Axes
    """
    check_is_fitted(model)
    d = _position(model, column)
    ax = canvas(ax, (8.0, 3.6))
    _, table = model._rows(Y)
    values, rows = table[:, d], np.arange(len(table))
    gap = np.isnan(values)
    _, orange = colours(2)
    ax.plot(rows, values, color=PALE, linewidth=1.2, zorder=1)
    ax.plot(rows[~gap], values[~gap], ".", color=FAINT, markersize=4, label="observed")
    if gap.any():
        low, middle, high = (np.asarray(one)[:, d] for one in model.impute_quantiles(model._table(table[gap])))
        ax.vlines(rows[gap], low, high, color=orange, alpha=0.4, linewidth=2.0, label="95 % interval")
        ax.plot(rows[gap], middle, "o", color=orange, markersize=4, label=f"filled ({gap.sum()} gaps)")
    ax.set(xlabel="row", ylabel=plain(model._names[d]), xlim=(-0.5, len(rows) - 0.5))
    whole_numbers(ax)
    ax.legend(frameon=False, fontsize=8, **_ABOVE)
    open_frame(ax)
    return ax


def _position(model: Any, column: Any) -> int:
    names = list(model._names)
    if isinstance(column, str) and column in names:
        return names.index(column)
    if isinstance(column, Integral) and 0 <= int(column) < len(names):
        return int(column)
    raise ValueError(
        f"column={column!r} is not in the table of {len(names)} columns: give the name or the position of one"
    )
