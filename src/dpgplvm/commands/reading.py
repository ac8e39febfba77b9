"""Tables in: a file becomes numbers with names, whatever wrote it, or one sentence that says what is wrong."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dpgplvm
from dpgplvm.commands import delimited
from dpgplvm.commands.console import InputError, listed, needed, note
from dpgplvm.commands.delimited import Records, Style

KINDS = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv", ".parquet": "parquet", ".pq": "parquet"}
KINDS |= {".npz": "npz"}
STDIN = "-"
_GAPS = {"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "null", "none"}


class Index(NamedTuple):
    """Labels of the rows."""

    name: str | None
    labels: np.ndarray  # [N]


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
        """A DataFrame, so that the model knows its columns by name; an array where they have none."""
        if self.names is None:
            return self.values
        return needed("pandas", "reading a table with names").DataFrame(self.values, columns=self.names)


@dataclass(frozen=True)
class Columns:
    """A file before anything is known about its columns."""

    names: list[str] | None
    values: list[np.ndarray]  # each [N]: text, or numbers with NaN for gaps
    index: Index | None
    style: Style
    is_text: bool
    row_names: Sequence[str]  # how an error calls each row


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
    group.add_argument("--no-header", action="store_true", help="the first line of a CSV file is data, not names")


def read(path: str, arguments: argparse.Namespace, known: Collection[str] = ()) -> Table:
    """The table in a file, or in standard input for "-"; where it has columns that are `known`, of these alone."""
    columns = _read_columns(path, arguments)
    source = _source(path)
    kept = list(range(len(columns.values)))
    index = columns.index
    if columns.names is not None:
        repeated = [name for name, times in Counter(columns.names).items() if times > 1]
        if repeated:
            raise InputError(f"{source} has more than one column named {listed(repeated)}: give each a name of its own")
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


def read_views(path: str) -> dict[str, list[str]]:
    """The columns of every view, from a table with the columns `column` and `view`."""
    table = read_records(path)
    if not {"column", "view"} <= set(table.header):
        raise InputError(f"{path} has columns {listed(table.header)}: --views wants `column` and `view`")
    views: dict[str, list[str]] = {}
    column, view = table.header.index("column"), table.header.index("view")
    for row in table.rows:
        views.setdefault(row[view].strip(), []).append(row[column].strip())
    return views


def read_records(path: str) -> Records:
    """The cells of a text file, whatever is in them."""
    check_file(path)
    return delimited.read(path, _text(path), None, header=True)


def add_model(parser: argparse.ArgumentParser) -> None:
    """The argument for a model in a file."""
    parser.add_argument("model", metavar="MODEL", help="a file from dpgplvm fit")


def load_model(path: str) -> Any:
    """The model in a file, after a look whether it is there, which needs no JAX."""
    check_file(path)
    return dpgplvm.load(path)


def kind_of(path: str) -> str:
    """The format of a file, by its suffix; standard input and output, and pipes, are CSV."""
    suffix = Path(path).suffix.lower()
    if path == STDIN or is_special(path):
        return "csv"
    if suffix not in KINDS:
        raise InputError(f"{path} is of a kind that is not known: use a file that ends in {', '.join(KINDS)}")
    return KINDS[suffix]


def is_special(path: str) -> bool:
    """Whether it is there, but neither a file nor a folder: a pipe, such as the shell's <(...), or a device."""
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def check_file(path: str) -> None:
    """Refuse what cannot be read because it is not there."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder: give a file")
    if not Path(path).exists():
        raise InputError(f"{path} does not exist: check the path")


def _read_columns(path: str, arguments: argparse.Namespace) -> Columns:
    if path != STDIN:
        check_file(path)
    kind = kind_of(path)
    if kind in ("csv", "tsv"):
        return _from_text(path, arguments, "\t" if kind == "tsv" else None)
    style = Style.given(arguments.delimiter, arguments.decimal)
    return (_from_parquet if kind == "parquet" else _from_npz)(path, style)


def _source(path: str) -> str:
    return "standard input" if path == STDIN else path


def _text(path: str) -> str:
    content = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{_source(path)} is not UTF-8 (byte 0x{content[error.start]:02x} in line {line}): "
            'save it as "CSV UTF-8", or convert it, such as with iconv -f latin1 -t utf-8'
        ) from None


def _from_text(path: str, arguments: argparse.Namespace, delimiter: str | None) -> Columns:
    style = Style.given(arguments.delimiter, arguments.decimal)
    given = style.delimiter if arguments.delimiter else delimiter
    table = delimited.read(_source(path), _text(path), given, header=not arguments.no_header)
    values = [np.array(column, dtype=object) for column in zip(*table.rows, strict=True)]
    if not table.rows:
        values = [np.empty(0, dtype=object) for _ in table.header]
    return Columns(
        names=table.header or None,
        values=values,
        index=None,
        style=Style(table.delimiter, style.decimal),
        is_text=True,
        row_names=[f"line {line}" for line in table.lines],
    )


def _from_parquet(path: str, style: Style) -> Columns:
    pandas = needed("pandas", "reading Parquet")
    needed("pyarrow", "reading Parquet")
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({error}): write it again") from None
    index = None
    if not isinstance(frame.index, pandas.RangeIndex):
        index = Index(frame.index.name, frame.index.to_numpy())
    values = []
    for d in range(frame.shape[1]):
        column = frame.iloc[:, d]
        is_number = getattr(column.dtype, "kind", "O") in "biuf"
        values.append(
            column.to_numpy(dtype=float, na_value=np.nan)
            if is_number
            else np.array(
                ["" if gap else str(cell) for cell, gap in zip(column, column.isna(), strict=True)], dtype=object
            )
        )
    rows = [f"row {n}" for n in range(len(frame))]
    return Columns([str(name) for name in frame.columns], values, index, style, False, rows)


def _from_npz(path: str, style: Style) -> Columns:
    wanted = "give one with the array Y [N, D], and if you like columns [D] and index [N]"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except Exception as error:
        raise InputError(f"{path} cannot be read as NPZ ({error}): {wanted}") from None
    tables = [name for name, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "biuf"]
    name = "Y" if "Y" in tables else tables[0] if len(tables) == 1 else None
    if name is None:
        raise InputError(f"{path} has {listed(tables) if tables else 'no tables'} and no Y: {wanted}")
    Y = arrays[name].astype(float)
    columns, index = arrays.get("columns"), arrays.get("index")
    for key, labels, size in (("columns", columns, Y.shape[1]), ("index", index, Y.shape[0])):
        if labels is not None and labels.shape != (size,):
            raise InputError(f"{path}: {key} has shape {labels.shape}, but Y has shape {Y.shape}: {wanted}")
    return Columns(
        names=None if columns is None else [str(name) for name in columns],
        values=list(Y.T),
        index=None if index is None else Index("index", index),
        style=style,
        is_text=False,
        row_names=[f"row {n}" for n in range(len(Y))],
    )


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
