"""`dpgplvm transform`, `impute` and `predict`: what a saved model says about rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpgplvm.commands.console import Exit, InputError, Parser, add_command, note
from dpgplvm.commands.delimited import Style
from dpgplvm.commands.formats import STDIN, Index, check_file, suffix_of
from dpgplvm.commands.reading import Table, add_model, add_options, load_model, read
from dpgplvm.commands.writing import STDOUT, check_tables, write_table


def add_to(commands: Any) -> None:
    """Add the subcommands."""
    parser = add_command(
        commands,
        "transform",
        transform,
        purpose="latents of rows",
        about="""
            Write the latent coordinates of every row, whatever is missing in it. Columns are found by their names.
            Without DATA these are the rows that the model was fitted to.
        """,
        examples="""
            dpgplvm transform model.dpgplvm new.csv --index-col id -o latents.csv --std uncertainty.csv
            dpgplvm transform model.dpgplvm > latents.csv
        """,
    )
    add_model(parser)
    _add_data(parser, "DATA", "rows with the columns that the model was fitted to (default: those rows themselves)")
    _add_output(parser, "the latents' standard deviations")

    parser = add_command(
        commands,
        "impute",
        impute,
        purpose="a table with its gaps filled",
        about="""
            Write the table with its gaps filled by what is expected there. What was observed stays as it is written.
            Without DATA this is the table that the model was fitted to.
        """,
        examples="""
            dpgplvm impute model.dpgplvm data.csv --index-col id -o filled.csv --std uncertainty.csv
            dpgplvm impute model.dpgplvm data.csv -o filled.csv --quantiles 0.025,0.975    # and filled_q0.025.csv, ...
            cat data.csv | dpgplvm impute model.dpgplvm - > filled.csv
        """,
    )
    add_model(parser)
    _add_data(parser, "DATA", "the table with gaps (default: the one that the model was fitted to)")
    _add_output(parser, "the standard deviation of every entry, 0 where it was observed", quantiles=True)

    parser = add_command(
        commands,
        "predict",
        predict,
        purpose="columns for rows with given latents",
        about="""
            Write what the columns are expected to be for rows with given latents, as `dpgplvm transform` writes them.
            Without LATENTS these are those of the rows that the model was fitted to, with their uncertainty.
        """,
        examples="""
            dpgplvm predict model.dpgplvm latents.csv -o columns.csv --std uncertainty.csv
            dpgplvm predict model.dpgplvm latents.csv --latent-std latents_std.csv -o columns.csv --quantiles 0.1,0.9
        """,
    )
    add_model(parser)
    _add_data(parser, "LATENTS", "one row of latents for every row that is wanted (default: those of the fit)")
    parser.add_argument("--latent-std", metavar="FILE", help="standard deviations of the latents (default: certain)")
    _add_output(parser, "the standard deviation of every entry, noise included", quantiles=True)


def transform(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm transform`."""
    check_tables([arguments.output, arguments.std], _inputs(arguments))
    model = _load(arguments)
    table = _table(arguments, _names(model))
    if table is None:
        mean, variance = model.latents_, model.latent_variance_
    else:
        mean, variance, _ = model.infer(table.for_model())
    names, index, style = _latent_names(model), _index(model, table), _style(arguments, table)
    if arguments.std is not None:
        write_table(arguments.std, names, np.sqrt(variance), index, style)
    write_table(arguments.output, names, mean, index, style)
    return Exit.DONE


def impute(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm impute`."""
    quantiles = _checked_quantiles(arguments)
    check_tables([arguments.output, arguments.std, *quantiles], _inputs(arguments))
    model = _load(arguments)
    table = _table(arguments, _names(model))
    Y = None if table is None else table.for_model()
    filled, spread, found = map(np.asarray, model.impute(Y, return_std=True, quantiles=[*quantiles.values()]))
    names = _names(model) if table is None else table.names
    cells, index, style = None, _index(model, table), _style(arguments, table)
    if table is not None:
        gaps = np.isnan(table.values)
        note(arguments, f"{table.source}: {len(gaps)} rows, gaps filled: {gaps.sum()}")
        if table.cells is not None:
            cells = table.cells.copy()
            cells[gaps] = None
    if arguments.std is not None:
        write_table(arguments.std, names, spread, index, style)
    for place, values in zip(quantiles, found, strict=True):
        write_table(place, names, values, index, style, cells)
    write_table(arguments.output, names, filled, index, style, cells)
    return Exit.DONE


def predict(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm predict`."""
    quantiles = _checked_quantiles(arguments)
    check_tables([arguments.output, arguments.std, *quantiles], _inputs(arguments))
    if arguments.latent_std is not None and arguments.data is None:
        raise InputError("--latent-std is given without LATENTS: give both, or neither")
    model = _load(arguments)
    table = _table(arguments, _latent_names(model))
    if table is None:
        X, variance = model.latents_, model.latent_variance_
    else:
        X, variance = _latents(model, table), None
    if arguments.latent_std is not None:
        variance = _latents(model, read(arguments.latent_std, arguments, _latent_names(model))) ** 2
    mean, spread = map(np.asarray, model.predict(X, variance=variance, return_std=True))
    names, index, style = _names(model), _index(model, table), _style(arguments, table)
    if arguments.std is not None:
        write_table(arguments.std, names, spread, index, style)
    if quantiles:
        found = model.predict_quantiles(X, [*quantiles.values()], variance=variance)
        for place, values in zip(quantiles, map(np.asarray, found), strict=True):
            write_table(place, names, values, index, style)
    write_table(arguments.output, names, mean, index, style)
    return Exit.DONE


def _add_data(parser: Parser, metavar: str, purpose: str) -> None:
    parser.add_argument("data", metavar=metavar, nargs="?", help=f'{purpose}; "-" for standard input')
    add_options(parser)


def _add_output(parser: Parser, of_std: str, quantiles: bool = False) -> None:
    group = parser.add_argument_group("what to write")
    group.add_argument("-o", "--output", metavar="FILE", help="a table, in the format of its suffix (default: stdout)")
    group.add_argument("--std", metavar="FILE", help=f"another table, with {of_std}")
    if quantiles:
        group.add_argument(
            "--quantiles",
            metavar="NUMBERS",
            help="such as 0.025,0.975: further tables beside the output, one for each, named after it",
        )


def _inputs(arguments: argparse.Namespace) -> list[str | None]:
    return [arguments.model, getattr(arguments, "data", None), getattr(arguments, "latent_std", None)]


def _load(arguments: argparse.Namespace) -> Any:
    for path in _inputs(arguments):
        if path not in (None, STDIN):
            check_file(path)
    return load_model(arguments.model)


def _table(arguments: argparse.Namespace, known: Sequence[str]) -> Table | None:
    return None if arguments.data is None else read(arguments.data, arguments, known)


def _index(model: Any, table: Table | None) -> Index | None:
    """Labels of the rows, of the table or else of the one that the model was fitted to."""
    if table is not None:
        return table.index
    index = model._layout.index
    if index is None or index.to_list() == list(range(len(index))):
        return None
    return Index(index.name, index.to_numpy())


def _style(arguments: argparse.Namespace, table: Table | None) -> Style:
    return Style.given(arguments.delimiter, arguments.decimal) if table is None else table.style


def _names(model: Any) -> list[str]:
    """The model's names for its columns."""
    return list(model._names)


def _latent_names(model: Any) -> list[str]:
    return list(model.get_feature_names_out())


def _latents(model: Any, table: Table) -> np.ndarray:
    """Latents by their names where the table has these, or else as they come."""
    names = _latent_names(model)
    if table.names is None or set(table.names) != set(names):
        return table.values
    return table.values[:, [table.names.index(name) for name in names]]


def _checked_quantiles(arguments: argparse.Namespace) -> dict[str, float]:
    """The quantiles that are wanted, by the files that they go to."""
    if arguments.quantiles is None:
        return {}
    if arguments.output in (None, STDOUT):
        raise InputError("--quantiles writes tables beside the output: give the output a name with -o")
    places = {}
    for text in arguments.quantiles.split(","):
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not 0.0 < value < 1.0:
            raise InputError(f"--quantiles has {text!r}: give numbers between 0 and 1 with commas between them")
        suffix = suffix_of(arguments.output)
        places[f"{arguments.output.removesuffix(suffix)}_q{value!r}{suffix}"] = value
    return places
