"""Commands that are ended early, by their user, their reader or the disk."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from running import PARAMETERS, read

import dpgplvm
from dpgplvm.commands import main

INTERRUPTED = """
import os, signal, sys
from dpgplvm.commands import main
from dpgplvm.inference.objective import Objective

evaluate, calls = Objective.evaluate, []

def evaluating(self, free):
    calls.append(free)
    if len(calls) == 6:
        os.kill(os.getpid(), signal.SIGINT)
    return evaluate(self, free)

Objective.evaluate = evaluating
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def interrupted(folder, frame):
    """A fit of a table without names, ended by a signal."""
    np.savez(folder / "arrays.npz", Y=frame)
    fit = ["fit", "arrays.npz", *PARAMETERS, "--max-iter", "1000", "-o", "half.dpgplvm"]
    command = [sys.executable, "-c", INTERRUPTED, *fit]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=folder)


def test_ctrl_c_saves_the_best_so_far(folder, interrupted):
    assert interrupted.returncode == 130, interrupted.stderr
    assert "Ctrl-C again gives it up" in interrupted.stderr
    assert interrupted.stderr.splitlines()[-1] == "dpgplvm: interrupted: the best model so far is in half.dpgplvm"
    assert "Traceback" not in interrupted.stderr
    model = dpgplvm.load(folder / "half.dpgplvm")
    assert model.outcome_ is dpgplvm.Outcome.INTERRUPTED
    assert interrupted.stdout == f"{model.summary()}\n"


@pytest.mark.usefixtures("interrupted")
def test_a_table_without_names(here, frame):
    """Neither in a file of arrays nor in a file of text: columns have positions."""
    frame.to_csv("headless.csv", header=False, index=False)
    assert main(["impute", "half.dpgplvm", "headless.csv", "--no-header", "-q", "-o", "filled.csv"]) == 0
    assert main(["impute", "half.dpgplvm", "arrays.npz", "-q", "-o", "filled.npz"]) == 0
    expected = dpgplvm.load("half.dpgplvm").impute(frame.to_numpy())
    with np.load("filled.npz") as filled:
        assert filled.files == ["Y"]
        np.testing.assert_array_equal(filled["Y"], expected)
    np.testing.assert_array_equal(read("filled.csv", header=None), expected)


def test_ctrl_c_before_there_is_anything(here, failing, capsys):
    failing(lambda n, held: n == 1, KeyboardInterrupt())
    assert main(["fit", "table.csv", "--index-col", "id", *PARAMETERS, "-o", "none.dpgplvm"]) == 130
    assert capsys.readouterr().err.splitlines()[-1] == (
        "dpgplvm: interrupted before there was a model: nothing was saved"
    )
    assert not Path("none.dpgplvm").exists()


def test_a_reader_that_has_had_enough(folder):
    command = [sys.executable, "-m", "dpgplvm", "summary", "model.dpgplvm"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=100) == 128 + signal.SIGPIPE


def test_a_place_that_is_gone_when_the_fit_is_done(here, model, monkeypatch, capsys):
    """As a disk that has filled up meanwhile: what was fitted is not lost."""
    place = here / "soon gone"
    place.mkdir()

    def fit(self, Y):
        place.rmdir()
        return model

    monkeypatch.setattr(dpgplvm.BayesianGPLVM, "fit", fit)
    assert main(["fit", "table.csv", "--index-col", "id", *PARAMETERS, "-o", str(place / "m.dpgplvm")]) == 0
    err = capsys.readouterr().err
    rescued = Path(err.strip().rpartition(" is in ")[2])
    assert f"warning: {place / 'm.dpgplvm'} could not be written" in err
    assert dpgplvm.load(rescued).summary() == model.summary()
    rescued.unlink()
    rescued.parent.rmdir()
