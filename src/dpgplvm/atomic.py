"""Files that are written whole or not at all, and what is said where they cannot be."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any


def write(path: str | os.PathLike[str], content: Callable[[IO[bytes]], object], done: str = "written") -> None:
    """Replace a file by what `content` writes into it; what was there before stays until that is whole.

    `done` is the word for it in an error: "saved", "written".
    """
    name = text_of(path)
    with trouble_told(name, done, "its folder does not exist: make it first, or give another path"):
        _replace(name, content)


def text_of(path: Any) -> str:
    """A path as text, refused where it cannot be one."""
    try:
        text = os.fsdecode(path)
    except TypeError:
        raise TypeError(f"path is a {type(path).__name__}: give a str or a pathlib.Path") from None
    if "\0" in text:
        raise ValueError(f"path is {text!r}, but no file's name holds a null character: give another")
    return text


@contextmanager
def trouble_told(path: str, done: str, missing: str) -> Iterator[None]:
    """Errors of the file system as a sentence, under their own types."""
    try:
        yield
    except OSError as error:
        reasons = {
            FileNotFoundError: missing,
            IsADirectoryError: "it is a folder: give the path of a file",
            PermissionError: "that is not permitted: give a path that is yours, or ask for the permission",
        }
        reason = reasons.get(type(error), error.strerror or str(error))
        raise type(error)(f"{path} cannot be {done}: {reason}") from None


def _replace(path: str, content: Callable[[IO[bytes]], object]) -> None:
    """Write a file beside the old one and put it in its place once it is whole and on the disk."""
    target = os.path.realpath(path)  # what a link leads to, not the link
    folder = os.path.dirname(target)
    if os.path.isdir(target) or not os.path.basename(path):
        raise IsADirectoryError
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(None, "it is not a regular file")
    # A name of its own, so that two that save at once do not meet, and hidden, should it be left behind.
    partial = os.path.join(folder, f".dpgplvm-{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "xb") as file:
            content(file)
            file.flush()
            os.fsync(file.fileno())
        with suppress(OSError):  # there was none, or this file system has no permissions
            shutil.copymode(target, partial)
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise
    with suppress(OSError):  # not every system has folders that can be put on the disk
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
