"""Files in: columns with names, before anything is known about what is in them."""

from __future__ import annotations

import argparse
import codecs
import gzip
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpgplvm.commands import delimited
from dpgplvm.commands.console import InputError, listed, needed
from dpgplvm.commands.delimited import Records, Style

STDIN = "-"
NAMELESS = delimited.nameless(0)
_KINDS = {".csv": "csv", ".txt": "csv", ".tsv": "tsv", ".tab": "tsv"}
_KINDS |= {f"{suffix}.gz": kind for suffix, kind in _KINDS.items()}
_KINDS |= {".parquet": "parquet", ".pq": "parquet", ".npz": "npz"}
_COMPRESSED = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class Index(NamedTuple):
    """Labels of the rows."""

    name: str | None
    labels: np.ndarray  # [N]


@dataclass(frozen=True)
class Columns:
    """A file before anything is known about its columns."""

    names: list[str] | None
    values: list[np.ndarray]  # each [N]: text, or numbers with NaN for gaps
    index: Index | None
    style: Style
    is_text: bool
    row_names: Sequence[str]  # how an error calls each row

    @property
    def has_nameless(self) -> bool:
        """Whether it begins with a column without a name, as pandas and R write labels of rows."""
        return self.names is not None and self.names[0] == NAMELESS


def suffix_of(path: str) -> str:
    """How its name ends, `.csv.gz` as a whole."""
    suffixes = Path(path).suffixes
    return "".join(suffixes[-2:] if suffixes[-1:] in ([".gz"], [".GZ"]) else suffixes[-1:])


def kind_of(path: str) -> str:
    """The format of a file, by its suffix; standard input and output, and pipes, are CSV."""
    if path == STDIN or is_special(path):
        return "csv"
    kind = _KINDS.get(suffix_of(path).lower())
    if kind is None:
        raise InputError(
            f"{path} is of a kind that is not known: use a file that ends in {', '.join(_KINDS)}; spreadsheets save "
            "theirs as CSV"
        )
    return kind


def is_special(path: str) -> bool:
    """Whether it is there, but neither a file nor a folder: a pipe, such as the shell's <(...), or a device."""
    return Path(path).exists() and not Path(path).is_file() and not Path(path).is_dir()


def check_file(path: str) -> None:
    """Refuse what cannot be read because it is not there."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder: give a file")
    if not Path(path).exists():
        raise InputError(f"{path} does not exist: check the path")


def name_of(path: str) -> str:
    """How a sentence calls it."""
    return "standard input" if path == STDIN else path


def read_columns(path: str, arguments: argparse.Namespace) -> Columns:
    """What is in a file, or in standard input for "-"."""
    if path != STDIN:
        check_file(path)
    kind = kind_of(path)
    if kind in ("csv", "tsv"):
        return _from_text(path, arguments, "\t" if kind == "tsv" else None)
    style = Style.given(arguments.delimiter, arguments.decimal)
    return (_from_parquet if kind == "parquet" else _from_npz)(path, style)


def read_records(path: str, encoding: str | None = None) -> Records:
    """The cells of a text file, whatever is in them."""
    check_file(path)
    return delimited.read(path, _text(path, encoding), None, header=True)


def _text(path: str, encoding: str | None) -> str:
    content = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
    if content.startswith(_COMPRESSED):
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{name_of(path)} cannot be unpacked ({error}): compress it again with gzip") from None
    if encoding is None:
        encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8"
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except LookupError:
        raise InputError(
            f"--encoding is {encoding!r}, which is not known: give one such as latin-1 or cp1252"
        ) from None
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError(
            f"{name_of(path)} is not {error.encoding.upper()} (byte 0x{content[error.start]:02x} in line {line}): say "
            'what it is, such as with --encoding latin-1, or save it as "CSV UTF-8"'
        ) from None


def _from_text(path: str, arguments: argparse.Namespace, delimiter: str | None) -> Columns:
    style = Style.given(arguments.delimiter, arguments.decimal)
    given = style.delimiter if arguments.delimiter else delimiter
    table = delimited.read(name_of(path), _text(path, arguments.encoding), given, header=not arguments.no_header)
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
