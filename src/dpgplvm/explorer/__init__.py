"""A fitted model as one page to walk through its latents in, which predicts by itself and needs no server."""

from __future__ import annotations

import os
from typing import Any

from dpgplvm import atomic
from dpgplvm.explorer.export import exported
from dpgplvm.explorer.page import page
from dpgplvm.skeleton import Skeleton


def explore(
    model: Any, path: str | os.PathLike[str], skeleton: Skeleton | None, sequence: Any, title: str | None
) -> None:
    """Write the page of a fitted model."""
    atomic.text_of(path)  # refused before anything is computed
    text = page(exported(model, skeleton, sequence), f"{type(model).__name__} explorer" if title is None else title)
    atomic.write(path, lambda file: file.write(text.encode(errors="replace")))
