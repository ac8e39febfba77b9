"""`dpgplvm fit`: from a table to a model in a file."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dpgplvm.commands.console import PROGRAM, Exit, InputError, add_command, note, say, show
from dpgplvm.commands.formats import is_special
from dpgplvm.commands.options import MODELS, add_parameters, given_parameters, parameters, progress
from dpgplvm.commands.reading import Table, add_options, read, read_views
from dpgplvm.commands.writing import check_outputs

SUFFIX = ".dpgplvm"


def add_to(commands: Any) -> None:
    """Add the subcommand."""
    parser = add_command(
        commands,
        "fit",
        fit,
        purpose="learn a model from a table",
        about=f"""
            Learn latents, groups of columns and functions from a table, print a summary, and save the model.
            Ctrl-C ends the fit: the best model so far is kept and saved.

            DATA is a file that ends in .csv, .tsv, .parquet or .npz (arrays Y [N, D], columns [D], index [N]), or "-"
            for CSV from standard input. Text may be compressed with gzip. The output ends in {SUFFIX}; one that is
            there already is replaced.
        """,
        examples="""
            dpgplvm fit data.csv -o model.dpgplvm
            dpgplvm fit data.csv --index-col id --missing "NA,-999" -o model.dpgplvm
            dpgplvm fit data.parquet --n-starts 4 --n-jobs 2 --random-state 0 -o model.dpgplvm
            dpgplvm fit data.csv --views views.csv -o model.dpgplvm    # manifold relevance determination
            dpgplvm fit data.csv.gz --model bgplvm --n-latents 2 --max-iter 200
        """,
    )
    parser.add_argument("data", metavar="DATA", help='the table, or "-" for standard input')
    parser.add_argument("-o", "--output", metavar="MODEL", help="file for the model; without it the summary is all")
    parser.add_argument(
        "--model",
        choices=list(MODELS),
        help="dpgplvm, groups learned (the default); bgplvm, one group; mrd, groups given (the default with --views)",
    )
    parser.add_argument(
        "--views", metavar="FILE", help="groups for mrd: a CSV file with the columns `column` and `view`"
    )
    add_options(parser)
    add_parameters(parser)


def fit(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm fit`."""
    model, given = _model_and_parameters(arguments)
    _check_output(arguments)
    table = read(arguments.data, arguments)
    if arguments.views is not None:
        given["views"] = read_views(arguments.views, arguments.encoding)
    gaps, (n_rows, n_columns) = np.isnan(table.values), table.values.shape
    note(arguments, f"{table.source}: {n_rows} rows, {n_columns} columns, gaps: {gaps.sum()} ({gaps.mean():.1%})")
    for name in _counters(table):
        say(
            f"warning: column {name!r} only counts the rows: leave it out with --drop {name!r}, or take it as their "
            f"labels with --index-col {name!r}"
        )

    from dpgplvm import estimators
    from dpgplvm.inference.outcome import Outcome

    Y, began = table.for_model(), time.monotonic()
    try:
        with _ctrl_c_is_acknowledged():
            fitted = getattr(estimators, MODELS[model])(**given).fit(Y)
    except KeyboardInterrupt:
        say("interrupted before there was a model: nothing was saved")
        return Exit.INTERRUPTED
    note(arguments, f"{fitted.outcome_.value} after {time.monotonic() - began:.1f} s")
    interrupted = fitted.outcome_ is Outcome.INTERRUPTED
    if arguments.output is not None:
        place = _save(fitted, arguments.output)
        if interrupted:
            say(f"interrupted: the best model so far is in {place}")
        else:
            note(arguments, f"the model is in {place}")
    show(fitted.summary())
    return Exit.INTERRUPTED if interrupted else Exit.DONE


def _counters(table: Table) -> list[str]:
    """Columns that are numbers of rows and no measurements, by their names or numbers."""
    counts = (np.diff(table.values, axis=0) == 1.0).all(axis=0) if len(table.values) > 2 else []
    return [str(d) if table.names is None else table.names[d] for d in np.flatnonzero(counts)]


def _model_and_parameters(arguments: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    model = arguments.model or ("mrd" if arguments.views is not None else "dpgplvm")
    given = given_parameters(arguments)
    foreign = [f"--{name.replace('_', '-')}" for name in given if model not in parameters()[name]]
    if arguments.views is not None and model != "mrd":
        foreign.append("--views")
    if foreign:
        raise InputError(
            f"{', '.join(foreign)} does not go with --model {model}: leave it out, or choose another model"
        )
    return model, progress(arguments) | given


def _check_output(arguments: argparse.Namespace) -> None:
    output = arguments.output
    if output is None:
        return
    if Path(output).suffix != SUFFIX or is_special(output):
        raise InputError(f"-o {output} is no name for a model: give one that ends in {SUFFIX}")
    check_outputs([output], [arguments.data, arguments.views])


def _save(model: Any, output: str) -> str:
    """Save the model, in another folder if it must be: what has been fitted is not lost to a full disk."""
    try:
        model.save(output)
    except OSError as error:
        rescue = str(Path(tempfile.mkdtemp(prefix="dpgplvm-")) / Path(output).name)
        model.save(rescue)
        say(f"warning: {output} could not be written ({error}): the model is in {rescue}")
        return rescue
    return output


@contextmanager
def _ctrl_c_is_acknowledged() -> Iterator[None]:
    """Say at once that an interruption was heard: the fit needs a moment to round off what it has."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Not through sys.stderr, which may be in the middle of another line.
        with suppress(OSError):
            os.write(2, f"\n{PROGRAM}: stopping with what there is; Ctrl-C again gives it up\n".encode())
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
