"""Tables in: what a user brings becomes a float matrix with named columns, or one sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from dpgplvm.model.kernels import Kernel
from dpgplvm.model.state import Free


@dataclass(frozen=True)
class Scaling:
    """Column means and standard deviations, to go between the user's units and the model's."""

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def of(cls, Y: np.ndarray, standardise: bool) -> Scaling:
        if standardise:
            return cls(*mean_and_spread(Y))
        return cls(np.zeros(Y.shape[1]), np.ones(Y.shape[1]))

    def to_model(self, Y: np.ndarray) -> np.ndarray:
        # Divided first: the difference of huge numbers could overflow.
        return Y / self.scale - self.mean / self.scale

    def to_user(self, values: np.ndarray) -> np.ndarray:
        return values * self.scale + self.mean


def mean_and_spread(Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of what was observed of every column, for numbers of any size."""
    # A power of two, so that dividing by it costs no digits.
    unit = np.exp2(np.floor(np.log2(np.maximum(np.nanmax(np.abs(Y), axis=0), 1e-300))))
    return np.nanmean(Y / unit, axis=0) * unit, np.nanstd(Y / unit, axis=0) * unit


def refuse_text_columns(table: Any) -> None:
    """Name the columns of a DataFrame that are not numbers, before anything tries to convert them."""
    dtypes = getattr(table, "dtypes", None)
    if dtypes is None or not hasattr(table, "columns"):
        return
    text = [str(name) for name, dtype in zip(table.columns, dtypes, strict=True) if not _is_number(dtype)]
    if text:
        raise ValueError(
            f"Y holds something other than numbers in {_plural(text, 'column')} {_listed(text)}: "
            f"drop {_them(text)} or encode {_them(text)} as numbers"
        )


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return dtype.is_numeric() or str(dtype) in ("Boolean", "Null")
    return getattr(dtype, "kind", "O") in "biufc"


def read(estimator: Any, Y: Any) -> np.ndarray:
    """A float matrix in C order, NaN for gaps, or a sentence about Y."""
    return _validated(estimator, Y, ensure_min_samples=2)


def read_rows(estimator: Any, Y: Any) -> np.ndarray:
    """New rows of the table that `estimator` was fitted to: the columns of a DataFrame are found by their names."""
    values = _validated(estimator, in_order(estimator, Y), reset=False)
    _refuse_infinity(values, column_names(values.shape[1], getattr(estimator, "feature_names_in_", None)))
    return values


def in_order(estimator: Any, Y: Any) -> Any:
    """A DataFrame with its columns in the order of training; anything else as it is."""
    if not is_frame(Y):
        return Y
    names = estimator._columns
    if names is None:  # fitted to an array: columns have positions only
        refuse_text_columns(Y)
        return Y.to_numpy() if _is_polars(type(Y)) else Y.to_numpy(dtype=float, na_value=np.nan)
    given, wanted = set(Y.columns), set(names)
    missing = [str(name) for name in names if name not in given]
    unknown = [str(name) for name in Y.columns if name not in wanted]
    if missing:
        raise ValueError(
            f"Y lacks {_plural(missing, 'column')} {_listed(missing)} of the table that the model was fitted to: "
            f"add {_them(missing)}, filled with NaN where nothing is known"
        )
    if unknown:
        raise ValueError(
            f"Y has {_plural(unknown, 'column')} {_listed(unknown)}, which the model was not fitted to: "
            f"drop {_them(unknown)}"
        )
    return Y[list(names)]


def is_frame(table: Any) -> bool:
    """Whether it is a DataFrame, of pandas or of polars."""
    return hasattr(table, "columns") and hasattr(table, "dtypes")


def frame_of(kind: type, values: np.ndarray, names: Sequence[Any], index: Any = None) -> Any:
    """A DataFrame of this kind, pandas' or polars'."""
    if _is_polars(kind):
        return kind(values, schema=list(names), orient="row")
    return kind(values, columns=names, index=index)


def _is_polars(kind: type) -> bool:
    return kind.__module__.startswith("polars")


def filled_like(given: Any, values: np.ndarray, changed: np.ndarray, names: list[Any] | None) -> Any:
    """`values` [S, D], in the order of training, as `given` came: its container, its order of columns, its index, and
    the very columns in which nothing is `changed`."""
    if not is_frame(given):
        return values
    columns = list(given.columns)
    position = {name: d for d, name in enumerate(columns if names is None else names)}
    order = [position[name] for name in columns]
    frame = frame_of(type(given), values[:, order], columns, getattr(given, "index", None))
    for name, d in zip(columns, order, strict=True):
        if not changed[:, d].any():
            frame = _with_column(frame, name, given[name])
    return frame


def _with_column(frame: Any, name: Any, column: Any) -> Any:
    if hasattr(frame, "with_columns"):
        return frame.with_columns(column)
    frame[name] = column
    return frame


def _validated(estimator: Any, Y: Any, **options: Any) -> np.ndarray:
    refuse_text_columns(Y)
    if np.ma.isMaskedArray(Y):
        Y = np.ma.filled(Y.astype(float), np.nan)
    try:
        return validate_data(estimator, Y, dtype=np.float64, order="C", ensure_all_finite=False, **options)
    except (ValueError, TypeError) as error:
        first = " ".join(str(error).split("array=")[0].split("\n[[")[0].split()).replace(" for X,", "")
        first = first.replace("X has", "it has").replace("got scalar array instead:", "got a single value")
        if "could not convert string" in first:
            first = f"it holds text where numbers are wanted ({first}): drop it or encode it as numbers"
        raise type(error)(f"Y cannot be read as a table of numbers: {first}") from None


def check_values(Y: np.ndarray, names: list[str]) -> None:
    """Refuse what the model cannot learn from: columns that do not vary, or that were never observed."""
    _refuse_infinity(Y, names)
    never = np.isnan(Y).all(axis=0)
    if never.all():
        raise ValueError("Y holds nothing but NaN: give a table with observed values")
    if never.any():
        columns = [names[d] for d in np.flatnonzero(never)]
        verb = "was" if len(columns) == 1 else "were"
        raise ValueError(
            f"{_plural(columns, 'column')} {_listed(columns)} of Y {verb} never observed (all NaN): "
            f"drop {_them(columns)}"
        )
    # Relative to the column's size: a large constant with rounding noise is still a constant.
    constant = mean_and_spread(Y)[1] <= 1e-12 * np.nanmax(np.abs(Y), axis=0)
    if constant.any():
        columns = [names[d] for d in np.flatnonzero(constant)]
        verb = "is" if len(columns) == 1 else "are"
        raise ValueError(f"{_plural(columns, 'column')} {_listed(columns)} {verb} constant: drop {_them(columns)}")


def _refuse_infinity(Y: np.ndarray, names: list[str]) -> None:
    infinite = np.isinf(Y)
    if infinite.any():
        columns = [names[d] for d in np.flatnonzero(infinite.any(axis=0))]
        raise ValueError(
            f"Y contains infinity, in {_plural(columns, 'column')} {_listed(columns)}: drop or mend those rows"
        )


def check_start(
    start: Any, kernel: Kernel, n_rows: int, n_columns: int, n_latents: int, n_groups: int, noise: str
) -> None:
    """Refuse a start that was made for another table or another model."""
    if not isinstance(start, Free):
        raise TypeError(f"start is a {type(start).__name__}: give a Free, such as state_.free of a fitted model")
    missing = kernel.parameters.keys() - start.log_theta.keys()
    if missing:
        raise ValueError(f"start.log_theta lacks {sorted(missing)}: give every hyperparameter of the kernel")
    wanted: dict[str, tuple[Any, tuple[int, ...]]]
    wanted = {name: (values, (n_rows, n_latents)) for name, values in start.latents.items()}
    wanted["inducing"] = (start.inducing, (start.inducing.shape[0], n_latents))
    of_columns = noise == "column"
    if start.of_columns != of_columns:
        has = "columns" if start.of_columns else "groups"
        raise ValueError(f'start has noise of {has}, but noise="{noise}" is asked for: make it for this model')
    wanted["log_noise_precision"] = (start.log_noise_precision, (n_columns if of_columns else n_groups,))
    if of_columns:
        wanted["log_scale"] = (start.log_scale, (n_columns,))
    for name, parameter in kernel.parameters.items():
        wanted[name] = (start.log_theta[name], (n_groups, *parameter.shape(n_latents)))
    for name, (values, shape) in wanted.items():
        if np.shape(values) != shape:
            raise ValueError(
                f"start: {name} has shape {np.shape(values)}, but {shape} is wanted: make it for this table"
            )
        if not np.isfinite(values).all():
            raise ValueError(f"start: {name} is not finite: mend it, or fit without start")


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
    labels = np.empty(len(views), dtype=object)
    labels[:] = list(views)
    if (isinstance(views, np.ndarray) and views.ndim != 1) or any(isinstance(v, list | tuple) for v in labels):
        labels = labels[:, None]
    elif any(v is None or v != v for v in labels):
        raise ValueError("views holds a label that is None or NaN: give one label for every column")
    if labels.shape != (n_columns,):
        raise ValueError(
            f"views has {labels.size} labels in {labels.ndim} dimension(s), but Y has {n_columns} columns: "
            "give one label for every column"
        )
    found = list(dict.fromkeys(labels))
    return np.array([found.index(label) for label in labels]), [str(label) for label in found]


def _labels_from_dict(views: dict[str, Any], names: list[str]) -> tuple[np.ndarray, list[str]]:
    position = {name: d for d, name in enumerate(names)}
    labels = np.full(len(names), -1)
    for number, (view, members) in enumerate(views.items()):
        if members is None:
            raise ValueError(f"views: view {view!r} is None: give it columns or leave it out")
        members = [members] if isinstance(members, str | Integral) else list(members)
        if not members:
            raise ValueError(f"views: view {view!r} has no columns: leave it out or give it some")
        for member in members:
            if isinstance(member, str):
                d = position.get(member, -1)
            else:
                d = int(member) if isinstance(member, Integral) and 0 <= int(member) < len(names) else -1
            if d < 0:
                raise ValueError(
                    f"views: view {view!r} names column {member!r}, which Y does not have: "
                    "give a name or a position that it has"
                )
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


def seed(random_state: Any) -> Any:
    """What numpy's default_rng takes: legacy RandomState objects give it a number."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**31)
    return random_state
