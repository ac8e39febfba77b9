"""Text with delimiters: cells as they are written, so that what is not changed can be written back to the letter."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from dpgplvm.commands.console import InputError, say

_DELIMITERS = (",", ";", "\t", "|")
_LOOKED_AT = 50  # records, to find out the delimiter
_WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_WITH_POINT = re.compile(r"[+-]?\d*\.\d+([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Style:
    """How a text table is written."""

    delimiter: str = ","
    decimal: str = "."

    @classmethod
    def given(cls, delimiter: str | None, decimal: str | None) -> Style:
        """What the user says, and the usual for the rest."""
        delimiter = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter.isalnum()):
            raise InputError(f'--delimiter is {delimiter!r}: give one character, such as ";", or tab')
        if decimal == "," and delimiter == ",":
            raise InputError("--delimiter and --decimal are both a comma: give different ones")
        return cls(delimiter or (";" if decimal == "," else ","), decimal or ".")

    def with_decimal(self, given: str | None, columns: Iterable[Iterable[str]]) -> Style:
        """The decimal mark that is given, or else a comma where numbers have one and none has a point."""
        if given is not None or self.delimiter == ",":
            return self
        commas = False
        for column in columns:
            for cell in column:
                if _WITH_POINT.fullmatch(cell.strip()):
                    return self
                commas = commas or _WITH_COMMA.fullmatch(cell.strip()) is not None
        return replace(self, decimal=",") if commas else self

    def written(self, value: float) -> str:
        """The shortest text that reads back as this very number; nothing for NaN."""
        if value != value:
            return ""
        return repr(float(value)).replace(".", self.decimal)


class Records(NamedTuple):
    """A text table, cell by cell."""

    header: list[str]  # empty for a table without one
    rows: list[list[str]]
    lines: list[int]  # in which each row ends
    delimiter: str


def nameless(d: int) -> str:
    """What pandas calls a column whose name is empty."""
    return f"Unnamed: {d}"


def number(text: str, decimal: str) -> float | None:
    """The number that a cell holds, correctly rounded; None for text."""
    # Python reads 1_000 as a number; with decimal commas, points are between thousands.
    if "_" in text or (decimal == "," and "." in text):
        return None
    try:
        text = text.replace(decimal, ".")
        return float(text)
    except ValueError:
        return None


def read(source: str, text: str, delimiter: str | None, *, header: bool) -> Records:
    """Every cell of a table; lines of different lengths are refused, blank ones skipped."""
    delimiter = delimiter or _delimiter(text)
    rows, lines = [], []
    reader = _reader(text, delimiter)
    try:
        for row in reader:
            if not _is_blank(row):
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise InputError(f"{source}, line {reader.line_num}: {error}: look for a quote that is out of place") from None
    if not rows:
        raise InputError(f"{source} is empty: give a table with a header and rows")
    if header:
        rows[0] = _header_over(rows[0], rows[1:])
    width = len(rows[0])
    for row, line in zip(rows, lines, strict=True):
        if len(row) != width:
            raise InputError(
                f"line {line} of {source} has {len(row)} cell{'s' * (len(row) != 1)}, the first line has {width}: mend "
                f"it, or say what is between cells with --delimiter ({delimiter!r} was taken)"
            )
    if not header:
        return Records([], rows, lines, delimiter)
    names, rows, lines = [name.strip() for name in rows[0]], rows[1:], lines[1:]
    if rows and all(number(name, ".") is not None for name in names):
        say(f"warning: the first line of {source} is taken as names, but is all numbers: use --no-header if it is data")
    # Some programs end every line with a delimiter.
    while len(names) > 1 and not names[-1] and not any(row[-1].strip() for row in rows):
        names, rows = names[:-1], [row[:-1] for row in rows]
    names = [name or nameless(d) for d, name in enumerate(names)]
    return Records(names, rows, lines, delimiter)


def _reader(text: str, delimiter: str, strict: bool = True):
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=strict)


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _header_over(header: list[str], rows: list[list[str]]) -> list[str]:
    """R leaves out the name of the labels of rows, and some programs end every line but the first with a delimiter."""
    if {len(row) for row in rows} != {len(header) + 1}:
        return header
    return ["", *header] if any(row[-1].strip() for row in rows) else [*header, ""]


def _delimiter(text: str) -> str:
    """What cuts the first records into most cells, the same number in each; or else what cuts the header most. Spaces,
    which names and dates have too, only where nothing else cuts all records alike."""
    best, most = ",", (False, 1)
    for delimiter in (*_DELIMITERS, " "):
        try:
            records = [row for row in islice(_reader(text, delimiter, strict=False), _LOOKED_AT) if not _is_blank(row)]
        except csv.Error:  # a cell without end
            continue
        if not records:
            continue
        widths = {len(row) for row in [_header_over(records[0], records[1:]), *records[1:]]}
        alike, cells = len(widths) == 1 and max(widths) > 1, len(records[0])
        if (alike, cells) > most and (delimiter != " " or (not most[0] and cells > most[1])):
            best, most = delimiter, (alike, cells)
    return best
