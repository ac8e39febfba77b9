"""The command line: `dpgplvm fit`, `summary`, `report`, `explore`, `transform`, `impute`, `predict` and `demo`.

Results go to stdout, everything else to stderr. Nothing here imports JAX before a command needs a model.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from argparse import Action, RawDescriptionHelpFormatter
from collections.abc import Sequence

import dpgplvm
from dpgplvm.commands import asking, demo, fitting, showing, telling
from dpgplvm.commands.console import PROGRAM, Exit, Parser, say, warnings_of_one_line

# Each adds the subcommands of one kind with `add_to`; `--help` shows them in this order.
_GROUPS = (demo, fitting, telling, asking, showing)

_COMMAND = "COMMAND"
_VALUES_WITH_A_MINUS = {"--missing": r"-[\d.]", "--up": r"-[xyz]$"}

_EXIT_CODES = """\
exit codes: 0 done; 1 unexpected trouble; 2 bad usage or bad input; 130 interrupted.
`dpgplvm COMMAND --help` has the options of a command, and examples."""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out a command line (by default the process's own), and return its exit code."""
    debug = False
    try:
        arguments = _parser().parse_args(_joined(sys.argv[1:] if argv is None else argv))
        debug = arguments.debug
        with warnings_of_one_line():
            code = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output has had enough. What Python still holds for it must not be written at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.BROKEN_PIPE
    except KeyboardInterrupt:
        say("interrupted")
        return Exit.INTERRUPTED
    except (ValueError, OSError) as error:
        _tell(error, str(error), debug)
        return Exit.BAD_INPUT
    except Exception as error:
        hint = "" if debug else " (--debug shows where)"
        _tell(error, f"unexpected {type(error).__name__}: {error}{hint}", debug)
        return Exit.UNEXPECTED


class _Help(RawDescriptionHelpFormatter):
    """With room for the names of commands, which are indented further than argparse counts."""

    def add_argument(self, action: Action) -> None:
        super().add_argument(action)
        if action.metavar == _COMMAND:
            self._action_max_length += self._indent_increment


def _parser() -> Parser:
    parser = Parser(
        prog=PROGRAM,
        description="Learn which columns of a table share which hidden causes.",
        epilog=_EXIT_CODES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {dpgplvm.__version__}")
    commands = parser.add_subparsers(title="commands", metavar=_COMMAND, required=True)
    for group in _GROUPS:
        group.add_to(commands)
    return parser


def _joined(argv: Sequence[str]) -> list[str]:
    """`--missing -999,NA` as `--missing=-999,NA`, and `--up -y` likewise, which argparse would take for options."""
    joined: list[str] = []
    for word in argv:
        value = _VALUES_WITH_A_MINUS.get(joined[-1]) if joined else None
        if value and re.match(value, word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _tell(error: Exception, sentence: str, debug: bool) -> None:
    if debug:
        traceback.print_exception(error)
    say(f"error: {sentence}")
