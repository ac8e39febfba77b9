"""Tables in: a file becomes numbers with names, whatever wrote it, or one sentence that says what is wrong."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

import dpgplvm
from dpgplvm.commands import delimited
from dpgplvm.commands.console import InputError, listed, needed, note
from dpgplvm.commands.delimited import Style
from dpgplvm.commands.formats import NAMELESS, Columns, Index, check_file, name_of, read_columns, read_records

_GAPS = {"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none"}


@dataclass(frozen=True)
class Table:
    """What a file holds."""

    source: str
    names: list[str] | None  # of the columns, where the file has them
    values: np.ndarray  # [N, D] with NaN for gaps
    index: Index | None
    cells: np.ndarray | None  # [N, D] the text of every entry, where the file is text
    style: Style

    def for_model(self) -> Any:
        """A DataFrame, so that the model knows its columns and rows by name; an array where columns have none."""
        if self.names is None:
            return self.values
        pandas = needed("pandas", "reading a table with names")
        frame = pandas.DataFrame(self.values, columns=self.names)
        if self.index is not None:
            # As text, which every file can hold.
            frame.index = pandas.Index([str(label) for label in self.index.labels], name=self.index.name)
        return frame


def add_options(parser: argparse.ArgumentParser) -> None:
    """How to read a table."""
    group = parser.add_argument_group("how to read tables")
    group.add_argument("--index-col", metavar="COLUMN", help="labels of the rows: a column's name, or number from 0")
    group.add_argument(
        "--drop",
        metavar="COLUMNS",
        action="append",
        default=[],
        help="leave out these columns: names or numbers with commas between them; may be given again",
    )
    group.add_argument(
        "--missing",
        metavar="MARKS",
        default="",
        help='further marks of gaps, such as "-999,?"; numbers match values. Empty cells, NA, NaN, null and none are '
        "gaps anyway",
    )
    group.add_argument("--delimiter", help="between the cells of a CSV file, or tab (default: found out)")
    group.add_argument("--decimal", choices=[".", ","], help="decimal mark of a CSV file (default: found out)")
    group.add_argument(
        "--encoding", help="of a CSV file, such as latin-1 (default: UTF-8, or UTF-16 where it is marked)"
    )
    group.add_argument("--no-header", action="store_true", help="the first line of a CSV file is data, not names")


def read(path: str, arguments: argparse.Namespace, known: Collection[str] = ()) -> Table:
    """The table in a file, or in standard input for "-"; where it has columns that are `known`, of these alone."""
    columns = read_columns(path, arguments)
    source = name_of(path)
    kept = list(range(len(columns.values)))
    index = columns.index
    if columns.names is not None:
        repeated = [name for name, times in Counter(columns.names).items() if times > 1]
        if repeated:
            raise InputError(f"{source} has more than one column named {listed(repeated)}: give each a name of its own")
    if arguments.index_col is None and index is None and NAMELESS not in known and columns.has_nameless:
        index = Index(None, columns.values[0])
        kept.remove(0)
        note(arguments, f"{source}: the first column has no name, and is taken as labels of the rows")
    if arguments.index_col is not None:
        d = _position(arguments.index_col, columns, source, "--index-col")
        index = Index(None if columns.names is None else columns.names[d], columns.values[d])
        kept.remove(d)
    for dropped in arguments.drop:
        whole = columns.names is not None and dropped in columns.names
        for wanted in [dropped] if whole else dropped.split(","):
            d = _position(wanted.strip(), columns, source, "--drop")
            if d in kept:
                kept.remove(d)
    if columns.names is not None and not {*known}.isdisjoint(columns.names):
        unknown = [columns.names[d] for d in kept if columns.names[d] not in known]
        kept = [d for d in kept if columns.names[d] in known]
        if unknown:
            note(arguments, f"{source}: left out {listed(unknown)}, which the model does not know")
    if not kept:
        raise InputError(f"{source} has no columns left to learn from: give fewer in --drop and --index-col")
    if not len(columns.values[0]):
        raise InputError(f"{source} has no rows beneath its header: give a table with rows")
    style = columns.style.with_decimal(arguments.decimal, (columns.values[d] for d in kept if columns.is_text))
    values = _numbers(source, columns, kept, style, arguments.missing)
    return Table(
        source=source,
        names=None if columns.names is None else [columns.names[d] for d in kept],
        values=values,
        index=index,
        cells=np.stack([columns.values[d] for d in kept], axis=1) if columns.is_text else None,
        style=style,
    )


def read_views(path: str, encoding: str | None) -> dict[str, list[str]]:
    """The columns of every view, from a table with the columns `column` and `view`."""
    table = read_records(path, encoding)
    if not {"column", "view"} <= set(table.header):
        raise InputError(f"{path} has columns {listed(table.header)}: --views wants `column` and `view`")
    views: dict[str, list[str]] = {}
    column, view = table.header.index("column"), table.header.index("view")
    for row in table.rows:
        views.setdefault(row[view].strip(), []).append(row[column].strip())
    return views


def add_model(parser: argparse.ArgumentParser) -> None:
    """The argument for a model in a file."""
    parser.add_argument("model", metavar="MODEL", help="a file from dpgplvm fit")


def load_model(path: str) -> Any:
    """The model in a file, after a look whether it is there, which needs no JAX."""
    check_file(path)
    return dpgplvm.load(path)


def _position(wanted: str, columns: Columns, source: str, option: str) -> int:
    """The number of a column that is given by its name, or by its number."""
    if columns.names is not None and wanted in columns.names:
        return columns.names.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(columns.values):
        return int(wanted)
    has = f"columns {listed(columns.names)}" if columns.names else f"{len(columns.values)} columns without names"
    raise InputError(f"{option} {wanted}: {source} has {has}: give one of these, or a number from 0")


def _numbers(source: str, columns: Columns, kept: list[int], style: Style, missing: str) -> np.ndarray:
    """The columns `kept` as numbers [N, D], NaN where there is a gap; a sentence about those that are text."""
    marks = {mark.strip() for mark in missing.split(",")} - {""}
    numbers = [value for mark in marks if (value := delimited.number(mark, ".")) is not None]
    values = np.empty((len(columns.values[0]), len(kept)))
    text = []
    for d, k in enumerate(kept):
        if columns.values[k].dtype != object:
            values[:, d] = columns.values[k]
            continue
        for n, cell in enumerate(map(str.strip, columns.values[k])):
            is_gap = cell.lower() in _GAPS or cell in marks
            value = np.nan if is_gap else delimited.number(cell, style.decimal)
            if value is None:
                name = columns.names[k] if columns.names else k
                text.append(f"{name!r} ({_shortened(cell)!r} in {columns.row_names[n]})")
                break
            values[n, d] = value
    if text:
        more = "" if len(text) <= 3 else f" and {len(text) - 3} more"
        raise InputError(
            f"{source} holds text in {'columns' if len(text) > 1 else 'column'} {', '.join(text[:3])}{more}: use "
            "--index-col or --drop for what is no measurement, --missing for marks of gaps, --decimal for commas"
        )
    values[np.isin(values, numbers)] = np.nan
    return values


def _shortened(cell: str) -> str:
    return cell if len(cell) <= 30 else f"{cell[:29]}\u2026"
