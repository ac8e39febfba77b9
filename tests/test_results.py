"""What users read off a fit: latents in the order of their relevance, and none that nothing depends on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.cluster.hierarchy import is_valid_linkage

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM
from dpgplvm.datasets import make_views
from dpgplvm.inference.climb import climb
from dpgplvm.inference.fit import Fit
from dpgplvm.inference.objective import Objective
from dpgplvm.numerics import computing
from dpgplvm.results import results

SETTINGS = {"n_latents": 4, "n_inducing": 10, "random_state": 0, "kernel": "rbf"}
N_ROWS, N_COLUMNS = 40, 6
VIEWS = ["arms"] * 2 + ["legs"] * 4


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=N_ROWS, latents=((0,), (0, 1)), columns=(2, 4), random_state=0).Y


@pytest.fixture(scope="module")
def fitted(table):
    return MRD(**SETTINGS, views=VIEWS, max_iter=60).fit(table)


def read(model, free, Y):
    """Results of a state that is given."""
    with computing():
        table = model._scaling.to_model(Y)
        held = Objective(model._model, table, np.eye(2)[[0, 0, 1, 1, 1, 1]])
        return results(model._model, Fit(model=model._model, climb=climb(held, free, max_iter=0)), table)


def in_order(free, order):
    """The same place, with the latents named in another order."""
    return replace(
        free,
        latents={name: values[:, order] for name, values in free.latents.items()},
        inducing=free.inducing[:, order],
        log_theta={name: v[:, order] if v.ndim == 2 else v for name, v in free.log_theta.items()},
    )


def heard(found):
    """[Q]: what of the table varies with each latent."""
    return (found.relevance * found.explained[:, None]).sum(axis=0)


def test_latents_come_sorted_by_what_depends_on_them(table, fitted):
    free = fitted.state_.free
    for order in ([0, 1, 2, 3], [3, 1, 0, 2], [2, 3, 1, 0]):
        found = read(fitted, in_order(free, order), table)
        assert (np.diff(heard(found)) <= 0).all()
        np.testing.assert_allclose(found.latents, fitted.latents_, rtol=1e-9)
        np.testing.assert_allclose(found.inducing, fitted.inducing_, rtol=1e-9)
        # Draws are made latent by latent, so that in another order they are other draws.
        np.testing.assert_allclose(found.relevance, fitted.relevance_, atol=0.02)


def place_of_latents(model):
    """Where in the state each of the latents is that the model shows."""
    mean = model.state_.free.latents["mean"]
    return [int(np.flatnonzero((mean == column[:, None]).all(axis=0))[0]) for column in model.latents_.T]


def test_everything_about_a_latent_is_in_the_same_place(fitted):
    free, order = fitted.state_.free, place_of_latents(fitted)
    n_latents = fitted.n_latents_
    assert len(set(order)) == n_latents
    assert np.array_equal(fitted.inducing_, free.inducing[:, order])
    np.testing.assert_allclose(fitted.latent_variance_, np.exp(free.latents["log_variance"][:, order]), rtol=1e-12)
    weights = np.exp(free.log_theta["ard_weights"][:, order])
    np.testing.assert_allclose(fitted.kernel_parameters_["ard_weights"], weights, rtol=1e-12)
    assert fitted.kernel_parameters_["signal_variance"].shape == (2,)
    assert fitted.latents_.shape == fitted.latent_variance_.shape == (N_ROWS, n_latents)
    assert fitted.relevance_.shape == fitted.linear_relevance_.shape == (N_COLUMNS, n_latents)


def without(free, *latents):
    """The same place, with these latents listened to by no group."""
    weights = np.array(free.log_theta["ard_weights"])
    weights[:, list(latents)] = -20.0
    return replace(free, log_theta={**free.log_theta, "ard_weights": weights})


def test_latents_that_nothing_depends_on_are_left_out(table, fitted):
    first, *others = place_of_latents(fitted)
    found = read(fitted, without(fitted.state_.free, first), table)
    assert found.n_latents == found.latents.shape[1] < 4
    shown = [column.tolist() for column in found.latents.T]
    assert fitted.state_.free.latents["mean"][:, first].tolist() not in shown
    assert fitted.state_.free.latents["mean"][:, others[0]].tolist() in shown
    assert (found.relevance * found.explained[:, None]).max(axis=0).min() > 0.001


def test_one_latent_is_left_even_when_nothing_depends_on_any(table, fitted):
    found = read(fitted, without(fitted.state_.free, 0, 1, 2, 3), table)
    assert found.n_latents == 1
    assert found.latents.shape == (N_ROWS, 1)
    assert found.inducing.shape[1] == 1
    assert found.kernel_parameters["ard_weights"].shape == (2, 1)
    np.testing.assert_allclose(found.explained, 0.0, atol=1e-3)


def test_the_state_keeps_all_latents(fitted):
    assert fitted.state_.free.latents["mean"].shape == (N_ROWS, 4)
    assert fitted.state_.free.inducing.shape == (10, 4)


@pytest.mark.parametrize("noise", ["group", "column"])
def test_a_state_can_start_another_fit(table, noise):
    first = MRD(**SETTINGS, views=VIEWS, noise=noise, max_iter=20).fit(table)
    again = MRD(**SETTINGS, views=VIEWS, noise=noise, max_iter=0).fit(table, start=first.state_.free)
    assert again.elbo_ == pytest.approx(first.elbo_, rel=1e-12)
    assert np.array_equal(again.noise_precision_, first.noise_precision_)
    assert np.array_equal(again.latents_, first.latents_)


def test_explained_is_the_share_of_the_variance_that_is_predicted(table, fitted):
    Y = np.asarray(table)
    wanted = np.asarray(fitted.predict(fitted.latents_)).var(axis=0) / Y.var(axis=0)
    np.testing.assert_allclose(fitted.explained_, wanted, atol=0.01)
    assert (fitted.explained_ <= 1.0).all()
    assert fitted.explained_.min() > 0.2


def test_shares_of_latents_leave_room_for_noise_and_add_up():
    """Columns x, x, y and xy: predictions at random latents are the witness of what is explained, and by which."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 60))
    Y = np.stack([x, x, y, x * y], axis=1) + 0.1 * rng.normal(size=(60, 4))
    model = BayesianGPLVM(n_latents=2, n_inducing=15, max_iter=150, random_state=0).fit(Y)
    spread = np.sqrt(model.latents_.var(axis=0) + model.latent_variance_.mean(axis=0))
    here, other = model.latents_.mean(axis=0) + spread * rng.normal(size=(2, 5000, 2))
    predicted = model.predict(here) / Y.std(axis=0)
    moved = [model.predict(np.where(np.arange(2) == q, other, here)) / Y.std(axis=0) for q in (0, 1)]
    variance = predicted.var(axis=0)
    over_rows = model.predict(model.latents_).var(axis=0) / Y.var(axis=0)
    whole = np.maximum(1.0, over_rows + 1.0 / model.noise_precision_)
    np.testing.assert_allclose(model.explained_, over_rows / whole, atol=0.01)
    lost = np.array([0.5 * ((predicted - one) ** 2).mean(axis=0) for one in moved]).T
    assert lost[3].sum() > 1.3 * variance[3]  # what latents do together is lost with either
    shares = lost / np.maximum(lost.sum(axis=1), variance)[:, None] * model.explained_[:, None]
    np.testing.assert_allclose(model.explained_by_latent_, shares, atol=0.05)
    np.testing.assert_allclose(model.explained_by_latent_.sum(axis=1), model.explained_, rtol=0.05)
    assert (model.explained_by_latent_.sum(axis=1) <= model.explained_ * (1.0 + 1e-12)).all()
    assert (model.explained_ < 1.0).all()


def test_profiles_are_numbered_and_their_tree_is_scipys(fitted):
    assert fitted.profiles_.shape == (N_COLUMNS,)
    sizes = np.bincount(fitted.profiles_)
    assert len(sizes) == fitted.n_profiles_
    assert (np.diff(sizes) <= 0).all()
    assert sizes.min() > 0
    assert is_valid_linkage(fitted.profile_linkage_)


def test_columns_of_one_group_have_a_tree_too(table):
    model = BayesianGPLVM(**{**SETTINGS, "max_iter": 20}).fit(table)
    assert is_valid_linkage(model.profile_linkage_)
    np.testing.assert_array_equal(model.profile_linkage_[-1, 3], N_COLUMNS)
    assert len(np.unique(model.profiles_)) == model.n_profiles_


def test_given_groups_are_in_the_same_group_or_not(fitted):
    assert np.array_equal(fitted.coassignment_, np.equal.outer(VIEWS, VIEWS))
    assert fitted.starts_ == []
    assert fitted.corrected_bound_ is None


MODELS = {
    "DPGPLVM": lambda **changes: DPGPLVM(**{**SETTINGS, "truncation": 3, "max_iter": 10, **changes}),
    "MRD": lambda **changes: MRD(**{**SETTINGS, "views": VIEWS, "max_iter": 20, **changes}),
    "BayesianGPLVM": lambda **changes: BayesianGPLVM(**{**SETTINGS, "max_iter": 20, **changes}),
}


@pytest.fixture(scope="module", params=MODELS)
def by_column(request, table):
    return MODELS[request.param](noise="column").fit(table)


def test_every_column_has_noise_and_scale_of_its_own(by_column):
    for name in ("noise_precision_", "column_scale_"):
        values = getattr(by_column, name)
        assert values.shape == (N_COLUMNS,)
        assert (values > 0).all()
        assert np.isfinite(values).all()
        assert len(np.unique(values)) == N_COLUMNS
    free = by_column.state_.free
    np.testing.assert_allclose(by_column.noise_precision_, np.exp(free.log_noise_precision), rtol=1e-12)
    np.testing.assert_allclose(by_column.column_scale_, np.exp(free.log_scale), rtol=1e-12)


def test_a_fit_with_noise_of_columns_is_a_fit(by_column):
    assert (np.diff(by_column.history_) >= 0).all()
    assert by_column.elbo_ > by_column.history_[0]
    assert sum(by_column.elbo_terms_.values()) == pytest.approx(by_column.elbo_, rel=1e-12)
    assert by_column.explained_.min() > 0.2
    assert all(len(values) == by_column.n_groups_ for values in by_column.kernel_parameters_.values())
    assert type(by_column).__name__ in by_column.summary()


def test_groups_have_no_scale_of_columns(fitted):
    assert fitted.column_scale_ is None
    assert fitted.noise_precision_.shape == (2,)


@pytest.mark.parametrize("change", [{"bound": "mixed"}, {"optimiser": "paper"}], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_papers_ways_have_no_noise_of_columns(table, name, change):
    (argument, value), *_ = change.items()
    with pytest.raises(ValueError, match="noise") as caught:
        MODELS[name](noise="column", **change).fit(table)
    assert f'{argument}="{value}"' in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("asked", "given"), [("column", "group"), ("group", "column")])
def test_a_start_of_the_other_kind_is_refused(table, name, asked, given):
    make = MODELS[name]
    start = make(noise=given, max_iter=0).fit(table).state_.free
    with pytest.raises(ValueError, match=f'start has noise of {given}s.*noise="{asked}"'):
        make(noise=asked, max_iter=0).fit(table, start=start)


def test_a_start_with_scales_of_another_table_is_refused(table):
    make = MODELS["BayesianGPLVM"]
    start = make(noise="column", max_iter=0).fit(table).state_.free
    with pytest.raises(ValueError, match=r"start.*log_scale.*\(5,\).*\(6,\)"):
        make(noise="column", max_iter=0).fit(table, start=replace(start, log_scale=start.log_scale[:5]))
    with pytest.raises(ValueError, match=r"start.*log_scale is not finite"):
        make(noise="column", max_iter=0).fit(table, start=replace(start, log_scale=np.full(6, np.nan)))


def test_columns_may_be_as_noisy_as_they_like():
    """One column of nothing but noise: its own precision says so, and those of the others do not have to."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 1))
    Y = np.sin(x + np.linspace(-1.0, 1.0, 6)) + 0.05 * rng.normal(size=(60, 6))
    Y[:, 2] = rng.normal(size=60)
    model = BayesianGPLVM(n_latents=2, n_inducing=12, noise="column", max_iter=150, random_state=0).fit(Y)
    noise = 1.0 / model.noise_precision_
    assert noise[2] > 0.6
    assert np.delete(noise, 2).max() < 0.1
    assert model.explained_[2] < 0.3
    assert np.delete(model.explained_, 2).min() > 0.9
