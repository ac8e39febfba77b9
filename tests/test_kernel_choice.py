"""Which kernel a search has: a flexible one that is ahead by its bound, otherwise what rows that were held out say."""

from __future__ import annotations

import numpy as np
import pytest

from dpgplvm import BayesianGPLVM
from dpgplvm.inference import held_out, kernel_choice
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.kernel_choice import with_best_kernel
from dpgplvm.inference.one_group import one_group
from dpgplvm.inference.options import Options
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF, Linear

OPTIONS = Options(n_latents=2, n_inducing=15, n_groups=2, noise="column", kernels=(RBF(), Linear()))


def table(bend, n_rows=60):
    """Two latents, twelve columns: straight, and bent by this much."""
    rng = np.random.default_rng(0)
    X, slopes, bends = rng.normal(size=(n_rows, 2)), rng.normal(size=(2, 12)), rng.normal(size=(2, 12))
    Y = X @ slopes + bend * np.cos(1.5 * X) @ bends + 0.1 * rng.normal(size=(n_rows, 12))
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


def fitted(Y, kernel):
    problem = Problem(Model(kernel), Y)
    return one_group(problem, OPTIONS, np.random.default_rng(0)).ended


@pytest.mark.parametrize(
    ("bend", "far", "kernel"), [(2.0, 0.05, RBF), (2.0, np.inf, RBF), (0.0, -np.inf, RBF), (0.0, 0.05, Linear)]
)
def test_a_flexible_kernel_that_is_far_ahead_goes_on_and_otherwise_rows_held_out_choose(
    float64, monkeypatch, bend, far, kernel
):
    monkeypatch.setattr(held_out, "_FAR_AHEAD", far)
    first = with_best_kernel(Model(RBF()), table(bend), OPTIONS, np.random.default_rng(0))
    assert isinstance(first.problem.model.kernel, kernel)


@pytest.mark.parametrize(("error", "chosen"), [(0.4955, Linear), (0.4945, RBF), (0.51, Linear)])
def test_a_linear_kernel_is_kept_where_a_flexible_one_fills_gaps_no_better(float64, monkeypatch, error, chosen):
    judged = held_out.Judged(np.array([0.01, 0.0]), np.array([error, 0.5]))
    monkeypatch.setattr(held_out, "judged_by_held_out_rows", lambda *_: judged)
    first = with_best_kernel(Model(RBF()), table(0.0), OPTIONS, np.random.default_rng(0))
    assert isinstance(first.problem.model.kernel, chosen)


@pytest.mark.parametrize(
    ("densities", "chosen"), [((0.0, 1.0), Linear), ((1.0, 0.0), RBF), ((0.0, 0.01), RBF), ((0.0, 0.06), Linear)]
)
def test_filled_gaps_decide_where_densities_are_much_the_same(float64, monkeypatch, densities, chosen):
    judged = held_out.Judged(np.array(densities), np.array([0.4, 0.5]))
    monkeypatch.setattr(held_out, "judged_by_held_out_rows", lambda *_: judged)
    first = with_best_kernel(Model(RBF()), table(0.0), OPTIONS, np.random.default_rng(0))
    assert isinstance(first.problem.model.kernel, chosen)


def test_rows_held_out_are_judged_as_a_fitted_model_would(float64):
    """The same numbers from the public face: a model of the other rows, its densities and its filled gaps."""
    Y = table(0.0)
    rng = np.random.default_rng(3)
    judged = held_out.judged_by_held_out_rows([fitted(Y, Linear())], Problem(Model(Linear()), Y), rng)
    rng = np.random.default_rng(3)
    order, half = rng.permutation(60), rng.permutation(12) < 6
    model = BayesianGPLVM(n_latents=2, kernel="linear", noise="column", standardise=False, random_state=0)
    model.fit(Y[order[:40]])
    unseen = Y[order[40:]]
    filled = [model.impute(np.where(hidden, np.nan, unseen)) for hidden in (half, ~half)]
    error = np.mean((np.where(half, *filled) - unseen) ** 2)
    assert judged.densities[0] == pytest.approx(model.score(unseen) / 12, abs=0.02)
    assert judged.errors[0] == pytest.approx(error, rel=0.02)


def test_rows_held_out_are_drawn_for_in_two_rounds(float64, monkeypatch):
    Y, asked, posterior = table(0.0), [], held_out.posterior_of_rows

    def noted(predictor, rows, most_rounds=None):
        asked.append(most_rounds)
        return posterior(predictor, rows, most_rounds)

    monkeypatch.setattr(held_out, "posterior_of_rows", noted)
    held_out.judged_by_held_out_rows([fitted(Y, Linear())], Problem(Model(Linear()), Y), np.random.default_rng(3))
    assert asked == [2, 2, 2]


@pytest.mark.parametrize(("bend", "kernel"), [(0.0, Linear), (2.0, RBF)])
def test_rows_that_were_held_out_know_what_a_table_was_made_with(float64, bend, kernel):
    Y = table(bend)
    found = [fitted(Y, own) for own in OPTIONS.kernels]
    judged = held_out.judged_by_held_out_rows(found, Problem(Model(RBF()), Y), np.random.default_rng(0))
    assert isinstance(OPTIONS.kernels[judged.densities.argmax()], kernel)
    assert isinstance(OPTIONS.kernels[judged.errors.argmin()], kernel)


@pytest.mark.parametrize("why", ["too few rows", "a column that is constant without them"])
@pytest.mark.parametrize("ahead", [RBF, Linear])
def test_the_bound_decides_where_rows_cannot(float64, monkeypatch, why, ahead):
    Y = table(0.0, n_rows=20 if why == "too few rows" else 60)
    if why == "a column that is constant without them":
        Y[:, 3] = np.arange(60) == np.random.default_rng(0).permutation(60)[-1]
    monkeypatch.setattr(held_out, "_FAR_AHEAD", np.inf)
    monkeypatch.setattr(kernel_choice, "_corrected", lambda first: float(isinstance(first.problem.model.kernel, ahead)))
    first = with_best_kernel(Model(RBF()), Y, OPTIONS, np.random.default_rng(0))
    assert isinstance(first.problem.model.kernel, ahead)


def test_the_bound_decides_where_no_kernel_can_be_judged(float64, monkeypatch):
    nothing = held_out.Judged(np.full(2, -np.inf), np.full(2, np.inf))
    monkeypatch.setattr(held_out, "judged_by_held_out_rows", lambda *_: nothing)
    assert held_out.which_kernel([1.0, 2.0], [], Problem(Model(RBF()), table(0.0)), np.random.default_rng(0)) == 1
