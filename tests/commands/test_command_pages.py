"""`dpgplvm report` and `explore`: pages of a saved model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from saved_models import fitted

import dpgplvm
from dpgplvm import BayesianGPLVM, Skeleton
from dpgplvm.commands import main

JOINTS = ["left hip", "left knee", "left ankle"]
NAMES = [*(f"{joint} {axis}" for joint in JOINTS for axis in "xy"), "speed"]
BONES = [("left hip", "left knee"), ("left knee", "left ankle")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, its bones and its sequences."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(rng.normal(size=(10, 2)) @ rng.normal(size=(2, 7)), columns=NAMES)
    settings = {"n_latents": 2, "n_inducing": 4, "max_iter": 0, "random_state": 0}
    fitted(BayesianGPLVM(**settings), Y).save(folder / "model.dpgplvm")
    (folder / "bones.csv").write_text("from,to\nleft hip,left knee\nleft knee, left ankle\n")
    (folder / "takes.csv").write_text("take\n" + "first\n" * 4 + "second\n" * 6)
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return dpgplvm.load(folder / "model.dpgplvm")


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def asked(monkeypatch):
    """With what the pages were asked for, none being drawn."""
    calls = []
    for kind in ("report", "explore"):
        monkeypatch.setattr(
            BayesianGPLVM, kind, lambda self, path, kind=kind, **about: calls.append((kind, path, about))
        )
    return calls


def test_a_page_is_what_the_model_writes(folder, model):
    command = ["report", "model.dpgplvm", "-o", "page.html", "--skeleton", "bones.csv", "--sequence", "all"]
    command += ["--up", "-y", "--title", "A <b>walk</b>"]
    done = subprocess.run(
        [sys.executable, "-m", "dpgplvm", *command],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=folder,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "page.html\n", "dpgplvm: drawing ...\n")
    skeleton = Skeleton.from_names(NAMES, BONES, up="-y")
    model.report(folder / "again.html", skeleton=skeleton, sequence=True, title="A <b>walk</b>")
    assert (folder / "page.html").read_text() == (folder / "again.html").read_text()


@pytest.mark.parametrize("kind", ["report", "explore"])
def test_options_become_arguments(here, asked, capsys, kind):
    assert main([kind, "model.dpgplvm", "-o", "page.html", "-q"]) == 0
    assert asked.pop() == (kind, "page.html", {"skeleton": None, "sequence": None, "title": None})
    assert (
        main([kind, "model.dpgplvm", "-o", "page.HTM", "--skeleton", "bones.csv", "--sequence", "takes.csv", "-q"]) == 0
    )
    about = asked.pop()[2]
    assert about["skeleton"] == Skeleton.from_names(NAMES, BONES)
    assert about["sequence"] == ["first"] * 4 + ["second"] * 6
    assert capsys.readouterr() == ("page.html\npage.HTM\n", "")


@pytest.mark.usefixtures("here")
def test_bones_without_names_of_columns(asked):
    Path("bare.tsv").write_text("left hip\tleft knee\nleft knee\tleft ankle\n")
    assert main(["report", "model.dpgplvm", "-o", "page.html", "--skeleton", "bare.tsv"]) == 0
    assert asked[0][2]["skeleton"].bones == BONES


SLIPS = {
    "no output": ([], "required: -o/--output"),
    "no page": (["-o", "page.pdf"], "-o page.pdf is no name for a page: give one that ends in .html"),
    "no folder": (["-o", "nowhere/page.html"], "there is no folder nowhere: make it first"),
    "no bones": (["-o", "page.html", "--skeleton", "none.csv"], "none.csv does not exist"),
    "three ends": (["-o", "page.html", "--skeleton", "three.csv"], "--skeleton three.csv has columns 'a', 'b', 'c'"),
    "unknown joints": (["-o", "page.html", "--skeleton", "foreign.csv"], "bones name joint 'tail'"),
    "no axis": (["-o", "page.html", "--skeleton", "bones.csv", "--up", "z"], "up='z' is no axis of joints"),
    "two labels": (["-o", "page.html", "--sequence", "bones.csv"], "--sequence bones.csv has columns 'from', 'to'"),
    "few labels": (["-o", "page.html", "--sequence", "short.csv"], "sequence has shape (2,)"),
}


@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("kind", ["report", "explore"])
def test_what_is_said_to_those_who_slip(here, capsys, kind, slip):
    options, sentence = SLIPS[slip]
    Path("three.csv").write_text("a,b,c\n1,2,3\n")
    Path("foreign.csv").write_text("from,to\nleft hip,tail\n")
    Path("short.csv").write_text("take\n1\n2\n")
    (here / "page.html").unlink(missing_ok=True)
    try:
        code = main([kind, "model.dpgplvm", *options, "-q"])
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert err.startswith("dpgplvm: error: ")
    assert err.count("\n") == 1
    assert sentence in err
    assert not Path("page.html").exists()
