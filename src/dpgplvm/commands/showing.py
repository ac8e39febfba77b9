"""`dpgplvm report` and `explore`: pages that show a saved model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgplvm.commands.console import Exit, InputError, Parser, add_command, listed, note, show
from dpgplvm.commands.delimited import Records
from dpgplvm.commands.formats import is_special, read_records
from dpgplvm.commands.reading import add_model, load_model
from dpgplvm.commands.writing import check_outputs

if TYPE_CHECKING:
    from dpgplvm.skeleton import Skeleton

_SUFFIXES = (".html", ".htm")
_ONE_SEQUENCE = "all"


def add_to(commands: Any) -> None:
    """Add the subcommands."""
    parser = add_command(
        commands,
        "report",
        report,
        purpose="a page that tells what a model has found",
        about="""
            Write one page of HTML that tells what a model has found, to someone who was not there: the groups in plain
            words, pictures, tables, how sure it is, and how it was made. It needs no network, and prints well.
        """,
        examples="""
            dpgplvm report model.dpgplvm -o report.html
            dpgplvm report walk.dpgplvm -o report.html --skeleton bones.csv --up=-y --sequence all --title "Two walkers"
        """,
    )
    _add_options(parser)

    parser = add_command(
        commands,
        "explore",
        explore,
        purpose="a page on which one moves through the latents",
        about="""
            Write one page of HTML on which one moves a point through the latents and watches the columns that the model
            predicts there, and the body where there is one. It needs no network and no server.
        """,
        examples="""
            dpgplvm explore model.dpgplvm -o explorer.html
            dpgplvm explore walk.dpgplvm -o explorer.html --skeleton bones.csv --up=-y --sequence all
        """,
    )
    _add_options(parser)


def report(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm report`."""
    return _write(arguments, "report")


def explore(arguments: argparse.Namespace) -> Exit:
    """Carry out `dpgplvm explore`."""
    return _write(arguments, "explore")


def _add_options(parser: Parser) -> None:
    add_model(parser)
    parser.add_argument("-o", "--output", metavar="PAGE", required=True, help="the page, which ends in .html")
    parser.add_argument("--title", help="of the page")
    parser.add_argument(
        "--skeleton",
        metavar="FILE",
        help="bones, for tables of joints: a CSV file with two columns, the joints at the two ends of each bone. The "
        'columns of joint "left knee" are "left knee x", "left knee y" and, in space, "left knee z"',
    )
    parser.add_argument(
        "--up", default="y", help="the axis that points upwards (default: y); --up=-y where y grows downwards"
    )
    parser.add_argument(
        "--sequence",
        metavar="FILE",
        help=f'rows that follow one another: "{_ONE_SEQUENCE}" of them, or a CSV file with one column that says for '
        "every row of the model's table which sequence it belongs to",
    )


def _write(arguments: argparse.Namespace, kind: str) -> Exit:
    output = arguments.output
    if Path(output).suffix.lower() not in _SUFFIXES or is_special(output):
        raise InputError(f"-o {output} is no name for a page: give one that ends in {_SUFFIXES[0]}")
    labels = None if arguments.sequence in (None, _ONE_SEQUENCE) else arguments.sequence
    check_outputs([output], [arguments.model, arguments.skeleton, labels])
    bones = None if arguments.skeleton is None else read_records(arguments.skeleton)
    sequence = _sequence(labels) if labels else arguments.sequence == _ONE_SEQUENCE or None
    model = load_model(arguments.model)
    skeleton = None if bones is None else _skeleton(bones, model, arguments)
    note(arguments, "drawing ...")
    getattr(model, kind)(output, skeleton=skeleton, sequence=sequence, title=arguments.title)
    show(output)
    return Exit.DONE


def _sequence(path: str) -> list[str]:
    """One label for every row."""
    table = read_records(path)
    if len(table.header) != 1:
        raise InputError(f"--sequence {path} has columns {listed(table.header)}: give one column, a label for each row")
    return [row[0].strip() for row in table.rows]


def _skeleton(table: Records, model: Any, arguments: argparse.Namespace) -> Skeleton:
    """The joints that the model's columns speak of, with the bones of a file."""
    from dpgplvm.skeleton import Skeleton

    if len(table.header) != 2:
        raise InputError(
            f"--skeleton {arguments.skeleton} has columns {listed(table.header)}: give two, the ends of each bone"
        )
    joints = Skeleton.from_names(model._names, up=arguments.up).joints
    rows = [[cell.strip() for cell in row] for row in (table.header, *table.rows)]
    # The first line may be names of the two columns, or a bone.
    bones = rows if set(rows[0]) <= joints.keys() else rows[1:]
    return Skeleton.from_names(model._names, [(one, other) for one, other in bones], arguments.up)
