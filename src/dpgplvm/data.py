"""Tables in: what a user brings becomes a float matrix with named columns, or one sentence that says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Scaling:
    """Column means and standard deviations, to go between the user's units and the model's."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, Y: np.ndarray, standardise: bool) -> Scaling:
        if standardise:
            return cls(Y.mean(axis=0), Y.std(axis=0))
        return cls(np.zeros(Y.shape[1]), np.ones(Y.shape[1]))

    def to_model(self, Y: np.ndarray) -> np.ndarray:
        return (Y - self.mean) / self.scale


def refuse_text_columns(table: Any) -> None:
    """Name the columns of a DataFrame that are not numbers, before anything tries to convert them."""
    dtypes = getattr(table, "dtypes", None)
    if dtypes is None or not hasattr(table, "columns"):
        return
    kinds = zip(table.columns, dtypes, strict=True)
    text = [str(name) for name, dtype in kinds if str(dtype).lower() in _TEXT_TYPES]
    if text:
        raise ValueError(
            f"Y has {_plural(text, 'column')} that hold text or categories, not numbers "
            f"({_listed(text)}): drop them or encode them as numbers"
        )


_TEXT_TYPES = {"object", "string", "str", "category", "categorical", "datetime64[ns]", "date", "datetime"}


def check_values(Y: np.ndarray, names: list[str]) -> None:
    """Refuse what the model cannot learn from: gaps, for now, and columns that do not vary."""
    missing = np.isnan(Y)
    if missing.any():
        columns = [names[d] for d in np.flatnonzero(missing.any(axis=0))]
        raise ValueError(
            f"Input Y contains NaN, in {_plural(columns, 'column')} ({_listed(columns)}): "
            "gaps are not supported yet, so fill them or drop their rows"
        )
    # Relative to the column's size: a large constant with rounding noise is still a constant.
    constant = Y.std(axis=0) <= 1e-12 * np.maximum(np.abs(Y).max(axis=0), 1e-300)
    if constant.any():
        columns = [names[d] for d in np.flatnonzero(constant)]
        verb = "is" if len(columns) == 1 else "are"
        raise ValueError(f"{_plural(columns, 'column')} {_listed(columns)} {verb} constant: drop {_them(columns)}")


def check_start(start: Any, n_rows: int, n_latents: int, n_groups: int) -> None:
    """Refuse a start that was made for another table or another model."""
    n_own, q_own = start.latents["mean"].shape
    came = (n_own, q_own, start.inducing.shape[1], len(start.log_noise_precision))
    if came != (n_rows, n_latents, n_latents, n_groups):
        raise ValueError(
            f"start is for {n_own} rows, {q_own} latents (inducing points in {start.inducing.shape[1]}) and "
            f"{came[-1]} group(s), but the fit has {n_rows} rows, {n_latents} latents and {n_groups} group(s): "
            "make it for these, or change n_latents and the groups"
        )


def column_names(n_columns: int, feature_names: np.ndarray | None) -> list[str]:
    """The user's names, or `column 0`, `column 1`, ..."""
    if feature_names is not None:
        return [str(name) for name in feature_names]
    return [f"column {d}" for d in range(n_columns)]


def view_labels(views: Any, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """One view number for every column, and the views' names in that order.

    `views` is one label for every column, a dict from a view's name to its columns (names or positions), or "columns"
    for a view of its own for every column.
    """
    n_columns = len(names)
    if isinstance(views, str):
        if views == "columns":
            return np.arange(n_columns), names
        raise ValueError(f'views is {views!r}: give one label a column, a dict of name to columns, or "columns"')
    if isinstance(views, dict):
        return _labels_from_dict(views, names)
    labels = np.asarray(views)
    if labels.shape != (n_columns,):
        raise ValueError(
            f"views has {labels.size} labels in {labels.ndim} dimension(s), but Y has {n_columns} columns: "
            "give one label for every column"
        )
    found, numbers = np.unique(labels, return_inverse=True)
    return numbers, [str(label) for label in found]


def _labels_from_dict(views: dict[str, Any], names: list[str]) -> tuple[np.ndarray, list[str]]:
    position = {name: d for d, name in enumerate(names)}
    labels = np.full(len(names), -1)
    for number, (view, members) in enumerate(views.items()):
        members = [members] if isinstance(members, str | int) else list(members)
        if not members:
            raise ValueError(f"views: view {view!r} has no columns: leave it out or give it some")
        for member in members:
            if isinstance(member, str):
                d = position.get(member, -1)
            else:
                d = int(member) if 0 <= int(member) < len(names) else -1
            if d < 0:
                raise ValueError(f"views: view {view!r} names column {member!r}, which Y does not have")
            if labels[d] >= 0:
                raise ValueError(f"views: column {names[d]!r} is in more than one view: leave it in one")
            labels[d] = number
    left_out = [names[d] for d in np.flatnonzero(labels < 0)]
    if left_out:
        raise ValueError(
            f"views leave out {_plural(left_out, 'column')} ({_listed(left_out)}): "
            f"put {_them(left_out)} in a view, or drop {_them(left_out)} from Y"
        )
    return labels, [str(view) for view in views]


def _plural(items: list[str], word: str) -> str:
    return word if len(items) == 1 else f"{len(items)} {word}s"


def _them(items: list[str]) -> str:
    return "it" if len(items) == 1 else "them"


def _listed(items: list[str], at_most: int = 5) -> str:
    shown = ", ".join(repr(item) for item in items[:at_most])
    return shown if len(items) <= at_most else f"{shown}, ..."
