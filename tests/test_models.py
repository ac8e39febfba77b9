"""The three models are one model: what must agree agrees, and what must not matter does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Hyperprior, Kernel, Parameter
from dpgplvm.datasets import make_views
from dpgplvm.inference.objective import Objective
from dpgplvm.model.bound import other_terms
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.model.sticks import prior_sticks, settle
from dpgplvm.numerics import computing

SETTINGS = {"n_latents": 2, "n_inducing": 8, "random_state": 0}
LABELS = ["arms"] * 2 + ["legs"] * 4
NAMES = ["wrist", "elbow", "hip", "knee", "ankle", "toe"]


def gplvm(max_iter=10, **changes):
    return BayesianGPLVM(**{**SETTINGS, "max_iter": max_iter, **changes})


def mrd(max_iter=10, **changes):
    return MRD(**{**SETTINGS, "max_iter": max_iter, "views": LABELS, **changes})


def dpgplvm(max_iter=10, **changes):
    return DPGPLVM(**{**SETTINGS, "max_iter": max_iter, "truncation": 3, "kernel": "rbf", "noise": "group", **changes})


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=24, latents=((0,), (1,)), columns=(2, 4), random_state=0).Y


@pytest.fixture(scope="module", params=[dpgplvm, mrd, gplvm], ids=["DPGPLVM", "MRD", "BayesianGPLVM"])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def start(make, table):
    """A start with all the groups that there can be; from a given start nothing is searched."""
    free = make(max_iter=0).fit(table).state_.free
    n_groups = {dpgplvm: 3, mrd: 2, gplvm: 1}[make]
    rng = np.random.default_rng(1)
    return replace(
        free,
        log_theta={k: 0.5 * rng.normal(size=(n_groups, *v.shape[1:])) for k, v in free.log_theta.items()},
        log_noise_precision=2.0 + 0.1 * rng.normal(size=n_groups),
    )


@pytest.fixture(scope="module")
def fitted(make, table, start):
    return make().fit(table, start=start)


@pytest.fixture(scope="module")
def searched(table):
    return dpgplvm(max_iter=20).fit(table)


def standardised(Y):
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


@pytest.mark.parametrize("max_iter", [0, 10])
def test_one_group_is_the_bayesian_gplvm(table, max_iter):
    free = gplvm(0).fit(table).state_.free
    one, plain = dpgplvm(max_iter, truncation=1).fit(table, start=free), gplvm(max_iter).fit(table, start=free)
    assert one.elbo_ == pytest.approx(plain.elbo_, rel=1e-10)
    np.testing.assert_allclose(one.latents_, plain.latents_, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(one.relevance_, plain.relevance_, rtol=1e-10, atol=1e-10)
    dirichlet_process = one.elbo_terms_.keys() - plain.elbo_terms_.keys()
    assert sum(one.elbo_terms_[name] for name in dirichlet_process) == pytest.approx(0.0, abs=1e-10)
    assert all(one.elbo_terms_[name] == pytest.approx(plain.elbo_terms_[name], rel=1e-10) for name in plain.elbo_terms_)


def test_held_assignments_are_given_views(table):
    views = mrd(0).fit(table)
    free, phi = views.state_.free, np.eye(2)[[0, 0, 1, 1, 1, 1]]
    model = replace(views._model, inferred_groups=True)
    with computing():
        held = Objective(model, standardised(table), phi).evaluate(free)
        best_sticks = settle(jnp.asarray(phi), prior_sticks(2, model.concentration), model.concentration)
        at_best = other_terms(model, jax.tree.map(jnp.asarray, replace(held.state, sticks=best_sticks)))
    for name in ("likelihood", "latents", "hyperprior"):
        assert float(getattr(held.terms, name)) == pytest.approx(views.elbo_terms_[name], rel=1e-10)
    assert np.array_equal(held.state.phi, phi)
    assert sum(map(float, held.terms.dirichlet_process)) == pytest.approx(sum(map(float, at_best[1])), rel=1e-9)


@pytest.mark.parametrize(
    "views",
    [
        {"arms": NAMES[:2], "legs": NAMES[2:]},
        {"arms": [0, 1], "legs": range(2, 6)},
        {"arms": np.array([0, 1]), "legs": ["hip", 3, 4, "toe"]},
        pd.Series(LABELS),
    ],
    ids=["names", "positions", "both", "Series"],
)
def test_views_in_any_form_are_the_same_views(table, views):
    frame = pd.DataFrame(table, columns=NAMES)
    one, other = mrd(2).fit(frame), mrd(2, views=views).fit(frame)
    assert one.elbo_ == other.elbo_
    assert one.summary() == other.summary()
    assert other.groups_.tolist() == [0, 0, 1, 1, 1, 1]


def test_views_keep_the_order_in_which_they_are_given(table):
    labels = ["legs"] * 2 + ["arms"] * 4
    by_label = mrd(0, views=labels).fit(table)
    by_name = mrd(0, views={"legs": [0, 1], "arms": [2, 3, 4, 5]}).fit(table)
    assert by_name.groups_.tolist() == [0, 0, 1, 1, 1, 1]
    assert by_label.groups_.tolist() == by_name.groups_.tolist()
    assert by_label.summary() == by_name.summary()


def test_every_column_a_view(table):
    model = mrd(5, views="columns").fit(table[:, 1:3])
    assert model.groups_.tolist() == [0, 1]
    assert model.noise_precision_.shape == (2,)
    assert model.elbo_ > model.history_[0]


def test_terms_add_up_and_history_rises_to_the_bound(fitted):
    assert sum(fitted.elbo_terms_.values()) == pytest.approx(fitted.elbo_, rel=1e-12)
    assert len(fitted.history_) == fitted.n_iter_ + 1
    assert (np.diff(fitted.history_) >= 0).all()
    assert fitted.elbo_ >= fitted.history_[-1] > fitted.history_[0]


@pytest.mark.parametrize("model", [mrd, gplvm], ids=["MRD", "BayesianGPLVM"])
def test_a_short_fit_learns_the_noise_too(table, model):
    before, after = (model(max_iter).fit(table).noise_precision_ for max_iter in (0, 30))
    assert not np.isclose(before, after, rtol=1e-3).any()


def test_no_iterations_evaluate_the_start(make, table, start):
    model = make(max_iter=0).fit(table, start=start)
    assert model.n_iter_ == 0
    assert np.array_equal(model.state_.free.latents["mean"], start.latents["mean"])
    assert np.array_equal(model.state_.free.inducing, start.inducing)


def assert_same_to_the_last_bit(one, other):
    same = jax.tree.map(np.array_equal, (one.state_, one.history_), (other.state_, other.history_))
    assert all(jax.tree.leaves(same))
    assert np.array_equal(one.relevance_, other.relevance_)


@pytest.mark.parametrize("model", [mrd, gplvm], ids=["MRD", "BayesianGPLVM"])
def test_two_fits_are_the_same_to_the_last_bit(table, model):
    assert_same_to_the_last_bit(model().fit(table), model().fit(table))


def test_two_searches_are_the_same_to_the_last_bit(table, searched):
    assert_same_to_the_last_bit(clone(searched).fit(table), searched)


def test_a_search_ends_above_its_start(table, searched):
    first, other = (dpgplvm(0, random_state=seed).fit(table).elbo_ for seed in (0, 1))
    assert first != other
    assert searched.elbo_ > max(first, other)
    assert sum(searched.elbo_terms_.values()) == pytest.approx(searched.elbo_, rel=1e-12)
    assert len(searched.history_) == searched.n_iter_ + 1
    assert (np.diff(searched.history_) >= 0).all()


def test_threads_do_not_change_the_bound(monkeypatch, table):
    model = dpgplvm(0).fit(table)
    free = replace(model.state_.free, log_noise_precision=np.array([1.0, 2.0, 3.0]))
    free = replace(free, log_theta={k: np.resize(v[0], (3, *v.shape[1:])) for k, v in free.log_theta.items()})
    with computing():
        one, three = (Objective(model._model, table, n_threads=n).evaluate(free) for n in (1, 3))
        monkeypatch.setattr(joblib, "cpu_count", lambda: 8)
        many_cores = Objective(model._model, table).evaluate(free)
    for other in (three, many_cores):
        assert other.value == one.value
        assert all(jax.tree.leaves(jax.tree.map(np.array_equal, one.gradient, other.gradient)))


def test_order_of_rows_does_not_matter(make, table, start):
    order = np.random.default_rng(0).permutation(24)
    shuffled = replace(start, latents={name: values[order] for name, values in start.latents.items()})
    one, other = make(5).fit(table, start=start), make(5).fit(table[order], start=shuffled)
    assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-9)
    np.testing.assert_allclose(other.latents_, one.latents_[order], rtol=1e-6, atol=1e-6)


def test_order_of_columns_does_not_matter(make, table, start):
    order = np.random.default_rng(0).permutation(6)
    positions = {view: np.flatnonzero(np.array(LABELS)[order] == view) for view in ("arms", "legs")}
    views = {"views": positions} if make is mrd else {}
    one, other = make(5).fit(table, start=start), make(5, **views).fit(table[:, order], start=start)
    assert other.elbo_ == pytest.approx(one.elbo_, rel=1e-9)
    np.testing.assert_allclose(other.latents_, one.latents_, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other.relevance_, one.relevance_[order], rtol=1e-5, atol=1e-5)


def test_units_do_not_matter_when_columns_are_standardised(make, table, start, fitted):
    units = 2.0 ** np.array([-20, -3, 0, 1, 7, 30])
    assert make(0).fit(table * units).elbo_ == make(0).fit(table).elbo_
    shifted = make().fit((table + 3.0) * units, start=start)
    np.testing.assert_allclose(shifted.latents_, fitted.latents_, rtol=1e-5, atol=1e-5)


def test_units_matter_when_they_are_kept(table):
    bounds = [gplvm(0, standardise=False).fit(Y).elbo_ for Y in (standardised(table), 2.0 * standardised(table))]
    assert bounds[0] == pytest.approx(gplvm(0).fit(table).elbo_, rel=1e-9)
    assert bounds[0] != pytest.approx(bounds[1], rel=1e-3)


@pytest.mark.parametrize("is_searched", [False, True], ids=["start", "search"])
def test_groups_are_whole_and_sorted(request, table, is_searched):
    model = request.getfixturevalue("searched") if is_searched else dpgplvm(0).fit(table)
    sizes = np.bincount(model.groups_, minlength=model.n_groups_)
    assert len(sizes) == model.n_groups_
    assert (np.diff(sizes) <= 0).all()
    assert sizes.min() > 0
    assert model.group_probabilities_.shape == (6, model.n_groups_)
    np.testing.assert_allclose(model.group_probabilities_.sum(axis=1), 1.0, rtol=1e-12)
    assert np.array_equal(model.group_probabilities_.argmax(axis=1), model.groups_)
    assert all(len(values) == model.n_groups_ for values in model.kernel_parameters_.values())
    assert model.noise_precision_.shape == (model.n_groups_,)


def test_relevance_is_a_share(fitted):
    total, linear = fitted.relevance_, fitted.linear_relevance_
    assert total.shape == linear.shape == (6, 2)
    assert linear.min() >= 0
    assert (linear <= total).all()
    assert total.max() <= 1
    assert (total.sum(axis=1) > 0.9).all()


@dataclass(frozen=True)
class Cauchy(Kernel):
    parameters = {
        "ard_weights": Parameter(per_latent=True, role="relevance"),
        "signal_variance": Parameter(per_latent=False, role="scale"),
    }

    def value(self, theta, X, Z):
        return theta["signal_variance"] / (1 + (X[:, None] - Z[None]) ** 2 @ theta["ard_weights"])

    def diagonal(self, theta, X):
        return jnp.full(X.shape[0], theta["signal_variance"])


@pytest.mark.parametrize("kernel", ["linear", "rbf+linear", Cauchy()], ids=str)
def test_other_kernels_fit(table, kernel):
    model = gplvm(kernel=kernel, hyperprior=2.0).fit(table)
    assert model.elbo_ > model.history_[0]
    assert model._model.hyperprior == Hyperprior(relevance=2.0, scale=2.0, noise=2.0)
    assert model.kernel_parameters_.keys() == model._model.kernel.parameters.keys()
    assert all(len(values) == 1 and (values > 0).all() for values in model.kernel_parameters_.values())
    assert np.isfinite(model.relevance_).all()
    if kernel == "linear":
        np.testing.assert_allclose(model.linear_relevance_, model.relevance_, atol=0.02)


@pytest.mark.parametrize("linear", [False, True], ids=["rbf", "linear"])
def test_the_kernel_is_chosen(linear):
    Y = make_views(n_samples=60, latents=((0, 1),), columns=12, weights=0.5, linear=linear, random_state=1).Y
    model = dpgplvm(kernel="auto", noise="column", truncation=1, n_inducing=25).fit(Y)
    assert model.kernel_ == ("linear" if linear else "rbf")
    assert model.kernel_parameters_.keys() == NAMED_KERNELS[model.kernel_].parameters.keys()
    assert model.get_params()["kernel"] == "auto"


def test_noise_belongs_to_columns_unless_the_papers_ways_are_asked_for(table):
    assert dpgplvm(0, noise="auto").fit(table).column_scale_.shape == (6,)


@pytest.mark.parametrize("changes", [{"bound": "mixed"}, {"optimiser": "paper"}], ids=["mixed bound", "paper"])
def test_the_papers_ways_raise_the_bound(table, changes):
    before, after = (dpgplvm(max_iter, noise="auto", **changes).fit(table) for max_iter in (0, 30))
    assert before.column_scale_ is None
    assert before.n_iter_ == 0
    assert 0 < after.n_iter_ <= 30
    assert after.elbo_ > before.elbo_ + 1.0
    assert after.elbo_ >= after.history_[0]
    assert np.isfinite(after.relevance_).all()
    assert sum(after.elbo_terms_.values()) == pytest.approx(after.elbo_, rel=1e-12)


def test_parameters_go_round(make, table, start, fitted):
    model = make(tol=1e-5, kernel="linear", hyperprior=Hyperprior(noise=1.0), jitter=1e-5)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert type(model)().set_params(**model.get_params()).get_params() == model.get_params()
    with pytest.raises(ValueError, match="n_latent"):
        model.set_params(n_latent=3)
    refitted = clone(fitted)
    assert not hasattr(refitted, "latents_")
    assert np.array_equal(refitted.fit(table, start=start).latents_, fitted.latents_)


def test_names_of_a_frame_are_kept(make, table):
    model = make(0).fit(pd.DataFrame(table, columns=NAMES))
    assert model.feature_names_in_.tolist() == NAMES
    assert not hasattr(make(0).fit(table), "feature_names_in_")
