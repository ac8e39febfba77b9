"""Words for sentences. Those of errors name what came, what was wanted, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence


def plural(items: list[str], word: str) -> str:
    """The word for one item, or their number and its plural."""
    return word if len(items) == 1 else f"{len(items)} {word}s"


def them(items: list[str]) -> str:
    """What stands for the items in the rest of a sentence."""
    return "it" if len(items) == 1 else "them"


def listed(items: list[str], at_most: int = 5) -> str:
    """The first few items."""
    shown = ", ".join(repr(item) for item in items[:at_most])
    return shown if len(items) <= at_most else f"{shown}, ..."


def counted(n: int, word: str) -> str:
    """A number and the word for that many."""
    return f"{n} {word}{'s' * (n != 1)}"


def enumerated(items: Sequence[object]) -> str:
    """All items, as one would say them: 0, 1 and 2."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def what_is_wrong(error: Exception) -> str:
    """What scikit-learn says of an array, on one line and without the array."""
    said = re.sub(r":?\s*array=.*\.\s+Reshape", ". Reshape", str(error), flags=re.DOTALL)
    return " ".join(said.split("\n[[")[0].split())
