"""DataFrames in and out: pandas, polars and whatever else narwhals knows, with their names and their index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError


class Layout(NamedTuple):
    """How a table came, so that others can be given back in the same way."""

    backend: str | None = None  # "pandas", "polars", ...; None: an array
    columns: list[Any] | None = None  # names, where they came with any
    index: Any = None  # pandas'

    @classmethod
    def of(cls, table: Any) -> Layout:
        frame = read_frame(table)
        if frame is None:
            return cls()
        return cls(frame.implementation.value, list(frame.columns), nw.maybe_get_index(frame))

    def dressed(self, values: np.ndarray, index: Any = None) -> Any:
        """`values` as such a table, with the index of other rows where there is one."""
        if self.columns is None:
            return values
        return as_frame(self.backend, dict(zip(self.columns, values.T, strict=True)), index)


def read_frame(table: Any, name: str = "Y") -> nw.DataFrame[Any] | None:
    """The table for narwhals, None where it is no DataFrame."""
    try:
        frame = nw.from_native(table, pass_through=True)
        if isinstance(frame, nw.LazyFrame):
            raise ValueError(f"{name} is lazy: collect it first")
        if not isinstance(frame, nw.DataFrame):
            return None
        _ = frame.schema  # which refuses names that are there twice
        return frame
    except DuplicateError as error:
        twice = " ".join(str(error).split()).rpartition("got: - ")[2]
        raise ValueError(f"{name} has columns with the same name ({twice}): rename them") from None


def index_of(table: Any, name: str) -> Any:
    """The index of a DataFrame of pandas, otherwise None."""
    frame = read_frame(table, name)
    return None if frame is None else nw.maybe_get_index(frame)


def as_frame(backend: str | None, columns: Mapping[Any, Any], index: Any = None) -> Any:
    """A DataFrame of named columns, pandas' unless another backend is asked for."""
    backend = backend or "pandas"
    try:
        # Names of pandas' columns may be anything, those of others are text.
        named = {str(d): np.asarray(values) for d, values in enumerate(columns.values())}
        native = nw.from_dict(named, backend=backend).to_native()  # type: ignore[arg-type]
    except ModuleNotFoundError:
        raise ImportError(f"there is no {backend} to make DataFrames with: pip install {backend}") from None
    if hasattr(native, "index"):
        native.columns = list(columns)
        if index is not None:
            native.index = index
        return native
    return nw.from_native(native).rename(dict(zip(named, map(str, columns), strict=True))).to_native()


def names_that_are_not_numbers(table: Any) -> list[str]:
    """Columns of a DataFrame that hold something else; those that hold nothing at all may be numbers."""
    frame = read_frame(table)
    if frame is None:
        return []
    return [str(column.name) for column in frame.iter_columns() if not _holds_numbers(column)]


def _holds_numbers(column: nw.Series[Any]) -> bool:
    kind = column.dtype
    if kind.is_numeric() or kind == nw.Boolean or column.is_null().all():
        return True
    # Whatever came through a list or a merge may be a number all the same; what begins with many gaps is called text.
    return kind in (nw.Object, nw.String) and all(map(_is_number, column.drop_nulls()))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def without_objects(table: Any) -> Any:
    """The same, with floats in columns of a pandas DataFrame that hold numbers as objects, and NaN for their gaps."""
    frame = read_frame(table)
    if frame is None or not frame.implementation.is_pandas():
        return table
    plain = table.copy(deep=False)
    for name in frame.columns:
        if table[name].dtype == object:
            plain[name] = table[name].where(table[name].notna(), np.nan).astype(float)
    return plain


def in_order(table: Any, names: Sequence[Any]) -> Any:
    """The same DataFrame with its columns in this order."""
    return table.select(list(names)) if hasattr(type(table), "select") else table[list(names)]


def order_of(given: Any, names: Sequence[Any] | None) -> list[int]:
    """For every column of a DataFrame, which of `names` it is; None stands for its own."""
    position = {name: d for d, name in enumerate(given.columns if names is None else names)}
    return [position[name] for name in given.columns]


def filled_like(given: Any, values: np.ndarray, changed: np.ndarray, names: Sequence[Any] | None) -> Any:
    """`values` [S, D], in the order of `names`, as `given` came: its container, its order of columns, its index, and
    the very columns in which nothing is `changed`."""
    frame = read_frame(given)
    if frame is None:
        return values
    filled = [
        nw.new_series(name, values[:, d], backend=frame.implementation)
        for name, d in zip(frame.columns, order_of(frame, names), strict=True)
        if changed[:, d].any()
    ]
    return frame.with_columns(*filled).to_native()
