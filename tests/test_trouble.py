"""Fits that get into trouble: they end with numbers, or say in a sentence why they do not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Linear, NumericalError, Outcome, numerics
from dpgplvm.datasets import make_views

SETTINGS = {"n_latents": 2, "n_inducing": 8, "random_state": 0}
NOTHING_LEARNED = "ignore:everything is explained as noise"  # as it may be after a few iterations
PROBES = 6  # evaluations after the first that choose the units of the variables
EARLY_ENDS = [(KeyboardInterrupt(), Outcome.INTERRUPTED), (NumericalError("no"), Outcome.NUMERICAL_TROUBLE)]


def gplvm(max_iter=5, **changes):
    return BayesianGPLVM(**SETTINGS, max_iter=max_iter, **changes)


def mrd(**changes):
    return MRD(**{**SETTINGS, "views": ["legs"] * 3 + ["arms"] * 3, "max_iter": 5, **changes})


def dpgplvm():
    return DPGPLVM(**SETTINGS, truncation=3, max_iter=5, kernel="rbf")


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=24, latents=((0,), (1,)), columns=3, random_state=0).Y


def assert_finite(model):
    leaves = jax.tree.leaves((model.state_, model.elbo_, model.elbo_terms_, model.history_, model.kernel_parameters_))
    leaves += [model.relevance_, model.linear_relevance_, model.group_probabilities_, model.noise_precision_]
    assert all(np.isfinite(leaf).all() for leaf in leaves)


@pytest.mark.parametrize(("trouble", "outcome"), EARLY_ENDS, ids=["ctrl-c", "numerical trouble"])
def test_a_fit_that_ends_early_is_a_fit(failing, table, trouble, outcome):
    failing(lambda n, held: n > PROBES + 6, trouble)
    model = gplvm(50).fit(table)
    assert model.outcome_ is outcome
    assert outcome.value in model.summary()
    assert model.elbo_ > model.history_[0]
    assert_finite(model)


@pytest.mark.parametrize("noise", ["group", "column"])
def test_ctrl_c_between_the_stages_of_a_fit_keeps_the_stage_before(failing, table, noise):
    model = mrd(noise=noise, max_iter=9)
    calls = failing(lambda n, held: False, None)
    model.fit(table)
    for at in range(2, len(calls)):
        failing(lambda n, held, at=at: n == at, KeyboardInterrupt())
        model.fit(table)
        assert model.outcome_ is Outcome.INTERRUPTED
        assert_finite(model)


def test_a_refit_that_cannot_start_loses_nothing(failing, table):
    model = gplvm(2).fit(table)
    before = model.summary(), model.latents_
    failing(lambda n, held: True, NumericalError("not positive definite"))
    with pytest.raises(NumericalError, match="not positive definite"):
        model.set_params(kernel=Linear(), standardise=False).fit(2.0 * table[:, :4])
    assert (model.summary(), model.latents_) == before
    assert model.n_features_in_ == 6


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells how many memory maps there are")
def test_what_was_compiled_for_other_tables_is_forgotten_before_it_is_a_crash(monkeypatch, table):
    forgotten = []
    monkeypatch.setattr(jax, "clear_caches", lambda: forgotten.append(True))
    monkeypatch.setattr(numerics, "_SHARE_OF_MEMORY_MAPS", 1.0)
    gplvm().fit(table)
    assert not forgotten
    monkeypatch.setattr(numerics, "_SHARE_OF_MEMORY_MAPS", 0.001)
    model = gplvm().fit(table)
    assert len(forgotten) == 1
    model.predict(model.latents_)
    assert len(forgotten) == 2


def test_results_use_the_jitter_that_the_bound_used(table):
    """The fitted functions need the covariance of the bound, which may have taken more jitter than it was given."""
    free = gplvm(2).fit(table).state_.free
    start = replace(free, inducing=np.zeros_like(free.inducing))
    assert_finite(gplvm(0, jitter=1e-18).fit(table, start=start))


@st.composite
def nasty_tables(draw):
    """Columns from 1e-200 to 1e300, far from zero, with heavy tails, or all alike."""
    rng = np.random.default_rng(draw(st.integers(0, 100)))
    Y = rng.standard_t(draw(st.sampled_from([0.1, 1.0, 30.0])), size=(24, 6))
    Y = np.repeat(Y, draw(st.sampled_from([1, 2, 6])), axis=1)[:, :6]
    Y = Y / np.abs(Y).max(axis=0) + draw(st.sampled_from([0.0, 1.0, -1e6]))
    return Y * 10.0 ** np.array(draw(st.lists(st.integers(-200, 300), min_size=6, max_size=6)))


@pytest.mark.filterwarnings(NOTHING_LEARNED)
@given(make=st.sampled_from([gplvm, mrd]), Y=nasty_tables())
def test_a_fit_never_returns_nan(make, Y):
    assert_finite(make().fit(Y))


@pytest.mark.slow
@pytest.mark.filterwarnings(NOTHING_LEARNED)
@given(Y=nasty_tables())
def test_a_search_never_returns_nan(Y):
    assert_finite(dpgplvm().fit(Y))


@pytest.mark.filterwarnings(NOTHING_LEARNED)
@pytest.mark.parametrize("exponent", [-150, -12, -3, 3, 12, 150])
def test_units_that_are_not_standardised_are_handled_or_refused(table, exponent):
    model = gplvm(standardise=False)
    try:
        model.fit(table * 10.0**exponent)
    except (ValueError, NumericalError) as refused:
        assert "scale" in str(refused) or "standardise" in str(refused)  # noqa: PT017
    else:
        assert_finite(model)
