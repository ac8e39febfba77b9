"""Tables out: numbers that read back to the bit, in the format that the suffix says, whole or not at all."""

from __future__ import annotations

import csv
import gzip
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpgplvm import atomic
from dpgplvm.commands.console import InputError, needed
from dpgplvm.commands.delimited import Style
from dpgplvm.commands.formats import Index, is_special, kind_of, suffix_of

STDOUT = "-"


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str | None]) -> None:
    """Refuse places that cannot be written to, or that would overwrite what is read, before anything is computed."""
    places = [Path(output) for output in outputs if output not in (None, STDOUT) and not is_special(output)]
    for n, place in enumerate(places):
        if place.is_dir():
            raise InputError(f"{place} is a folder: give the name of a file")
        if not place.parent.is_dir():
            raise InputError(f"{place} cannot be written: there is no folder {place.parent}: make it first")
        try:
            with tempfile.TemporaryFile(dir=place.parent):
                pass
        except OSError as error:
            raise InputError(f"{place} cannot be written ({error.strerror}): choose another folder") from None
        if any(place.resolve() == other.resolve() for other in places[:n]):
            raise InputError(f"{place} is given for two outputs: give each a file of its own")
        for source in inputs:
            if source is not None and place.exists() and Path(source).exists() and place.samefile(source):
                raise InputError(f"{place} is read and would be overwritten: give another name for the output")


def check_tables(outputs: Sequence[str | None], inputs: Sequence[str | None]) -> None:
    """The same, for outputs that are tables."""
    for output in outputs:
        kind_of(output or STDOUT)
    check_outputs(outputs, inputs)


def check_frame(output: str | None, inputs: Sequence[str | None]) -> None:
    """The same, for an output that is a table of more than numbers."""
    if kind_of(output or STDOUT) == "npz":
        raise InputError(f"{output} is for numbers alone, and this table has text: end it in .csv, .tsv or .parquet")
    check_outputs([output], inputs)


def write_table(
    path: str | None,
    names: Sequence[str] | None,
    values: np.ndarray,
    index: Index | None,
    style: Style,
    cells: np.ndarray | None = None,
) -> None:
    """Write a table [S, D] to a file, or to standard output for None; `cells` has the text of entries that keep it."""
    path = path or STDOUT
    kind = kind_of(path)
    if kind == "parquet":
        content = _parquet(names, values, index)
    elif kind == "npz":
        content = _npz(names, values, index)
    else:
        content = _text(names, values, index, _style_for(path, kind, style), cells)
    _put(path, content)


def write_frame(path: str, frame: Any) -> None:
    """Write a DataFrame of pandas with its index, whatever is in its columns."""
    kind = kind_of(path)
    if kind == "parquet":
        needed("pyarrow", "writing Parquet")
        _put(path, frame.to_parquet(engine="pyarrow"))
    else:
        _put(path, frame.to_csv(sep="\t" if kind == "tsv" else ",", lineterminator="\n").encode())


def _style_for(path: str, kind: str, style: Style) -> Style:
    """As the input was written, unless the suffix says otherwise."""
    if kind == "tsv":
        return Style("\t", style.decimal)
    if path != STDOUT and style.delimiter in "\t ":
        return Style.given(None, style.decimal)
    return style


def _text(
    names: Sequence[str] | None, values: np.ndarray, index: Index | None, style: Style, cells: np.ndarray | None
) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter=style.delimiter, lineterminator="\n")
    if names is not None:
        writer.writerow([*([index.name or ""] if index else []), *names])
    for n, row in enumerate(values):
        texts = [style.written(value) for value in row]
        if cells is not None:
            texts = [text if cell is None else cell for text, cell in zip(texts, cells[n], strict=True)]
        writer.writerow([*([index.labels[n]] if index else []), *texts])
    return buffer.getvalue().encode()


def _parquet(names: Sequence[str] | None, values: np.ndarray, index: Index | None) -> bytes:
    pandas = needed("pandas", "writing Parquet")
    needed("pyarrow", "writing Parquet")
    frame = pandas.DataFrame(values, columns=list(names or map(str, range(values.shape[1]))))
    if index is not None:
        frame.index = pandas.Index(index.labels, name=index.name)
    return frame.to_parquet(engine="pyarrow")


def _npz(names: Sequence[str] | None, values: np.ndarray, index: Index | None) -> bytes:
    arrays: dict[str, Any] = {"Y": values}
    if names is not None:
        arrays["columns"] = np.array(names)
    if index is not None:
        arrays["index"] = index.labels.astype(str) if index.labels.dtype == object else index.labels
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _put(path: str, content: bytes) -> None:
    """Replace a file as a whole; what is not a file, such as /dev/null or a pipe, is written to."""
    if path == STDOUT:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    elif is_special(path):
        Path(path).write_bytes(content)
    else:
        if suffix_of(path).lower().endswith(".gz"):
            content = gzip.compress(content, mtime=0)
        atomic.write(path, lambda file: file.write(content))
