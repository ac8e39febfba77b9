"""A table with everything that makes trouble, and a model that was fitted to it from the command line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from running import COLUMNS, PARAMETERS, run

import dpgplvm
from dpgplvm.datasets import make_views


@pytest.fixture(scope="session")
def frame():
    Y = make_views(n_samples=30, columns=3, random_state=0).Y.round(4)
    Y[np.random.default_rng(0).random(Y.shape) < 0.08] = np.nan
    return pd.DataFrame(Y, columns=COLUMNS, index=pd.Index([f"person {n}" for n in range(len(Y))], name="id"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory, frame):
    """A table, and a model that was fitted to it from the command line."""
    folder = tmp_path_factory.mktemp("commands")
    frame.to_csv(folder / "table.csv")
    out, err = run("fit", "table.csv", "--index-col", "id", *PARAMETERS, "-o", "model.dpgplvm", cwd=folder)
    (folder / "out").write_text(out)
    (folder / "err").write_text(err)
    return folder


@pytest.fixture(scope="session")
def model(folder):
    return dpgplvm.load(folder / "model.dpgplvm")


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder
