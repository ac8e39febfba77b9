"""A linear kernel and the RBF that may join it: straight columns stay straight, bent ones do not."""

from __future__ import annotations

import numpy as np
import pytest

from dpgplvm.inference import kernel_choice
from dpgplvm.inference.enrich import enrich
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.kernel_choice import choose_kernel
from dpgplvm.inference.options import Options
from dpgplvm.inference.search import one_group, with_own_noise
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF, Linear, RBFLinear

OPTIONS = Options(n_latents=2, n_inducing=15, n_groups=2, noise="column", kernels=(RBF(), Linear()), enrich=True)


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


def test_a_richer_kernel_that_is_wanted_is_kept_whatever_its_bound(float64):
    problem, before = straight_fit(table(0.0))
    after = enrich(problem, before, 15, np.random.default_rng(0), [], always=True)
    assert isinstance(after.model.kernel, RBFLinear)
    assert after.corrected < before.corrected


@pytest.mark.parametrize(("bend", "kernel"), [(0.0, Linear), (2.0, RBF)])
def test_where_bounds_are_close_rows_that_were_held_out_choose_the_kernel(float64, monkeypatch, bend, kernel):
    monkeypatch.setattr(kernel_choice, "_CLEARLY_AHEAD", np.inf)
    choice = choose_kernel(Model(RBF()), table(bend), OPTIONS, np.random.default_rng(0))
    assert isinstance(choice.problem.model.kernel, kernel)
    assert choice.richer is False


@pytest.mark.parametrize(
    ("densities", "kernel", "richer"),
    [
        ({Linear: 0.0, RBF: 0.5, RBFLinear: 0.4}, RBF, False),
        ({Linear: 0.4, RBF: 0.4, RBFLinear: 0.5}, Linear, True),
    ],
)
def test_the_kernel_that_says_most_about_rows_that_were_held_out_is_chosen(
    float64, monkeypatch, densities, kernel, richer
):
    monkeypatch.setattr(kernel_choice, "_CLEARLY_AHEAD", np.inf)
    monkeypatch.setattr(kernel_choice, "_density", lambda grouping, *_: densities[type(grouping.model.kernel)])
    choice = choose_kernel(Model(RBF()), table(0.7), OPTIONS, np.random.default_rng(0))
    assert isinstance(choice.problem.model.kernel, kernel)
    assert choice.richer is richer


def test_a_kernel_that_is_far_ahead_by_its_bound_need_not_prove_it(float64, monkeypatch):
    monkeypatch.setattr(kernel_choice, "_CLEARLY_AHEAD", 0.0)
    monkeypatch.setattr(kernel_choice, "_density", lambda *_: pytest.fail("rows were held out"))
    choice = choose_kernel(Model(RBF()), table(2.0), OPTIONS, np.random.default_rng(0))
    assert isinstance(choice.problem.model.kernel, RBF)
    assert choice.richer is None
