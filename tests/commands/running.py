"""A table, and how the tests of the commands run them and read what they write."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd

COLUMNS = ["knee, left", 'the "hip"', "ankle", "wrist", "Höhe", "neck"]
PARAMETERS = ["--model", "bgplvm", "--n-latents", "2", "--n-inducing", "8", "--max-iter", "5", "--random-state", "0"]


def run(*arguments, code=0, **options):
    """A process of its own: what it writes to stdout and to stderr."""
    command = [sys.executable, "-m", "dpgplvm", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=300, check=False, **options)
    assert done.returncode == code, done.stderr.decode()
    return done.stdout.decode(), done.stderr.decode()


def read(path, **options):
    """A table as another reader has it, its numbers correctly rounded."""
    decimal = options.pop("decimal", ".")
    text = pd.read_csv(path, dtype=str, keep_default_na=False, **options)
    return text.map(lambda cell: float(cell.replace(decimal, ".")))
