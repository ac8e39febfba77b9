"""A climb ends with the best state it saw and says how it ended; nothing that leaves it is NaN."""

from __future__ import annotations

import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Hyperprior, NumericalError, Outcome
from dpgplvm.datasets import make_views
from dpgplvm.inference.climb import climb
from dpgplvm.inference.objective import Evaluation, Objective
from dpgplvm.numerics import computing

SETTINGS = {"n_latents": 2, "n_inducing": 8, "random_state": 0}
# Not from far left of the ridge: in four dimensions there is a second, lower top at -0.8.
START = {"hip": np.array([0.5, -0.5]), "knee": np.array([-0.5, 0.8])}
NOTHING_LEARNED = "ignore:everything is explained as noise"  # as it may be after a few iterations
PROBES = 6  # evaluations after the first that choose the units of the variables


def gplvm(max_iter=5, **changes):
    return BayesianGPLVM(**SETTINGS, max_iter=max_iter, **changes)


def mrd():
    return MRD(**SETTINGS, views=["legs"] * 3 + ["arms"] * 3, max_iter=5)


def dpgplvm():
    return DPGPLVM(**SETTINGS, truncation=3, max_iter=5, kernel="rbf")


class Valley:
    """Minus Rosenbrock's function: a long climb along a bent ridge to 0, with trouble on request."""

    def __init__(self, trouble=None, after=10**9, beyond=np.inf, nan_beyond=np.inf):
        self.trouble, self.after, self.beyond, self.nan_beyond = trouble, after, beyond, nan_beyond
        self.values, self.calls = [], 0

    def evaluate(self, variables):
        self.calls += 1
        x = np.concatenate([variables["hip"], variables["knee"]])
        if self.calls > self.after or x.max() > self.beyond:
            raise self.trouble
        rise = x[1:] - x[:-1] ** 2
        value = -float((100 * rise**2 + (1 - x[:-1]) ** 2).sum())
        slope = np.zeros(4)
        slope[1:] -= 200 * rise
        slope[:-1] += 400 * x[:-1] * rise + 2 * (1 - x[:-1])
        if x.max() > self.nan_beyond:
            value, slope = np.nan, np.full(4, np.nan)
        self.values.append(value)
        return Evaluation(value, {"hip": slope[:2], "knee": slope[2:]}, variables, None)

    def best(self):
        return np.nanmax(self.values)


def assert_ended_well(end, valley):
    assert end.value == valley.best()
    assert Valley().evaluate(end.state).value == end.value
    assert end.n_iterations == len(end.history) - 1
    assert np.isfinite(end.history).all()
    assert (np.diff(end.history) >= 0).all()
    assert end.outcome.sentence.endswith(".")


def test_converged():
    valley = Valley()
    end = climb(valley, START, max_iter=500, tol=1e-12)
    assert end.outcome is Outcome.CONVERGED
    assert_ended_well(end, valley)
    np.testing.assert_allclose(np.concatenate([end.state["hip"], end.state["knee"]]), 1.0, atol=1e-4)


@pytest.mark.parametrize("max_iter", [0, 1, 5])
def test_budget_spent(max_iter):
    valley = Valley()
    end = climb(valley, START, max_iter)
    assert end.outcome is Outcome.BUDGET_SPENT
    assert end.n_iterations == max_iter
    assert_ended_well(end, valley)


def test_a_callback_ends_the_climb():
    valley, heard = Valley(), []
    end = climb(valley, START, max_iter=100, callback=lambda *told: heard.append(told) or told[0] == 3)
    assert end.outcome is Outcome.INTERRUPTED
    assert heard == list(zip([1, 2, 3], end.history[1:], strict=True))
    assert_ended_well(end, valley)


EARLY_ENDS = [(KeyboardInterrupt(), Outcome.INTERRUPTED), (NumericalError("no"), Outcome.NUMERICAL_TROUBLE)]


@pytest.mark.parametrize("after", [PROBES + 4, PROBES + 9, PROBES + 25])
@pytest.mark.parametrize(("trouble", "outcome"), EARLY_ENDS, ids=["ctrl-c", "numerical trouble"])
def test_an_early_end_keeps_the_best_so_far(trouble, outcome, after):
    valley = Valley(trouble, after)
    end = climb(valley, START, max_iter=100)
    assert end.outcome is outcome
    assert end.value > end.history[0]
    assert_ended_well(end, valley)


@pytest.mark.parametrize("after", range(1, PROBES + 3))
@pytest.mark.parametrize(("trouble", "outcome"), EARLY_ENDS, ids=["ctrl-c", "numerical trouble"])
def test_an_end_before_the_first_step_stays_at_the_start(trouble, outcome, after):
    end = climb(Valley(trouble, after), START, max_iter=100)
    assert end.outcome is outcome
    assert all(np.array_equal(end.state[name], START[name]) for name in START)
    assert end.history == [end.value] == [Valley().evaluate(START).value]


@pytest.mark.parametrize("wall", [{"beyond": 1.005}, {"nan_beyond": 1.005}], ids=["error", "NaN"])
def test_trouble_beside_the_path_is_walked_around(wall):
    valley = Valley(NumericalError("not positive definite"), **wall)
    end = climb(valley, START, max_iter=500, tol=1e-12)
    assert_ended_well(end, valley)
    assert end.value > -1e-3


def test_trouble_at_the_start_is_raised():
    with pytest.raises(NumericalError, match="not positive definite"):
        climb(Valley(NumericalError("not positive definite"), after=0), START, max_iter=10)
    with pytest.raises(NumericalError, match="start"):
        climb(Valley(nan_beyond=-5.0), START, max_iter=10)


@pytest.mark.parametrize("held", ["hip", "knee"])
def test_what_is_held_does_not_move(held):
    end = climb(Valley(), START, max_iter=50, hold={held})
    moved = "knee" if held == "hip" else "hip"
    assert np.array_equal(end.state[held], START[held])
    assert (end.state[moved] != START[moved]).all()


def test_holding_everything_stays_at_the_start():
    end = climb(Valley(), START, max_iter=50, hold={"hip", "knee"})
    assert all(np.array_equal(end.state[name], START[name]) for name in START)
    assert end.outcome is Outcome.CONVERGED


class Bowl:
    """A concave quadratic with its top at a known place."""

    def __init__(self, curvature, top):
        self.curvature, self.top = curvature, top

    def evaluate(self, variables):
        away = np.concatenate([variables["hip"], variables["knee"]]) - self.top
        slope = -self.curvature @ away
        cut = len(variables["hip"])
        return Evaluation(float(0.5 * away @ slope), {"hip": slope[:cut], "knee": slope[cut:]}, variables, None)


def random_bowl(seed, n_hip, n_knee, spread):
    """Curvatures that span `spread` orders of magnitude, and are coupled."""
    rng = np.random.default_rng(seed)
    n = n_hip + n_knee
    sizes = 10.0 ** rng.uniform(0.0, spread / 2, size=n)
    mixing = np.eye(n) + 0.1 * rng.normal(size=(n, n))
    bowl = Bowl(sizes[:, None] * (mixing @ mixing.T) * sizes, rng.normal(size=n))
    return bowl, {"hip": rng.normal(size=n_hip), "knee": rng.normal(size=n_knee)}


@pytest.mark.parametrize("max_iter", [10, 200], ids=["plain", "in chosen units"])
@given(seed=st.integers(0, 2**32 - 1))
def test_units_of_variables_do_not_move_the_top(max_iter, seed):
    bowl, start = random_bowl(seed, 2, 3, spread=2 if max_iter > 10 else 0)
    end = climb(bowl, start, max_iter, tol=1e-15)
    np.testing.assert_allclose(np.concatenate([end.state["hip"], end.state["knee"]]), bowl.top, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_units_of_variables_save_iterations(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    sizes = np.where(rng.random(60) < 0.4, 1e6, 1.0) * rng.uniform(0.5, 2.0, size=60)
    bowl, start = Bowl(np.diag(sizes), rng.normal(size=60)), {"hip": np.zeros(20), "knee": np.zeros(40)}
    end = climb(bowl, start, max_iter=60, tol=1e-15)
    assert end.outcome is Outcome.CONVERGED
    np.testing.assert_allclose(np.concatenate([end.state["hip"], end.state["knee"]]), bowl.top, atol=1e-5)
    monkeypatch.setattr("dpgplvm.inference.climb._stretch", lambda objective, pack, at, slope: np.ones(at.size))
    assert climb(bowl, start, max_iter=60, tol=1e-15).outcome is Outcome.BUDGET_SPENT


@given(seed=st.integers(0, 2**32 - 1))
def test_what_is_tied_keeps_one_value_and_reaches_the_best_of_those(seed):
    bowl, start = random_bowl(seed, 4, 3, spread=1)
    end = climb(bowl, start, max_iter=200, tol=1e-15, tie={"hip"})
    assert (end.state["hip"] == end.state["hip"][0]).all()
    together = np.vstack([np.concatenate([np.ones(4), np.zeros(3)]), np.eye(7)[4:]])
    best = np.linalg.solve(together @ bowl.curvature @ together.T, together @ bowl.curvature @ bowl.top)
    np.testing.assert_allclose(np.concatenate([end.state["hip"][:1], end.state["knee"]]), best, atol=1e-4)
    # The climb starts from the mean of what is tied.
    assert end.history[0] == pytest.approx(bowl.evaluate({**start, "hip": np.full(4, start["hip"].mean())}).value)


@given(seed=st.integers(0, 2**32 - 1), ceiling=st.floats(-2.0, 2.0))
def test_nothing_gets_above_its_ceiling(seed, ceiling):
    bowl, start = random_bowl(seed, 4, 3, spread=1)
    end = climb(bowl, start, max_iter=300, tol=1e-15, ceiling={"hip": ceiling})
    assert (end.state["hip"] <= ceiling + 1e-12).all()
    # The best of what is below it: uphill is only through the ceiling.
    slope = bowl.evaluate(end.state).gradient
    size = 1e-3 * np.abs(bowl.curvature).max()
    np.testing.assert_allclose(slope["knee"], 0.0, atol=size)
    at_ceiling = end.state["hip"] > ceiling - 1e-9
    np.testing.assert_allclose(slope["hip"][~at_ceiling], 0.0, atol=size)
    assert (slope["hip"][at_ceiling] > -size).all()


def test_a_ceiling_holds_for_what_is_tied():
    bowl, start = random_bowl(0, 4, 3, spread=1)
    lowest = bowl.top[:4].min() - 1.0
    end = climb(bowl, start, max_iter=50, tie={"hip"}, ceiling={"hip": lowest + np.array([0.0, 1.0, 2.0, 3.0])})
    np.testing.assert_allclose(end.state["hip"], lowest)


def test_what_is_held_stays_even_where_it_is_tied():
    bowl, start = random_bowl(0, 4, 3, spread=1)
    end = climb(bowl, start, max_iter=50, hold={"hip"}, tie={"hip", "knee"})
    assert np.array_equal(end.state["hip"], start["hip"])
    assert (end.state["knee"] == end.state["knee"][0]).all()
    assert end.value > end.history[0]


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=24, latents=((0,), (1,)), columns=3, random_state=0).Y


@pytest.fixture(scope="module")
def fitted(table):
    return gplvm(2).fit(table)


def one_group(model, Y):
    return Objective(model, Y, np.ones((Y.shape[1], 1)))


def test_held_parameters_of_a_model_do_not_move(table, fitted):
    free = fitted.state_.free
    end = climb(one_group(fitted._model, table), free, max_iter=5, hold={"log_noise_precision", "ard_weights"})
    after = end.state.free
    assert np.array_equal(after.log_noise_precision, free.log_noise_precision)
    assert np.array_equal(after.log_theta["ard_weights"], free.log_theta["ard_weights"])
    assert not np.array_equal(after.log_theta["signal_variance"], free.log_theta["signal_variance"])
    assert end.value > end.history[0]


def of_columns(free, noise, scale):
    """The same place with noise and scale of the columns, which are all alike."""
    return replace(free, log_noise_precision=np.full(6, noise), log_scale=np.full(6, scale))


def test_tied_columns_are_one_group(table, fitted):
    """One noise and one scale for all columns: a group with that noise, and s^2 times the signal variance."""
    model = replace(fitted._model, hyperprior=Hyperprior(relevance=1e10, scale=1e10, noise=1e10))
    start = of_columns(fitted.state_.free, noise=1.0, scale=0.3)
    start = replace(start, log_scale=start.log_scale + np.linspace(-0.2, 0.2, 6))
    with computing():
        tied = climb(one_group(model, table), start, max_iter=30, tie={"log_noise_precision", "log_scale"})
    assert tied.value > tied.history[0] + 1.0
    noise, scale = tied.state.free.log_noise_precision, tied.state.free.log_scale
    assert (noise == noise[0]).all()
    assert (scale == scale[0]).all()
    assert noise[0] != start.log_noise_precision[0]
    theta = tied.state.free.log_theta
    theta = {**theta, "signal_variance": theta["signal_variance"] + 2.0 * scale[0]}
    group = replace(tied.state.free, log_theta=theta, log_noise_precision=noise[:1], log_scale=None)
    alike, ours = one_group(model, table).evaluate(group), one_group(model, table).evaluate(tied.state.free)
    for name in ("likelihood", "latents"):
        assert float(getattr(tied.terms, name)) == pytest.approx(float(getattr(alike.terms, name)), rel=1e-9)
    of_group, by_column = (jax.tree.map(np.asarray, one.gradient) for one in (alike, ours))
    of_noise, of_variance = of_group.log_noise_precision[0], of_group.log_theta["signal_variance"][0]
    assert by_column.log_noise_precision.sum() == pytest.approx(of_noise, rel=1e-6, abs=1e-6)
    assert by_column.log_scale.sum() == pytest.approx(2.0 * of_variance, rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(by_column.inducing, of_group.inducing, rtol=1e-5, atol=1e-5)


def test_jitter_grows_until_the_covariance_factorises(table, fitted):
    """With all inducing points in one place K has rank one, and only jitter makes it positive definite."""
    free = replace(fitted.state_.free, inducing=np.zeros_like(fitted.state_.free.inducing))
    little, enough = (replace(fitted._model, jitter=jitter) for jitter in (1e-18, 1e-6))
    first = one_group(little, table).evaluate(free)
    assert np.isfinite(first.value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(first.gradient))
    assert first.value == pytest.approx(one_group(enough, table).evaluate(free).value, rel=1e-3)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda free: replace(free, inducing=np.full_like(free.inducing, np.nan)),
        lambda free: replace(free, log_noise_precision=np.full(1, np.inf)),
        lambda free: replace(free, latents={**free.latents, "log_variance": np.full((24, 2), 1e3)}),
        lambda free: replace(free, latents={**free.latents, "mean": np.full((24, 2), 1e200)}),
    ],
    ids=["NaN", "infinite precision", "overflowing variance", "overflowing mean"],
)
def test_what_no_jitter_helps_is_numerical_trouble(table, fitted, spoil):
    with pytest.raises(NumericalError, match=r"jitter|positive definite|finite"):
        one_group(fitted._model, table).evaluate(spoil(fitted.state_.free))


@pytest.mark.parametrize(
    ("spoil", "patterns"),
    [
        (lambda free: {"inducing": free.inducing}, ["Free"]),
        (lambda free: free.inducing, ["Free"]),
        (lambda free: replace(free, inducing=np.full_like(free.inducing, np.nan)), ["inducing", "NaN|finite"]),
        (lambda free: replace(free, latents={k: v[:20] for k, v in free.latents.items()}), ["20", "24"]),
        (lambda free: replace(free, log_noise_precision=np.zeros(2)), ["group|log_noise_precision", "2", "1"]),
        (lambda free: replace(free, inducing=np.zeros((8, 3))), ["latents|inducing", "3", "2"]),
        (lambda free: replace(free, log_theta={}), ["log_theta", "ard_weights"]),
    ],
    ids=["dict", "array", "NaN", "rows", "groups", "latents", "hyperparameters"],
)
def test_a_bad_start_is_refused_in_a_sentence(table, fitted, spoil, patterns):
    with pytest.raises((ValueError, TypeError), match=r"\bstart\b") as caught:
        gplvm(2).fit(table, start=spoil(fitted.state_.free))
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert all(re.search(pattern, message) for pattern in patterns), message
