"""Tables in: what a user brings becomes a float matrix with named columns, or one sentence that says what is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, time, timedelta
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, validate_data

from dpgplvm.frames import in_order, names_that_are_not_numbers, read_frame, without_objects
from dpgplvm.sentences import listed, plural, them, what_is_wrong

_TOO_FAR = 1e100  # standard deviations, whose squares overflow

# What scikit-learn says of an array, and what to do then.
_ADVICE = {
    "features as input": "give Y the columns that the model was fitted to, with NaN where nothing is known",
    "minimum of": "give more rows and columns",
    "with dim": "give a table, rows by columns",
    "scalar array": "give a table, rows by columns",
    "Complex data": "give real and imaginary parts as columns of their own",
    "inhomogeneous": "give rows of the same length",
    "NAType": "give NaN where something is missing",
}


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
    text = names_that_are_not_numbers(table)
    if text:
        raise ValueError(
            f"Y holds something other than numbers in {plural(text, 'column')} {listed(text)}: "
            f"drop {them(text)} or encode {them(text)} as numbers"
        )


def read(estimator: Any, Y: Any) -> np.ndarray:
    """A float matrix in C order, NaN for gaps, or a sentence about Y."""
    return _validated(estimator, Y, ensure_min_samples=2)


def read_rows(estimator: Any, Y: Any) -> np.ndarray:
    """New rows of the table that `estimator` was fitted to: the columns of a DataFrame are found by their names."""
    values = _validated(estimator, _as_in_training(estimator, Y), reset=False)
    names = column_names(values.shape[1], getattr(estimator, "feature_names_in_", None))
    _refuse_infinity(values, names)
    _refuse_far_away(values, estimator._scaling, names)
    return values


def _as_in_training(estimator: Any, Y: Any) -> Any:
    """A DataFrame with its columns in the order of training; anything else as it is."""
    frame, names = read_frame(Y), estimator._layout.columns
    if frame is None:
        return Y
    if names is None:  # fitted to an array: columns have positions only
        refuse_text_columns(Y)
        if not frame.columns:
            raise ValueError("Y has no columns: give those of the table that the model was fitted to")
        return check_array(without_objects(Y), dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0)
    given, wanted = set(frame.columns), set(names)
    missing = [str(name) for name in names if name not in given]
    unknown = [str(name) for name in frame.columns if name not in wanted]
    if missing:
        raise ValueError(
            f"Y lacks {plural(missing, 'column')} {listed(missing)} of the table that the model was fitted to: "
            f"add {them(missing)}, filled with NaN where nothing is known"
        )
    if unknown:
        raise ValueError(
            f"Y has {plural(unknown, 'column')} {listed(unknown)}, which the model was not fitted to: "
            f"drop {them(unknown)}"
        )
    return in_order(Y, names)


def _validated(estimator: Any, Y: Any, **options: Any) -> np.ndarray:
    refuse_text_columns(Y)
    Y = without_objects(Y)
    try:
        _refuse_other_than_numbers(Y)
        if np.ma.isMaskedArray(Y):
            Y = np.ma.filled(Y.astype(float), np.nan)
        return validate_data(estimator, Y, dtype=np.float64, order="C", ensure_all_finite=False, **options)
    except (ValueError, TypeError) as error:
        wrong = what_is_wrong(error).replace(" for X,", "")
        advice = next((f": {what_to_do}" for about, what_to_do in _ADVICE.items() if about in wrong), "")
        raise type(error)(f"Y cannot be read as a table of numbers: {wrong.rstrip('.')}{advice}") from None


def _refuse_other_than_numbers(Y: Any) -> None:
    """What NumPy would take for numbers all the same: dates, durations, text that looks like numbers, complex ones."""
    if read_frame(Y) is not None:
        return
    values = np.asarray(Y)
    held = [values.dtype.type] if values.dtype.kind != "O" else list({type(value) for value in values.flat})
    if any(issubclass(kind, complex | np.complexfloating) for kind in held):
        raise ValueError("Complex data not supported")  # as scikit-learn says it, for the same advice
    if any(issubclass(kind, str | bytes) for kind in held):
        raise ValueError("it holds text where numbers are wanted: drop it or encode it as numbers")
    if any(issubclass(kind, np.datetime64 | np.timedelta64 | date | time | timedelta) for kind in held):
        raise ValueError("it holds dates or durations where numbers are wanted: give numbers, such as days")


def check_values(Y: np.ndarray, names: list[str]) -> None:
    """Refuse what the model cannot learn from: columns that do not vary, or that were never observed."""
    _refuse_infinity(Y, names)
    never = np.isnan(Y).all(axis=0)
    if never.all():
        raise ValueError("Y holds nothing but NaN: give a table with observed values")
    _refuse_columns(never, names, "was", "were", "never observed (all NaN)")
    once = (~np.isnan(Y)).sum(axis=0) == 1
    _refuse_columns(once, names, "was", "were", "observed only once, which says nothing about how a column varies")
    # Relative to the column's size: a large constant with rounding noise is still a constant.
    constant = mean_and_spread(Y)[1] <= 1e-12 * np.nanmax(np.abs(Y), axis=0)
    _refuse_columns(constant, names, "is", "are", "constant")


def _refuse_columns(spoilt: np.ndarray, names: list[str], of_one: str, of_many: str, what: str) -> None:
    columns = [names[d] for d in np.flatnonzero(spoilt)]
    if columns:
        verb = of_one if len(columns) == 1 else of_many
        raise ValueError(f"{plural(columns, 'column')} {listed(columns)} of Y {verb} {what}: drop {them(columns)}")


def _refuse_infinity(Y: np.ndarray, names: list[str]) -> None:
    infinite = np.isinf(Y)
    if infinite.any():
        columns = [names[d] for d in np.flatnonzero(infinite.any(axis=0))]
        raise ValueError(
            f"Y contains infinity, in {plural(columns, 'column')} {listed(columns)}: drop or mend those rows"
        )


def _refuse_far_away(Y: np.ndarray, scaling: Scaling, names: list[str]) -> None:
    with np.errstate(over="ignore"):
        too_far = np.abs(scaling.to_model(Y)) > _TOO_FAR
    if too_far.any():
        n, d = np.argwhere(too_far)[0]
        raise ValueError(
            f"Y has {Y[n, d]:g} in {names[d]!r}, row {n}, too far from all that the model was fitted to for a density "
            "to be computed: give NaN if that is not a value"
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
            f"views leave out {plural(left_out, 'column')} ({listed(left_out)}): "
            f"put {them(left_out)} in a view, or drop {them(left_out)} from Y"
        )
    return labels, [str(view) for view in views]


def seed(random_state: Any) -> Any:
    """What numpy's default_rng takes: legacy RandomState objects give it a number."""
    if isinstance(random_state, np.random.RandomState):
        return random_state.randint(2**31)
    is_number = isinstance(random_state, Integral) and int(random_state) >= 0
    if not (is_number or isinstance(random_state, np.random.Generator | np.random.SeedSequence | None)):
        raise ValueError(
            f"random_state is {random_state!r}: give a whole number, 0 or more, a RandomState or Generator, or None"
        )
    return random_state
