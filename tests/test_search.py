"""The parts of the search for groups, each against an answer that is known."""

from __future__ import annotations

from itertools import combinations, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from dpgplvm import DPGPLVM, FitWarning, Outcome
from dpgplvm.datasets import make_views
from dpgplvm.inference import search
from dpgplvm.inference.axes import _rounds, rotate, slopes, sparse_axes
from dpgplvm.inference.climb import climb
from dpgplvm.inference.grouping import Grouping, Problem, reordered, start_from_labels
from dpgplvm.inference.moves import Move, Proposal, improve
from dpgplvm.inference.objective import Objective
from dpgplvm.inference.one_group import one_group
from dpgplvm.inference.options import Options
from dpgplvm.inference.profiles import canonical
from dpgplvm.inference.start import start_from_embedding
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF
from dpgplvm.model.posterior import inducing_weights, mean_at
from dpgplvm.model.state import Free
from dpgplvm.model.table import Table


@pytest.fixture(scope="module")
def toy():
    table = make_views(n_samples=80, columns=8, random_state=3)
    return (table.Y - table.Y.mean(axis=0)) / table.Y.std(axis=0), table.groups


@pytest.fixture(scope="module")
def fitted(toy):
    return DPGPLVM(n_latents=5, n_inducing=25, truncation=6, kernel="rbf", noise="group", random_state=0).fit(toy[0])


def test_the_groups_of_a_small_toy_are_found(toy, fitted):
    assert adjusted_rand_score(toy[1], fitted.groups_) == 1.0
    assert fitted.n_groups_ == 2


def test_accepted_moves_raise_the_corrected_bound(fitted):
    assert fitted.moves_
    for move in fitted.moves_:
        # None is what a move has that was given up early, because it could not have helped.
        gain = -np.inf if move.corrected_after is None else move.corrected_after - move.corrected_before
        assert gain > 0 if move.accepted else gain < 5.0
    before = [move.corrected_before for move in fitted.moves_]
    assert (np.diff(before) >= 0).all()
    assert fitted.corrected_bound_ > max(before) - 0.05


def test_groups_not_in_play_cost_nothing_and_change_nothing(float64, toy):
    Y = toy[0]
    free = start_from_embedding(Model(RBF()), Y, 3, 10, 5, np.random.default_rng(0))
    alone = Objective(Model(RBF()), Y, n_in_play=2).evaluate(free)
    moved = Free(
        free.latents,
        free.inducing,
        jax.tree.map(lambda values: jnp.asarray(values).at[2:].add(1.0), free.log_theta),
        free.log_noise_precision,
    )
    assert Objective(Model(RBF()), Y, n_in_play=2).evaluate(moved).value == alone.value
    assert (np.asarray(alone.state.phi)[:, 2:] == 0).all()
    assert (np.asarray(alone.gradient.log_noise_precision)[2:] == 0).all()


@given(st.integers(1, 13))
def test_every_two_axes_meet_once_and_none_is_in_two_planes_at_a_time(n_axes):
    rounds = _rounds(n_axes)
    for first, second in rounds:
        assert len({*first, *second}) == 2 * len(first)
    met = sorted(tuple(sorted(pair)) for one in rounds for pair in zip(*one, strict=True))
    assert met == list(combinations(range(n_axes), 2))


@pytest.mark.parametrize("seed", range(3))
def test_sparse_axes_undo_a_rotation(seed):
    rng = np.random.default_rng(seed)
    listens = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1]])
    strengths = np.repeat(listens, 8, axis=0) * rng.uniform(0.5, 1.5, size=(24, 4))
    moments = np.array([np.diag(row) for row in strengths])
    hidden, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    R = sparse_axes(hidden @ moments @ hidden.T, rng)
    np.testing.assert_allclose(R.T @ R, np.eye(4), atol=1e-12)
    # Up to order and sign the axes are the hidden ones.
    np.testing.assert_allclose(np.sort(np.abs(hidden.T @ R).max(axis=0)), 1.0, atol=1e-2)


def test_gradient_moments_are_those_of_finite_differences(float64, toy, fitted):
    Y = toy[0]
    model, state, Y = fitted._model, jax.tree.map(jnp.asarray, fitted.state_), jnp.asarray(Y)
    X, variance = model.latent_prior.marginals(state.free.latents)
    weights = inducing_weights(model, state, Table(Y))
    spread = np.sqrt(X.var(axis=0) + variance.mean(axis=0))
    h = 1e-5
    numeric = []
    for q in range(X.shape[1]):
        step = h * np.eye(X.shape[1])[q]
        up, down = mean_at(model, state, weights, X + step), mean_at(model, state, weights, X - step)
        numeric.append(spread[q] * (up - down) / (2 * h))
    expected = np.einsum("qnd,rnd->dqr", numeric, numeric) / len(X)
    found = slopes(model, state, weights)
    np.testing.assert_allclose(found.moments, expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found.predicted, np.var(mean_at(model, state, weights, X), axis=0), rtol=1e-10)


def test_rotation_keeps_the_distances_between_rows(float64, toy, fitted):
    rng = np.random.default_rng(0)
    R, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    free = jax.tree.map(jnp.asarray, fitted.state_.free)
    turned = rotate(fitted._model, free, R)
    mean, variance = map(np.asarray, fitted._model.latent_prior.marginals(free.latents))
    before, after = mean / np.sqrt(mean.var(axis=0) + variance.mean(axis=0)), np.asarray(turned.latents["mean"])
    np.testing.assert_allclose(
        np.linalg.norm(before[0] - before[1:], axis=1), np.linalg.norm(after[0] - after[1:], axis=1), rtol=1e-10
    )


def test_the_true_grouping_beats_one_group_and_a_wrong_one(float64, toy, fitted):
    Y, groups = toy
    problem = Problem(fitted._model, Y)
    state = jax.tree.map(jnp.asarray, fitted.state_)
    slopes_of_columns = problem.slopes(state)
    wrong = np.arange(len(groups)) % 2

    def corrected(labels):
        start = start_from_labels(problem.model, state.free, fitted.n_groups_, labels, slopes_of_columns)
        return problem.fit(start, labels, 30, 0, 1e-7).corrected

    assert corrected(groups) > corrected(np.zeros_like(groups))
    assert corrected(groups) >= corrected(wrong)


def test_a_move_that_brings_its_start_keeps_the_order_of_its_groups(float64, toy, fitted, monkeypatch):
    """Hyperparameters in the start belong to groups by number: labels numbered otherwise would swap them."""
    Y = toy[0]
    problem = Problem(fitted._model, Y)
    first = int(np.asarray(fitted.state_.phi)[0].argmax())
    order = np.arange(fitted.state_.free.n_groups)
    order[[0, 1]] = (1, 0) if first == 0 else (0, 1)
    free = reordered(fitted.state_.free, order)
    objective = Objective(problem.model, Y, n_in_play=2)
    best = Grouping(
        problem.model,
        climb(objective, free, 0),
        fitted.corrected_bound_,
        2,
        np.asarray(objective.evaluate(free).bounds),
    )
    assert best.labels[0] == 1
    tried = []
    monkeypatch.setattr("dpgplvm.inference.moves.at_rest", lambda problem, grouping: grouping)
    monkeypatch.setattr(Problem, "try_to_beat", lambda self, best, start, labels, *iterations: tried.append(labels))
    log = []
    list(improve(problem, best, 60, log))
    of_latents = [move.kind in ("smooth", "silence") for move in log]
    own = [labels for labels, is_own in zip(tried, of_latents, strict=True) if is_own]
    assert own
    assert all(np.array_equal(labels, best.labels) for labels in own)
    # Of groups, whatever the kind of move, each once.
    others = [canonical(labels).tobytes() for labels, is_own in zip(tried, of_latents, strict=True) if not is_own]
    assert len({move.kind for move, is_own in zip(log, of_latents, strict=True) if not is_own}) > 1
    assert len({*others, canonical(best.labels).tobytes()}) == len(others) + 1


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
@pytest.mark.parametrize("n_profiles", [1, 2])
def test_a_second_embedding_is_tried_where_there_are_more_groups_than_profiles(monkeypatch, n_profiles):
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=6, random_state=0)
    as_found, clustered, states = search.profiles, search._clustered, []

    def profiles_of(moments):
        found = as_found(moments)
        return found._replace(labels=found.labels % n_profiles)

    def noted(problem, best, state, rng):
        states.append(np.asarray(state.free.latents["mean"]))
        return clustered(problem, best, state, rng)

    monkeypatch.setattr(search, "profiles", profiles_of)
    monkeypatch.setattr(search, "_clustered", noted)
    model = DPGPLVM(n_latents=3, n_inducing=15, truncation=3, max_iter=20, kernel="rbf", random_state=0).fit(views.Y)
    assert model.n_groups_ == 2
    assert len(states) == 1 + (n_profiles == 1)
    assert len(states) == 1 or not np.allclose(*states)
    assert all(before.corrected_after <= after.corrected_before + 1e-6 for before, after in kept_pairs(model.moves_))


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
@pytest.mark.parametrize("is_ahead", [True, False])
def test_a_second_embedding_is_tried_where_there_is_one_group(monkeypatch, is_ahead):
    """Latents of the first may be so entangled that no columns part: here nothing is found from it. The second gets
    moves if its clusters are ahead."""
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=6, random_state=0)
    of_first = Move("split", 1, 2, -1.0, None, False)

    def in_vain(problem, best, state, rng, moves):
        moves.append(of_first)
        return iter(())

    monkeypatch.setattr(search, "_grouped", in_vain)
    monkeypatch.setattr(search, "LEAST_GAIN", 0.5 if is_ahead else np.inf)
    monkeypatch.setattr(search, "finer", lambda *arguments: iter(()))
    stages = []
    options = {"n_latents": 3, "n_inducing": 15, "truncation": 3, "max_iter": 20, "kernel": "rbf", "random_state": 0}
    model = DPGPLVM(**options).fit(views.Y, callback=lambda progress: stages.append(progress.stage))
    assert list(dict.fromkeys(stages))[-3:] == ["clusters of columns", "moves", "last climb"]
    assert model.n_groups_ == 1 + is_ahead
    if is_ahead:
        assert model.moves_
        assert of_first not in model.moves_
    else:
        assert model.moves_ == [of_first]


@pytest.mark.filterwarnings("ignore::dpgplvm.advice.FitWarning")
def test_ctrl_c_keeps_a_second_embedding_that_is_ahead_already(monkeypatch):
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=6, random_state=0)
    clustered = search._clustered

    def interrupted(problem, best, state, rng):
        yield next(clustered(problem, best, state, rng))
        raise KeyboardInterrupt

    monkeypatch.setattr(search, "_grouped", lambda *arguments: iter(()))
    monkeypatch.setattr(search, "_clustered", interrupted)
    model = DPGPLVM(n_latents=3, n_inducing=15, truncation=3, max_iter=20, kernel="rbf", random_state=0).fit(views.Y)
    assert model.outcome_ is Outcome.INTERRUPTED
    assert model.n_groups_ == 2


def test_a_kind_of_move_is_tried_for_as_long_as_it_helps_and_again_after_the_others(monkeypatch):
    helps = {"split": [True, True, False], "merge": [False]}
    asked = []

    def one_of(kind):
        return lambda problem, best: iter([Proposal(kind, None, np.arange(2))])

    def tried(problem, best, proposals, *others):
        (proposal,) = proposals(problem, best)
        asked.append(proposal.kind)
        return best if helps[proposal.kind].pop(0) else None

    class Labelled:
        labels = np.zeros(3, dtype=int)

    monkeypatch.setattr("dpgplvm.inference.moves.at_rest", lambda problem, grouping: grouping)
    monkeypatch.setattr("dpgplvm.inference.moves._first_that_helps", tried)
    list(improve(None, Labelled(), 60, [], [one_of("split"), one_of("merge")]))
    assert asked == ["split", "split", "split", "merge"]

    asked.clear()
    helps = {"split": [True, False, True, False], "merge": [True, False, False]}
    list(improve(None, Labelled(), 60, [], [one_of("split"), one_of("merge")]))
    assert asked == ["split", "split", "merge", "merge", "split", "split", "merge"]


@pytest.mark.parametrize(("budget", "moves"), [("MOST_MOVES", 1), ("MOST_FINER_MOVES", 0)])
def test_a_search_that_has_moves_left_to_try_says_so(monkeypatch, budget, moves):
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=6, random_state=0)
    options = {"n_latents": 3, "n_inducing": 15, "truncation": 3, "kernel": "rbf", "tol": 1e-5, "random_state": 0}
    assert DPGPLVM(**options).fit(views.Y).outcome_ is Outcome.CONVERGED
    monkeypatch.setattr(search, budget, moves)
    with pytest.warns(FitWarning, match=r"after \d+ moves"):
        model = DPGPLVM(**options).fit(views.Y)
    assert model.outcome_ is Outcome.MOVES_SPENT
    assert sum(move.kind != "enrich" for move in model.moves_) < 60


def kept_pairs(moves):
    """Every kept move and the one after it: a log is that of one way up."""
    return [(one, after) for one, after in pairwise(moves) if one.accepted]


def test_a_richer_kernel_is_no_move_between_groups(float64):
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=6, random_state=0)
    problem = Problem(Model(RBF()), (views.Y - views.Y.mean(axis=0)) / views.Y.std(axis=0))
    options = Options(n_latents=2, n_inducing=10, n_groups=3, noise="column")
    first = one_group(problem, options, np.random.default_rng(0)).ended
    log = [Move("enrich", 1, 1, -1.0, -2.0, False)]
    list(improve(problem, first, 1, log))
    assert len(log) == 2
