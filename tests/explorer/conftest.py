"""Models, and the pages that explore them."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from saved_models import NAMES, fitted, sample, table

import dpgplvm
from dpgplvm import BayesianGPLVM, Skeleton

IN_THE_PLANE = Skeleton({"a": NAMES[:2], "b": NAMES[2:4], "c": NAMES[4:]}, [("a", "b"), ("b", "c")], up="-y")


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A model with two groups, and its page with a body."""
    model = dpgplvm.load(sample("MRD"))
    path = tmp_path_factory.mktemp("explorer") / "walk.html"
    model.explore(path, skeleton=IN_THE_PLANE, sequence=["first"] * 7 + ["second"] * 5, title="A walk")
    return model, path


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """A model of three latents with gaps and named rows, of which one has nothing observed, and its page."""
    Y = pd.DataFrame(table(with_gaps=True), columns=NAMES, index=[f"frame {n}" for n in range(12)])
    model = fitted(BayesianGPLVM(n_latents=3, n_inducing=5, max_iter=0, random_state=0), Y)
    free = model.state_.free
    as_much = {**free.log_theta, "ard_weights": np.zeros_like(free.log_theta["ard_weights"])}
    model = fitted(model, Y, start=replace(free, log_theta=as_much))
    path = tmp_path_factory.mktemp("explorer") / "frames.html"
    model.explore(path)
    return model, path
