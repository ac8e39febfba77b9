"""Finer groups: splits by what columns would rather have, and merges, from places whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dpgplvm import DPGPLVM
from dpgplvm.datasets import make_views
from dpgplvm.inference.finer import _STEP, _splits, finer, gains
from dpgplvm.inference.grouping import Problem, start_from_origins
from dpgplvm.inference.moves import _may_get_above, cheapest_merges
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.occam import own_numbers, with_own_numbers
from dpgplvm.numerics import NumericalError

BUDGET = 30


@pytest.fixture(scope="module")
def found():
    """Three groups of columns, each with latents of its own, as a search finds them."""
    views = make_views(
        n_samples=70, latents=((0,), (1,), (0, 1)), columns=6, weights=0.5, noise_variance=0.02, random_state=1
    )
    model = DPGPLVM(n_latents=3, n_inducing=15, truncation=5, kernel="rbf", random_state=0).fit(views.Y)
    assert adjusted_rand_score(views.groups, model.groups_) == 1.0
    return model, views.groups


@pytest.fixture
def problem(found, float64):
    model = found[0]
    return Problem(model._model, model._scaling.to_model(model._learned))


def grouped(problem, free, labels, max_iter=60):
    return problem.fit(jax.tree.map(jnp.asarray, free), labels, max_iter, 0, 1e-7)


@pytest.fixture
def best(found, problem):
    state = found[0].state_
    return grouped(problem, state.free, np.asarray(state.phi).argmax(axis=1), max_iter=0)


@pytest.fixture
def as_one(best, problem):
    """All columns in one group, at rest there."""
    start, n_groups = start_from_origins(best, np.zeros(len(best.labels), dtype=int))
    assert n_groups == 1
    return grouped(problem, start, np.zeros(len(best.labels), dtype=int), max_iter=200)


def test_groups_that_were_merged_part_again(found, problem, as_one):
    assert as_one.n_groups == 1
    log = []
    *_, last = finer(problem, as_one, BUDGET, log)
    assert adjusted_rand_score(found[1], last.labels) == 1.0
    assert last.corrected > as_one.corrected
    assert "split" in [move.kind for move in log if move.accepted]


def test_groups_that_are_right_stay(found, problem, best):
    log = []
    *_, last = finer(problem, best, BUDGET, log)
    assert adjusted_rand_score(found[1], last.labels) == 1.0
    assert {move.kind for move in log} >= {"merge"}


def test_groups_that_are_one_in_truth_merge(found, problem, best, monkeypatch):
    # At rest, one of two groups that are alike would lose its columns without any move.
    monkeypatch.setattr("dpgplvm.inference.moves.at_rest", lambda problem, grouping: grouping)
    halved = best.labels.copy()
    halved[np.flatnonzero(halved == 0)[::2]] = best.n_groups
    start, n_groups = start_from_origins(best, halved)
    split = grouped(problem, start, halved, max_iter=5)
    assert split.n_groups == n_groups == 4
    log = []
    *_, last = finer(problem, split, BUDGET, log)
    assert adjusted_rand_score(found[1], last.labels) == 1.0
    assert next(move.kind for move in log if move.accepted) in ("merge", "dissolve")


def test_gains_are_differences_of_bounds(found, problem, best):
    gained = gains(problem, best)
    free = jax.tree.map(np.asarray, best.free)
    columns = np.arange(len(best.labels))
    numbers = own_numbers(problem.model, free)
    i = int(np.abs(gained).sum(axis=(1, 2)).argmax())
    for t in range(best.n_groups):
        moved = numbers.copy()
        moved[t, i] -= _STEP
        there = Objective(problem.model, problem.Y, np.asarray(best.climb.state.phi), best.n_groups).evaluate(
            with_own_numbers(problem.model, free, moved)
        )
        own = best.labels == t
        difference = (np.asarray(there.bounds) - best.bounds)[columns, best.labels]
        np.testing.assert_allclose(gained[i, 1, own], difference[own], rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(difference[~own], 0.0, atol=1e-8)


def test_columns_of_different_groups_pull_in_opposite_directions(found, problem, as_one):
    """In one group, some number of it is better higher for the columns of one true group and lower for another's."""
    up, down = gains(problem, as_one).swapaxes(0, 1)
    of_groups = np.array([(up - down)[:, found[1] == t].sum(axis=1) for t in range(3)])
    assert ((of_groups.min(axis=0) < -10.0) & (of_groups.max(axis=0) > 10.0)).any()


def test_hyperparameters_settle_while_latents_stay(problem, best):
    start, n_groups = start_from_origins(best, np.minimum(best.labels, 1))
    before = problem.objective(n_groups).evaluate(start).value
    settled, labels = problem.settled(start, n_groups)
    assert problem.objective(n_groups).evaluate(settled).value > before
    jax.tree.map(np.testing.assert_array_equal, settled.latents, start.latents)
    np.testing.assert_array_equal(settled.inducing, start.inducing)
    np.testing.assert_array_equal(np.argsort(-np.bincount(labels), kind="stable"), np.arange(labels.max() + 1))


def test_a_group_has_the_average_of_what_its_columns_had(problem, best):
    labels = np.where(best.labels == 2, 0, best.labels)
    start, n_groups = start_from_origins(best, labels)
    assert n_groups == 2
    sizes = np.bincount(best.labels)
    for name, before in best.free.log_theta.items():
        before, after = np.exp(np.asarray(before)), np.exp(np.asarray(start.log_theta[name]))
        merged = (sizes[0] * before[0] + sizes[2] * before[2]) / (sizes[0] + sizes[2])
        np.testing.assert_allclose(after[:2], [merged, before[1]], rtol=1e-12)  # the larger group comes first
        np.testing.assert_array_equal(after[2:], before[2:])


def test_a_grouping_from_its_own_origins_is_as_it_was(problem, best):
    start, n_groups = start_from_origins(best, best.labels)
    value = problem.objective(n_groups).evaluate(start).value
    assert value == pytest.approx(best.climb.value, abs=0.01)  # sticks are climbed to from elsewhere


def test_every_pair_is_merged_once(best):
    alike = best._replace(bounds=np.zeros_like(best.bounds))
    kinds = [kind for kind, _ in cheapest_merges(alike)]
    assert kinds.count("merge") == 3


def test_no_group_is_split_when_there_are_no_spare_ones(found, problem, as_one):
    free = as_one.free
    one = replace(free, log_theta={name: values[:1] for name, values in free.log_theta.items()})
    only = grouped(problem, one, as_one.labels, max_iter=0)
    log = []
    *_, last = finer(problem, only, BUDGET, log)
    assert last.n_groups == 1
    assert not log


def test_no_more_moves_than_there_is_a_budget_for(problem, as_one):
    log = []
    list(finer(problem, as_one, 1, log))
    assert len(log) == 1


@pytest.mark.parametrize(("noise", "share"), [("group", 0.0), ("column", 0.1)], ids=["noise of groups", "gaps"])
def test_columns_that_were_put_together_part_whatever_the_model(float64, noise, share):
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=6, weights=0.5, noise_variance=0.02, random_state=1)
    gaps = np.random.default_rng(0).random(views.Y.shape) < share
    options = {"n_latents": 2, "n_inducing": 12, "truncation": 4, "kernel": "rbf", "max_iter": 50, "random_state": 0}
    model = DPGPLVM(noise=noise, **options).fit(np.where(gaps, np.nan, views.Y))
    problem = Problem(model._model, model._scaling.to_model(model._learned))
    as_they_are = grouped(problem, model.state_.free, model.groups_, max_iter=0)
    start, _ = start_from_origins(as_they_are, np.zeros_like(views.groups))
    # Not at rest: with one group, latents would turn.
    together = grouped(problem, start, np.zeros_like(views.groups), max_iter=0)
    split = next(_splits(problem, together))
    assert split.kind == "split"
    assert adjusted_rand_score(views.groups, split.labels) == 1.0


def test_a_number_that_groups_cannot_have_is_no_gain(problem, best, monkeypatch):
    def fails(self, free):
        raise NumericalError("no")

    monkeypatch.setattr(Objective, "evaluate", fails)
    assert not gains(problem, best).any()


def test_what_ends_below_its_origin_gets_more_iterations_only_if_it_may_get_above(best):
    def at(value, corrected, n_groups):
        climb = best.climb._replace(value=value)
        return best._replace(climb=climb, corrected=corrected, n_groups=n_groups)

    origin = at(-100.0, -80.0, 2)  # every group pays -10
    assert _may_get_above(at(-95.0, -90.0, 2), origin)  # only just below
    assert _may_get_above(at(-105.0, -200.0, 3), origin)  # -75, at the price of the origin's groups
    assert not _may_get_above(at(-115.0, -200.0, 3), origin)
    assert not _may_get_above(at(-90.0, -70.0, 2), origin)  # it is above
