"""Searches that are cut off or fail on the way: whatever was reached is kept."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dpgplvm import DPGPLVM, Outcome
from dpgplvm.datasets import make_views
from dpgplvm.inference import kernel_choice, starts
from dpgplvm.inference.embeddings import principal_components
from dpgplvm.inference.grouping import Problem
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.one_group import one_group, with_enough_latents
from dpgplvm.inference.options import Options
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF, Linear
from dpgplvm.numerics import NumericalError, double_precision

pytestmark = pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=30, latents=((0,), (1,)), columns=3, random_state=0).Y


def search(**changes):
    settings = {"n_latents": 2, "n_inducing": 8, "truncation": 3, "max_iter": 5, "kernel": "rbf", "random_state": 0}
    return DPGPLVM(**{**settings, **changes})


def places(first, n_places):
    """Shares of a search at which to end it; every other one is left to the long suite."""
    shares = np.linspace(first, 0.98, n_places).round(2)
    return [pytest.param(share, marks=[pytest.mark.slow] * (i % 2)) for i, share in enumerate(shares)]


def assert_whole(model):
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.corrected_bound_)
    assert np.isfinite(model.latents_).all()
    assert np.isfinite(model.relevance_).all()
    assert model.elbo_ == pytest.approx(sum(model.elbo_terms_.values()), rel=1e-12)


def evaluations_of(run):
    """How often the bound is evaluated on this thread."""
    calls, evaluate, here = [], Objective.evaluate, threading.get_ident
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objective, "evaluate", lambda self, free: calls.append(here()) or evaluate(self, free))
        run()
    return calls.count(here())


@pytest.fixture(scope="module")
def n_evaluations(table):
    return evaluations_of(lambda: search().fit(table))


@pytest.mark.parametrize("share", places(0.0, 17))
def test_ctrl_c_anywhere_ends_a_search_with_what_there_is(failing, table, n_evaluations, share):
    at = 3 + int(share * (n_evaluations - 3))
    calls = failing(lambda n, held: n == at, KeyboardInterrupt())
    model = search().fit(table)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert len(calls) <= at + 30
    assert_whole(model)


@pytest.fixture(scope="module")
def bent():
    """A table that is linear for the most part, with rows to hold out."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(45, 2))
    Y = np.repeat(X, 4, axis=1) * rng.normal(size=8) + 0.7 * np.cos(1.5 * np.repeat(X, 4, axis=1)) * rng.normal(size=8)
    return Y + 0.1 * rng.normal(size=Y.shape)


@pytest.fixture(scope="module")
def n_with_all_stages(bent):
    model = search(kernel="auto")
    n_evaluations = evaluations_of(lambda: model.fit(bent))
    assert [move for move in model.moves_ if move.kind == "enrich"]
    return n_evaluations


@pytest.mark.parametrize("share", places(0.2, 11))
def test_ctrl_c_anywhere_ends_a_search_among_kernels_with_all_rows(failing, bent, n_with_all_stages, share):
    at = 3 + int(share * (n_with_all_stages - 3))
    failing(lambda n, held: n == at, KeyboardInterrupt())
    model = search(kernel="auto").fit(bent)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert len(model.latents_) == len(bent)
    assert_whole(model)


@pytest.fixture(scope="module")
def straight():
    """A table for which two latents are not enough, with too few rows to hold any out."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(27, 5)) @ rng.normal(size=(5, 10)) + 0.1 * rng.normal(size=(27, 10))
    return (Y - Y.mean(axis=0)) / Y.std()


OPTIONS = Options(n_latents=2, n_inducing=8, n_groups=2, noise="column", most_latents=4, kernels=(RBF(), Linear()))


def first_stage(table):
    return kernel_choice.with_best_kernel(Model(RBF()), table, OPTIONS, np.random.default_rng(0))


@pytest.fixture(scope="module")
def n_of_first_stage(straight):
    with double_precision():
        return evaluations_of(lambda: first_stage(straight))


@pytest.mark.parametrize("share", places(0.0, 17))
def test_ctrl_c_ends_the_choice_of_kernels_and_of_latents_at_once(failing, float64, straight, n_of_first_stage, share):
    at = 3 + int(share * (n_of_first_stage - 3))
    calls = failing(lambda n, held: n == at, KeyboardInterrupt())
    reached = first_stage(straight)
    assert reached.is_interrupted
    assert reached.own is None
    assert len(calls) <= at + 3
    assert np.isfinite(reached.common.value)


def test_ctrl_c_does_not_lose_the_noise_of_columns(failing, float64, straight):
    problem = Problem(Model(Linear()), straight)
    first = one_group(problem, OPTIONS, np.random.default_rng(0))
    failing(lambda n, held: n == 8, KeyboardInterrupt())
    reached = with_enough_latents(first, OPTIONS, np.random.default_rng(0))
    assert reached.is_interrupted
    assert reached.common.value == first.ended.climb.value > first.common.value


def test_ctrl_c_leaves_the_beginning_that_had_gone_furthest(monkeypatch, float64):
    Y = make_views(n_samples=60, latents=((0, 1),), columns=8, random_state=0).Y
    stage, bounds = kernel_choice.begin, []

    def noted(problem, options, start, beginning, callback=None):
        begun = stage(problem, options, start, beginning, callback)
        bounds.append(begun.common.value)
        return begun

    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(kernel_choice, "begin", noted)
    monkeypatch.setattr(kernel_choice, "finish", interrupted)
    asked = OPTIONS._replace(kernels=(RBF(),))
    reached = kernel_choice.with_best_kernel(Model(RBF()), Y / Y.std(axis=0), asked, np.random.default_rng(0))
    assert reached.is_interrupted
    assert len(bounds) == 6
    assert reached.common.value == max(bounds) > bounds[0]


def test_an_embedding_that_fails_does_not_end_a_search(monkeypatch, table):
    stage, failed = kernel_choice.begin, []

    def others_fail(problem, options, start, beginning, callback=None):
        if beginning.embedded.by is not principal_components:
            failed.append(beginning)
            raise NumericalError("not positive definite")
        return stage(problem, options, start, beginning, callback)

    monkeypatch.setattr(kernel_choice, "begin", others_fail)
    assert_whole(search().fit(table))
    assert len(failed) == 4


def test_candidates_that_cannot_be_evaluated_do_not_end_a_search(failing, table):
    calls = failing(lambda n, held: held > 1, NumericalError("not positive definite"))
    model = search().fit(table)
    assert max(calls) > 1
    assert model.n_groups_ == 1
    assert_whole(model)


def test_starts_that_fail_are_left_out(monkeypatch, table):
    searching, numbers = starts.search, []

    def second_fails(*arguments):
        numbers.append(len(numbers))
        if numbers[-1] == 1:
            raise NumericalError("not positive definite")
        return searching(*arguments)

    monkeypatch.setattr(starts, "search", second_fails)
    model = search(n_starts=3).fit(table)
    assert numbers == [0, 1, 2]
    assert len(model.starts_) == 2
    assert_whole(model)


def test_when_every_start_fails_so_does_the_fit(monkeypatch, table):
    def fails(*arguments):
        raise NumericalError("not positive definite")

    monkeypatch.setattr(starts, "search", fails)
    with pytest.raises(NumericalError, match="not positive definite"):
        search(n_starts=2).fit(table)


def test_a_kernel_that_fails_is_not_chosen(monkeypatch, table):
    stage = kernel_choice.begin

    def rbf_fails(problem, *arguments, **options):
        if "signal_variance" in problem.model.kernel.parameters:
            raise NumericalError("not positive definite")
        return stage(problem, *arguments, **options)

    monkeypatch.setattr(kernel_choice, "begin", rbf_fails)
    assert search(kernel="auto").fit(table).kernel_ in ("linear", "rbf+linear")


def test_terms_add_up_whichever_process_found_them(table):
    assert_whole(search(n_starts=2, n_jobs=2).fit(table))
