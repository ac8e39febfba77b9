"""Functions that are compiled to run fast, or to be compiled fast."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpgplvm.inference import compiling
from dpgplvm.inference.compiling import compiles_fast, runs_fast

TESTS = Path(__file__).parent


def test_golden_numbers_hold_as_they_are_compiled_for_users():
    """Other tests do not let the compiler optimise."""
    ours = {"JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS"}
    theirs = {name: value for name, value in os.environ.items() if name not in ours} | {"COMPILE_AS_FOR_USERS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(TESTS / "test_golden.py")]
    run = subprocess.run(
        command, env=theirs, cwd=TESTS.parent, capture_output=True, text=True, timeout=500, check=False
    )
    assert run.returncode == 0, run.stdout


def test_options_that_the_compiler_does_not_have_are_left_out():
    assert compiling._is_known("xla_backend_optimization_level", 0)
    assert not compiling._is_known("xla_option_of_next_year", True)
    double = compiling.Compiled(lambda number: 2 * number, (), {"xla_option_of_next_year": True})
    assert double(3) == 6


@pytest.mark.parametrize("compiled", [runs_fast, compiles_fast])
def test_compiled_once_for_every_value_of_what_is_static(compiled):
    traced = []

    @compiled("power")
    def power_of(number, power):
        traced.append(power)
        return number**power

    assert [power_of(2.0, power=3), power_of(3.0, power=3), power_of(3.0, power=2)] == [8.0, 27.0, 9.0]
    assert traced == [3, 2]
    assert power_of.__name__ == "power_of"
