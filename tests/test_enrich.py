"""A kernel and the other one that may join it: straight columns stay straight, bent ones do not."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dpgplvm.datasets import make_views
from dpgplvm.inference import held_out, search
from dpgplvm.inference.compiled import marginals_of, weights_of
from dpgplvm.inference.enrich import _straightened, enrich
from dpgplvm.inference.grouping import Interrupted, Problem
from dpgplvm.inference.moves import at_rest
from dpgplvm.inference.one_group import one_group
from dpgplvm.inference.options import Options
from dpgplvm.inference.outcome import Outcome
from dpgplvm.model.bound import Model
from dpgplvm.model.kernels import RBF, Linear, RBFLinear
from dpgplvm.model.posterior import mean_at

OPTIONS = Options(n_latents=2, n_inducing=15, n_groups=2, noise="column")


def table(bend, seed=0):
    """Two latents, twelve columns: straight, and bent by this much."""
    rng = np.random.default_rng(seed)
    X, slopes, bends = rng.normal(size=(60, 2)), rng.normal(size=(2, 12)), rng.normal(size=(2, 12))
    Y = X @ slopes + bend * np.cos(1.5 * X) @ bends + 0.1 * rng.normal(size=(60, 12))
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


def fitted(Y, kernel):
    problem = Problem(Model(kernel), Y)
    return problem, at_rest(problem, one_group(problem, OPTIONS, np.random.default_rng(0)).ended)


@pytest.mark.parametrize(("bend", "helps"), [(0.0, False), (0.7, True)])
def test_an_rbf_joins_where_columns_bend(float64, bend, helps):
    problem, before = fitted(table(bend), Linear())
    log = []
    *_, after = enrich(problem, before, 15, np.random.default_rng(0), log)
    assert [(move.kind, move.accepted) for move in log] == [("enrich", helps)]
    assert isinstance(after.model.kernel, RBFLinear if helps else Linear)
    # A fit that is at rest gains next to nothing by the iterations that are made before it is compared.
    assert (after.corrected > before.corrected + 1.0) == helps
    assert np.array_equal(after.labels, before.labels)


def test_a_linear_part_joins_an_rbf_where_columns_are_straight_for_the_most_part(float64):
    problem, before = fitted(table(0.3), RBF())
    log = []
    *_, after = enrich(problem, before, 15, np.random.default_rng(0), log)
    assert [(move.kind, move.accepted) for move in log] == [("enrich", True)]
    assert isinstance(after.model.kernel, RBFLinear)
    assert after.corrected > before.corrected + 1.0


def test_it_is_not_tried_where_they_are_bent(float64):
    bent = make_views(n_samples=60, latents=((0, 1),), columns=12, weights=3.0, random_state=0).Y
    problem, before = fitted((bent - bent.mean(axis=0)) / bent.std(axis=0), RBF())
    log = []
    assert list(enrich(problem, before, 15, np.random.default_rng(0), log)) == []
    assert log == []


def test_a_smooth_rbf_is_parted_into_what_it_is_to_first_order_and_a_rest():
    """Near the origin the parts make up what there was, to the order that they have."""
    rng = np.random.default_rng(0)
    own = {"ard_weights": np.log([[0.02, 0.05]]), "signal_variance": np.log([30.0])}
    parts = {name: np.exp(values[0]) for name, values in _straightened(own, faint=-9.0).items()}
    X, Z = rng.uniform(-0.3, 0.3, size=(2, 5, 2))
    whole = 30.0 * np.exp(-0.5 * ((X[:, None] - Z) ** 2 @ [0.02, 0.05]))
    first_order = parts["bias_variance"] + (X * parts["slope_variances"]) @ Z.T
    # What the first order leaves out also scales rows and points, which a column's own function makes up for.
    scaled = first_order * np.exp(-0.5 * (X**2 @ [0.02, 0.05])[:, None] - 0.5 * Z**2 @ [0.02, 0.05])
    np.testing.assert_allclose(scaled, whole, rtol=1e-4)
    assert parts["ard_weights"].sum() == pytest.approx(1.0)
    assert parts["signal_variance"] == pytest.approx(30.0 * 0.07**2 / 2)


@pytest.mark.parametrize("kernel", [RBF(), Linear()], ids=repr)
def test_what_is_straight_is_what_a_regression_on_the_latents_says(float64, kernel):
    problem, found = fitted(table(0.7), kernel)
    state = jax.tree.map(jnp.asarray, found.climb.state)
    mean = marginals_of(found.model, state.free.latents).mean
    functions = np.asarray(mean_at(found.model, state, weights_of(found.model, state, problem.Y), mean))
    regressors = np.column_stack([np.ones(len(mean)), mean])
    predicted = regressors @ np.linalg.lstsq(regressors, functions)[0]
    slopes = problem.slopes(state)
    np.testing.assert_allclose(slopes.straight, predicted.var(axis=0), rtol=1e-5)
    np.testing.assert_allclose(slopes.predicted, functions.var(axis=0), rtol=1e-9)
    assert (slopes.straight <= slopes.predicted * (1.0 + 1e-9)).all()
    assert np.allclose(slopes.straight, slopes.predicted) == isinstance(kernel, Linear)


def test_groups_are_looked_for_again_with_the_richer_kernel(float64, monkeypatch):
    views = make_views(n_samples=60, latents=((0,), (1,)), columns=12, weights=0.6, random_state=0)
    problem = Problem(Model(Linear()), (views.Y - views.Y.mean(axis=0)) / views.Y.std(axis=0))
    options = OPTIONS._replace(n_latents=3, n_groups=3, enrich=True)

    def only_with_the_sum(whole):
        return lambda own, *rest: iter(()) if own.model == problem.model else whole(own, *rest)

    monkeypatch.setattr(search, "_candidates", only_with_the_sum(search._candidates))
    monkeypatch.setattr(search, "improve", only_with_the_sum(search.improve))
    rng = np.random.default_rng(0)
    found = search.search(problem, options, rng, one_group(problem, options, rng))
    assert (found.moves[0].kind, found.moves[0].groups_before, found.moves[0].accepted) == ("enrich", 1, True)
    assert found.best.n_groups == 2
    assert found.best.corrected > found.moves[0].corrected_after + 10.0


@pytest.mark.parametrize("prefer", ["sum", "linear"])
def test_rows_held_out_decide_where_the_bound_gains_little(float64, monkeypatch, prefer):
    problem, before = fitted(table(0.4), Linear())
    asked = []

    def judged(found, *_):
        asked.append([type(one.model.kernel) for one in found])
        return held_out.Judged(np.zeros(2), np.array([0.1, 0.2] if prefer == "sum" else [0.2, 0.1]))

    monkeypatch.setattr(held_out, "judged_by_held_out_rows", judged)
    monkeypatch.setattr(held_out, "_FAR_AHEAD", 1e9)
    log = []
    *_, after = enrich(problem, before, 15, np.random.default_rng(0), log)
    assert asked == [[RBFLinear, Linear]]
    assert isinstance(after.model.kernel, RBFLinear if prefer == "sum" else Linear)
    assert log[0].corrected_after > log[0].corrected_before


def test_ctrl_c_while_rows_are_held_out_keeps_what_knows_all_rows(float64, monkeypatch):
    Y = table(0.7)
    problem = Problem(Model(Linear()), Y)
    monkeypatch.setattr(held_out, "_FAR_AHEAD", 1e9)
    fit = Problem.fit

    def stopped(self, start, *rest):
        if len(self.Y) < len(Y):
            raise Interrupted(self, None)
        return fit(self, start, *rest)

    monkeypatch.setattr(Problem, "fit", stopped)
    rng = np.random.default_rng(0)
    options = OPTIONS._replace(n_groups=1, enrich=True)
    found = search.search(problem, options, rng, one_group(problem, options, rng))
    assert found.best.climb.outcome is Outcome.INTERRUPTED
    assert marginals_of(found.best.model, found.best.free.latents).mean.shape == (len(Y), 2)
