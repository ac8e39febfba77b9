"""How many latents there are where nobody says: ten, and twice as many where all of them are used."""

from __future__ import annotations

import numpy as np
import pytest

from dpgplvm import DPGPLVM
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.kernel_choice import with_best_kernel
from dpgplvm.inference.one_group import one_group, with_enough_latents
from dpgplvm.inference.options import Options
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import Linear

MOST = 8


def table(n_latents, n_rows=60, n_columns=16):
    rng = np.random.default_rng(n_latents)
    Y = rng.normal(size=(n_rows, n_latents)) @ rng.normal(size=(n_latents, n_columns))
    Y += 0.1 * rng.normal(size=Y.shape)
    # Not column by column: noise is common to all of them while latents are counted.
    return (Y - Y.mean(axis=0)) / Y.std()


def options(**others):
    return Options(n_latents=2, n_inducing=15, n_groups=2, noise="column", **others)


@pytest.mark.parametrize(
    ("true", "most", "has"),
    [(1, MOST, 2), (3, MOST, 4), (6, MOST, MOST), (6, 5, 5), (6, 2, 2)],
    ids=["one is unused", "twice as many", "twice again", "no more than there may be", "asked for"],
)
def test_latents_are_doubled_while_all_of_them_are_used(float64, true, most, has):
    problem, asked, rng = Problem(Model(Linear()), table(true)), options(most_latents=most), np.random.default_rng(0)
    enough = with_enough_latents(one_group(problem, asked, rng), asked, rng)
    assert enough.common.state.free.inducing.shape[1] == has


def test_a_search_begins_with_enough_latents(float64):
    asked = options(most_latents=MOST, kernels=(Linear(),))
    first = with_best_kernel(Model(Linear()), table(6), asked, np.random.default_rng(0))
    assert first.common.state.free.inducing.shape[1] == MOST


@pytest.fixture(scope="module")
def wide():
    return table(14, n_rows=80, n_columns=30)


def test_more_than_ten_latents_are_found_without_being_asked_for(wide):
    model = DPGPLVM(n_inducing=15, truncation=1, kernel="linear", max_iter=30, n_starts=2, random_state=0).fit(wide)
    assert model.n_latents_ > 10
    # A fit that goes on has them too.
    again = model.set_params(warm_start=True, n_starts=1).fit(wide)
    assert again.n_latents_ > 10


def test_no_more_latents_than_asked_for(wide):
    model = DPGPLVM(n_latents=10, n_inducing=15, truncation=2, kernel="linear", max_iter=5, random_state=0).fit(wide)
    assert model.state_.free.inducing.shape[1] == 10
