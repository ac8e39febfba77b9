"""Which kernel a search has: a flexible one that is ahead by its bound, otherwise what rows that were held out say."""

from __future__ import annotations

import numpy as np
import pytest

from dpgplvm.inference import kernel_choice
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.kernel_choice import best_by_held_out_rows, close_kernels
from dpgplvm.inference.one_group import one_group
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
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
    ("bend", "share", "kernels"), [(2.0, np.inf, [RBF]), (0.0, np.inf, [Linear, RBF]), (0.0, 0.0, [Linear])]
)
def test_a_flexible_kernel_is_searched_unless_rows_held_out_are_against_it(float64, monkeypatch, bend, share, kernels):
    monkeypatch.setattr(kernel_choice, "_CLEARLY_AHEAD", share)
    close = close_kernels(Model(RBF()), table(bend), OPTIONS, np.random.default_rng(0))
    assert [type(first.problem.model.kernel) for first in close] == kernels


def test_both_kernels_are_searched_where_no_rows_can_be_held_out(float64):
    close = close_kernels(Model(RBF()), table(0.0, n_rows=20), OPTIONS, np.random.default_rng(0))
    assert [type(first.problem.model.kernel) for first in close] == [Linear, RBF]


@pytest.mark.parametrize(("bend", "kernel"), [(0.0, Linear), (2.0, RBF)])
def test_rows_that_were_held_out_know_what_a_table_was_made_with(float64, bend, kernel):
    Y = table(bend)
    # Bounds that say the opposite are not asked.
    found = [fitted(Y, own)._replace(corrected=-1.0 if isinstance(own, kernel) else 1.0) for own in OPTIONS.kernels]
    best = best_by_held_out_rows(found, Problem(Model(RBF()), Y), np.random.default_rng(0))
    assert isinstance(found[best].model.kernel, kernel)


@pytest.mark.parametrize("why", ["too few rows", "a column that is constant without them", "interrupted"])
def test_the_bound_decides_where_rows_cannot(float64, why):
    Y = table(0.0, n_rows=20 if why == "too few rows" else 60)
    if why == "a column that is constant without them":
        Y[:, 3] = np.arange(60) == np.random.default_rng(0).permutation(60)[-1]
    bounds = {RBF: 1.0, Linear: 0.0}
    found = [fitted(Y, own)._replace(corrected=bounds[type(own)]) for own in OPTIONS.kernels]
    if why == "interrupted":
        found[1] = found[1].ended(Outcome.INTERRUPTED)
    assert best_by_held_out_rows(found, Problem(Model(RBF()), Y), np.random.default_rng(0)) == 0
