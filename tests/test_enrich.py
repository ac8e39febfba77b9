"""A linear kernel and the RBF that may join it: straight columns stay straight, bent ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from dpgplvm.inference.enrich import enrich
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.options import Options
from dpgplvm.inference.search import one_group, with_own_noise
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import Linear, RBFLinear

OPTIONS = Options(n_latents=2, n_inducing=15, n_groups=2, noise="column")


def table(bend, seed=0):
    """Two latents, twelve columns: straight, and bent by this much."""
    rng = np.random.default_rng(seed)
    X, slopes, bends = rng.normal(size=(60, 2)), rng.normal(size=(2, 12)), rng.normal(size=(2, 12))
    Y = X @ slopes + bend * np.cos(1.5 * X) @ bends + 0.1 * rng.normal(size=(60, 12))
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


def straight_fit(Y):
    problem = Problem(Model(Linear()), Y)
    return problem, with_own_noise(problem, one_group(problem, OPTIONS, np.random.default_rng(0)), OPTIONS)


@pytest.mark.parametrize(("bend", "helps"), [(0.0, False), (0.7, True)])
def test_an_rbf_joins_where_columns_bend(float64, bend, helps):
    problem, before = straight_fit(table(bend))
    log = []
    after = enrich(problem, before, 15, np.random.default_rng(0), log)
    assert [(move.kind, move.accepted) for move in log] == [("enrich", helps)]
    assert isinstance(after.model.kernel, RBFLinear if helps else Linear)
    assert (after.corrected > before.corrected) == helps
    assert np.array_equal(after.labels, before.labels)
