"""Several starts: the same answer however many processes share the work, and told when they disagree."""

from __future__ import annotations

import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import clone

from dpgplvm import DPGPLVM, Outcome
from dpgplvm.advice import FitWarning, advise
from dpgplvm.datasets import make_views
from dpgplvm.inference import starts
from dpgplvm.inference.moves import Move
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.search import Found
from dpgplvm.inference.starts import Start, agreement
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import Linear, RBFLinear


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=40, latents=((0,), (1,)), columns=4, random_state=0).Y


def several(**changes):
    settings = {"n_latents": 3, "n_inducing": 10, "truncation": 3, "kernel": "rbf", "max_iter": 30, "random_state": 0}
    return DPGPLVM(**{**settings, "n_starts": 3, **changes})


@pytest.fixture(scope="module")
def three(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return several(n_jobs=1).fit(table)


def assert_same_starts(one, other):
    assert len(one) == len(other)
    for first, second in zip(one, other, strict=True):
        assert first._replace(groups=None) == second._replace(groups=None)
        assert np.array_equal(first.groups, second.groups)


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
def test_processes_do_not_change_the_answer(table, three):
    two_processes = clone(three).set_params(n_jobs=2).fit(table)
    assert np.array_equal(two_processes.groups_, three.groups_)
    assert two_processes.elbo_ == three.elbo_
    assert np.array_equal(two_processes.latents_, three.latents_)
    assert np.array_equal(two_processes.coassignment_, three.coassignment_)
    assert_same_starts(two_processes.starts_, three.starts_)


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
def test_processes_do_not_change_the_kernel_that_is_chosen():
    Y = make_views(n_samples=40, latents=((0,), (1,)), columns=4, linear=True, random_state=0).Y
    alone, shared = (several(kernel="auto", n_starts=2, n_jobs=n_jobs).fit(Y) for n_jobs in (1, 2))
    assert alone.kernel_ == shared.kernel_ == "linear"
    assert alone.elbo_ == shared.elbo_
    assert_same_starts(alone.starts_, shared.starts_)


def test_the_first_start_is_that_of_a_single_one(table, three):
    single = several(n_starts=1).fit(table)
    assert_same_starts(single.starts_, three.starts_[:1])
    assert single.elbo_ == three.starts_[0].elbo
    assert single.corrected_bound_ == three.starts_[0].corrected


def test_starts_are_different_places_and_the_best_is_kept(three):
    assert len({start.elbo for start in three.starts_}) == 3
    best = max(three.starts_, key=lambda start: start.corrected)
    assert three.corrected_bound_ == best.corrected
    assert three.elbo_ == best.elbo
    assert np.array_equal(three.groups_, best.groups)
    assert three.n_groups_ == best.n_groups
    assert all(isinstance(start.outcome, Outcome) for start in three.starts_)


def test_coassignment_is_a_probability(three):
    together = three.coassignment_
    assert together.shape == (8, 8)
    np.testing.assert_array_equal(together, together.T)
    assert together.min() >= 0.0
    assert together.max() <= 1.0 + 1e-12
    np.testing.assert_allclose(np.diagonal(together), 1.0, atol=0.05)
    shares = np.mean([np.equal.outer(start.groups, start.groups) for start in three.starts_], axis=0)
    np.testing.assert_allclose(together, shares, atol=0.2)


@pytest.fixture
def interrupted(monkeypatch, table):
    """The same fit, with Ctrl-C in the evaluation of that number after the beginning of the second start."""
    evaluate, calls = Objective.evaluate, []
    search = starts.search

    def counted(*arguments):
        calls.append(0)
        return search(*arguments)

    def fit(at):
        def interrupting(self, free):
            if len(calls) == 2:
                calls[-1] += 1
                if calls[-1] == at:
                    raise KeyboardInterrupt
            return evaluate(self, free)

        monkeypatch.setattr(starts, "search", counted)
        monkeypatch.setattr(Objective, "evaluate", interrupting)
        try:
            return several(n_jobs=None).fit(table)
        except KeyboardInterrupt:
            pytest.fail("the start before was lost")

    return fit


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
@pytest.mark.parametrize("at", [1, 2, 10, 40, 100])
def test_ctrl_c_in_a_later_start_keeps_the_ones_before(interrupted, three, at):
    model = interrupted(at)
    assert 1 <= len(model.starts_) <= 2
    assert_same_starts(model.starts_[:1], three.starts_[:1])
    assert model.corrected_bound_ >= three.starts_[0].corrected


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
@pytest.mark.parametrize("at", [1, 20])
def test_ctrl_c_while_kernels_are_compared_keeps_the_first(monkeypatch, table, at):
    evaluate, calls = Objective.evaluate, []

    def interrupting(self, free):
        if threading.current_thread() is threading.main_thread():
            calls.append(free)
            if len(calls) == at + 1:
                raise KeyboardInterrupt
        return evaluate(self, free)

    monkeypatch.setattr(Objective, "evaluate", interrupting)
    model = several(kernel="auto", n_starts=1).fit(table)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert model.kernel_ == "rbf"
    assert model.n_groups_ == 1


def start_with(*groups, corrected=0.0):
    return Start(0.0, corrected, len(set(groups)), np.array(groups), Outcome.CONVERGED)


def test_agreement_does_not_look_at_numbers_of_groups():
    one, renumbered, other = start_with(0, 0, 1, 1), start_with(1, 1, 0, 0), start_with(0, 1, 0, 1)
    assert agreement([one]) == 1.0
    assert agreement([one, one, one]) == 1.0
    assert agreement([one, renumbered]) == 1.0
    # Two halves that cross: an adjusted Rand index of -1/2.
    assert agreement([one, other]) == pytest.approx(-0.5)
    assert agreement([one, renumbered, other]) == pytest.approx((1.0 - 0.5 - 0.5) / 3.0)


def ended(explained=(0.9, 0.4), starts=(), max_iter=100, **more):
    known = {"max_iter": max_iter, "explained_": np.array(explained), "starts_": list(starts), "kernel_": "rbf"}
    known |= {"outcome_": Outcome.CONVERGED, "moves_": [], "_seen": np.ones(5, dtype=bool), "n_iter_": 100}
    return SimpleNamespace(**{**known, **more})


AGREE = start_with(0, 0, 1, 1, corrected=-10.0), start_with(1, 1, 0, 0, corrected=-12.0)
SPLIT, ENRICH = (Move(kind, 2, 2, -10.0, -12.0, False) for kind in ("split", "enrich"))
DISAGREE = start_with(0, 0, 1, 1, corrected=-10.0), start_with(0, 1, 0, 1, corrected=-52.0)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ended(), []),
        (ended(starts=AGREE), []),
        (ended(starts=DISAGREE[:1]), []),
        (ended(explained=(0.9, 0.0)), []),
        (ended(explained=(0.0, 0.0), max_iter=0), []),
        (ended((0.03, 0.01), n_starts=1), [["noise", "3%", "n_starts", "n_latents", 'kernel="linear"']]),
        (ended(starts=DISAGREE), [["2 starts disagree", "-0.50", "42 nats", "coassignment_", "n_starts"]]),
        (ended(explained=(0.0, 0.0), starts=DISAGREE), [["noise"], ["disagree"]]),
        (ended(outcome_=Outcome.BUDGET_SPENT), [["still rising", "max_iter=100", "warm_start=True"]]),
        (ended(outcome_=Outcome.BUDGET_SPENT, max_iter=0), []),
        (ended(outcome_=Outcome.MOVES_SPENT, moves_=[*[SPLIT] * 60, ENRICH]), [["60 moves", "n_starts"]]),
        (ended(outcome_=Outcome.BUDGET_SPENT, moves_=[SPLIT] * 60), [["still rising", "max_iter=100"]]),
    ],
    ids=[
        *("good", "agreeing", "single", "one noisy column", "not fitted", "all noise", "disagreeing", "both"),
        *("iterations spent", "only evaluated", "moves spent", "many moves"),
    ],
)
def test_advice_is_given_where_it_is_needed(model, words):
    said = list(advise(model))
    assert len(said) == len(words)
    for sentence, wanted in zip(said, words, strict=True):
        assert all(word in sentence for word in wanted), sentence


def test_advice_can_be_followed():
    model = ended(explained=(0.0, 0.0))
    model.kernel_ = "linear"
    (said,) = advise(model)
    assert "n_latents" in said
    assert "n_starts" not in said
    assert "linear" not in said


@pytest.mark.parametrize("kernel", ["rbf", "linear", "auto"])
def test_a_table_of_noise_is_called_so(kernel):
    Y = np.random.default_rng(0).normal(size=(40, 8))
    with pytest.warns(FitWarning, match="everything is explained as noise") as caught:
        model = several(n_starts=1).set_params(kernel=kernel).fit(Y)
    assert model.explained_.max() < 0.05
    # The warning points at the line that called fit, not into the library.
    assert [warning.filename for warning in caught if warning.category is FitWarning] == [__file__]


def test_nothing_is_said_of_a_good_fit(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        several(n_starts=1).fit(table)


@pytest.mark.parametrize("chosen", [0, 1])
def test_rows_held_out_choose_between_starts_that_ended_with_different_kernels(monkeypatch, chosen):
    def found(kernel, corrected):
        return Found(SimpleNamespace(model=Model(kernel), corrected=corrected), [])

    asked = []

    def which_kernel(bounds, groupings, problem, rng):
        asked.append(bounds)
        return chosen

    monkeypatch.setattr(starts, "which_kernel", which_kernel)
    problem = SimpleNamespace(model=Model(Linear()))
    ended = [found(Linear(), 1.0), found(RBFLinear(), 3.0), found(Linear(), 2.0), found(RBFLinear(), 2.5)]
    best = starts._best_of_kernels(ended, problem, np.random.default_rng(0))
    assert asked == [[3.0, 2.0]]
    assert best.best.corrected == asked[0][chosen]
    assert starts._best_of_kernels(ended[::2], problem, np.random.default_rng(0)).best.corrected == 2.0
    assert len(asked) == 1
