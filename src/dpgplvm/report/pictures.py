"""The pictures of a report."""

from __future__ import annotations

from typing import Any


def colours(n: int) -> list[str]:
    """One for each group."""
    palette = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
    return [palette[k % len(palette)] for k in range(n)]


def draw(model: Any, skeleton: Any, sequence: Any) -> dict[str, Any]:
    return {}
