"""The code of the documentation runs, page by page, and prints what the pages say that it prints.

`python tests/test_docs.py [page ...]` writes what it prints now into the pages.
"""

from __future__ import annotations

import io
import logging
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from dpgplvm.commands import _parser

_ROOT = Path(__file__).parents[1]
_PAGES = sorted((_ROOT / "docs").glob("*.md"))
_GALLERY = sorted((_ROOT / "examples" / "gallery").glob("plot_*.py"))
_FENCE = re.compile(r"^```(?P<language>\S*)[^\n]*\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
# What is typed into a shell, what something printed, and how a file looks.
_NOT_PYTHON = {"console", "text", "toml"}


@pytest.fixture(autouse=True)
def loggers_as_they_were():
    """A page shows how to silence some, which is not for other tests."""
    loggers = [logging.getLogger(name) for name in ("dpgplvm", "dpgplvm.fit", "dpgplvm.search", "dpgplvm.climb")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    content: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = (
        Block(match["language"], match["content"], text.count("\n", 0, match.start()))
        for match in _FENCE.finditer(text)
    )
    return [block for block in found if not block.language.startswith("{")]


def code_and_output(page: Path) -> Iterator[tuple[Block, str]]:
    """Every block of Python, and what the page says that it prints."""
    nothing = Block("", "", 0)
    for block, following in pairwise([*blocks_of(page), nothing]):
        if block.language == "python":
            yield block, following.content if following.language == "text" else ""


def run(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """What the block prints; a traceback has the lines of the page."""
    code = compile("\n" * (block.line + 1) + block.content, str(page), "exec")
    with redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def assert_alike(printed: str, shown: str) -> None:
    """The same words, and the same numbers up to what another processor does to them."""
    assert _NUMBER.sub("#", printed).split() == _NUMBER.sub("#", shown).split(), f"printed:\n{printed}\nshown:\n{shown}"
    numbers = [np.array([float(number) for number in _NUMBER.findall(text)]) for text in (printed, shown)]
    np.testing.assert_allclose(*numbers, rtol=0.05, atol=0.1, err_msg=f"printed:\n{printed}\nshown:\n{shown}")


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.stem)
def test_code_of_page_prints_what_the_page_shows(page):
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block, shown in code_and_output(page):
        assert_alike(run(block, page, namespace), shown)


@pytest.mark.parametrize("page", [*_PAGES, _ROOT / "README.md"], ids=lambda page: page.stem)
def test_every_block_says_what_it_is(page):
    assert {block.language for block in blocks_of(page)} <= {"python"} | _NOT_PYTHON


def test_a_wrong_number_on_a_page_is_noticed():
    assert_alike("2 groups, bound -805.61", "2 groups, bound -805.58")
    with pytest.raises(AssertionError):
        assert_alike("2 groups, bound -805.6", "3 groups, bound -805.6")
    with pytest.raises(AssertionError):
        assert_alike("2 groups", "2 profiles")


def commands_of(page: Path) -> list[str]:
    """The parts of shell lines that call `dpgplvm`, without redirections."""
    lines = [line for block in blocks_of(page) if block.language == "console" for line in block.content.splitlines()]
    parts = (part.split(">")[0].strip(" $") for line in lines for part in line.split("|"))
    return [part for part in parts if part.startswith("dpgplvm ")]


@pytest.mark.parametrize("command", commands_of(_ROOT / "docs" / "command_line.md"))
def test_command_on_the_page_is_understood(command):
    arguments = _parser().parse_args(shlex.split(command)[1:])
    assert callable(arguments.run)


@pytest.mark.slow
@pytest.mark.parametrize("example", _GALLERY, ids=lambda example: example.stem)
def test_gallery_example_runs(example, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    runpy.run_path(str(example), run_name="__main__")


def write_outputs(page: Path) -> None:
    """Put what the blocks print now in the place of what the page shows."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    for block, shown in code_and_output(page):
        printed = "\n".join(line.rstrip() for line in run(block, page, namespace).splitlines())
        before, after = (f"{block.content}```\n\n```text\n{output.rstrip()}\n```" for output in (shown, printed))
        text = text.replace(before, after)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for given in sys.argv[1:] or _PAGES:
        write_outputs(Path(given))
