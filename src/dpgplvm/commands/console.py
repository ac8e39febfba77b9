"""What the commands say: notes, warnings and errors of one line on stderr, and options that all of them share."""

from __future__ import annotations

import argparse
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from importlib import import_module
from typing import Any, NoReturn

PROGRAM = "dpgplvm"


class Exit(IntEnum):
    """How a command ended; the last two as shells know them."""

    DONE = 0
    UNEXPECTED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class InputError(ValueError):
    """What the user gave cannot be used: a sentence that says why, and what to do."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Here, where it is known which command has arguments that it does not know."""
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.BAD_INPUT, f"{PROGRAM}: error: {one_line(message)} (see {self.prog} --help)\n")


def add_command(commands: Any, name: str, run: Callable[..., Exit], purpose: str, about: str, examples: str) -> Parser:
    """A subcommand that is carried out by `run`, which takes the arguments and returns the exit code."""
    parser = commands.add_parser(
        name,
        help=purpose,
        description=textwrap.dedent(about).strip(),
        epilog=f"examples:\n{textwrap.indent(textwrap.dedent(examples).strip(), '  ')}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr; warnings and errors remain")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def note(arguments: argparse.Namespace, text: str) -> None:
    """Progress, which is not a result."""
    if not arguments.quiet:
        say(text)


def say(text: str) -> None:
    """One line on stderr; where nobody reads that any more, work goes on."""
    with suppress(OSError):
        print(f"{PROGRAM}: {one_line(text)}", file=sys.stderr, flush=True)


def show(text: str) -> None:
    """A result for people, on stdout, whatever letters that has."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, errors="replace").decode(encoding))


def one_line(text: object) -> str:
    """Text without the newlines that a name or another library's message may hold."""
    return " ".join(str(text).split())


def listed(items: Sequence[object], at_most: int = 5) -> str:
    """Names for a sentence."""
    shown = ", ".join(repr(item) for item in items[:at_most])
    return shown if len(items) <= at_most else f"{shown}, ... ({len(items)} of them)"


@contextmanager
def warnings_of_one_line() -> Iterator[None]:
    """Show warnings as sentences, without the line of code that they come from."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        yield


def needed(package: str, purpose: str) -> Any:
    """A package that only the command line needs."""
    try:
        return import_module(package)
    except ImportError:
        raise InputError(f"{purpose} needs {package}: pip install 'dpgplvm[cli]'") from None
