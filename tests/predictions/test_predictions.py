"""What a fitted model says about rows: each answer against one that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scales import CHANCES, SCALES
from scipy.stats import kstest, norm
from small_models import dpgplvm, gplvm, mrd

from dpgplvm.numerics import computing


@pytest.fixture(scope="module", params=[gplvm, dpgplvm], ids=["BayesianGPLVM", "DPGPLVM"])
def fitted(request, table):
    return request.param().fit(table[:80])


def test_rows_of_the_fit_are_where_the_fit_has_them(fitted, table):
    """At the optimum of the bound, each row's q(x) is at an optimum of its own bound, and seldom there is a better."""
    found = fitted.infer(table[:80])
    agree = (np.abs(found.mean - fitted.latents_) < 0.05 * np.sqrt(fitted.latent_variance_)).all(axis=1)
    assert agree.mean() > 0.95
    np.testing.assert_allclose(found.variance[agree], fitted.latent_variance_[agree], rtol=0.05)
    assert np.array_equal(fitted.transform(table[:80]), found.mean)


@pytest.mark.parametrize("make", [gplvm, mrd, dpgplvm], ids=["BayesianGPLVM", "MRD", "DPGPLVM"])
def test_a_row_alone_and_in_a_batch_are_the_same(table, make):
    """A batch of 75 rows, which is compiled for another number of rows than one row is."""
    model = make(max_iter=60).fit(table[:80])
    rows = np.where(np.random.default_rng(0).random((75, 10)) < 0.3, np.nan, table[30:105])
    X, variance = model.latents_[:75], model.latent_variance_[:75]
    mean, std = model.predict(X, variance=variance, return_std=True)
    filled, gap_std = model.impute(rows, return_std=True)
    inferred, scores = model.infer(rows), model.score_samples(rows)
    for n in (0, 7, 74):
        alone = model.predict(X[[n]], variance=variance[[n]], return_std=True)
        np.testing.assert_allclose(alone, (mean[[n]], std[[n]]), rtol=1e-10)
        alone = model.impute(rows[[n]], return_std=True)
        np.testing.assert_allclose(alone, (filled[[n]], gap_std[[n]]), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(model.score_samples(rows[[n]]), scores[[n]], rtol=1e-10)
        np.testing.assert_allclose(model.infer(rows[[n]]).mean, inferred.mean[[n]], atol=1e-7)


def test_what_was_observed_comes_back_to_the_bit(fitted, new):
    filled, std = fitted.impute(new, return_std=True)
    gaps = np.isnan(new)
    assert np.array_equal(filled[~gaps], new[~gaps])
    assert np.isfinite(filled).all()
    assert (std[gaps] > 0.0).all()
    assert (std[~gaps] == 0.0).all()


def test_gaps_are_filled_better_than_by_the_mean_and_as_surely_as_it_says(fitted, table, new):
    filled, std = fitted.impute(new, return_std=True)
    gaps = np.isnan(new)
    error, of_mean = (filled - table[80:])[gaps], (table[:80].mean(axis=0) - table[80:])[gaps]
    assert np.mean(error**2) < 0.5 * np.mean(of_mean**2)
    low, high = fitted.impute_quantiles(new, (0.025, 0.975))
    inside = ((low <= table[80:]) & (table[80:] <= high))[gaps]
    assert 0.85 < inside.mean() <= 1.0
    assert 0.85 < (np.abs(error) < 1.96 * std[gaps]).mean() <= 1.0


def test_gaps_of_the_training_table_are_filled(table):
    holed = table[:80].copy()
    holed[np.random.default_rng(1).random(holed.shape) < 0.2] = np.nan
    model = mrd().fit(holed)
    filled = model.impute()
    gaps = np.isnan(holed)
    assert np.array_equal(filled[~gaps], holed[~gaps])
    error = (filled - table[:80])[gaps]
    assert np.mean(error**2) < 0.5 * np.mean((np.nanmean(holed, axis=0) - table[:80])[gaps] ** 2)
    np.testing.assert_allclose(model.impute(holed), filled, rtol=1e-9)


def test_a_column_that_may_be_in_either_of_two_groups_is_a_mixture(table):
    """Draws, quantiles and densities know both; one Gaussian with the same moments would be wrong."""
    model = mrd().fit(table[:80])
    phi = np.array(model.state_.phi)
    phi[0] = 0.5
    model.state_ = replace(model.state_, phi=phi)
    model._kept.predictor = None
    X = model.latents_[[3]]
    with computing():
        latents, _ = model._latents(X, None)
        components = model._predictor().groups.components
        means, variances = model._predictor().components_at(latents)
    assert np.array_equal(components.columns, [0, 0, *range(1, 10)])
    assert np.array_equal(components.shares, [0.5, 0.5] + [1.0] * 9)
    scale, offset = model._scaling.scale[0], model._scaling.mean[0]
    means, deviations = means[0, :2] * scale + offset, np.sqrt(variances[0, :2]) * scale
    assert abs(means[0] - means[1]) > 2.0 * deviations.max()  # or one Gaussian would do

    def chance_below(value):
        return norm.cdf(value, means, deviations).mean()

    for wanted, found in zip((0.025, 0.5, 0.9), model.predict_quantiles(X, (0.025, 0.5, 0.9))[:, 0, 0], strict=True):
        assert chance_below(found) == pytest.approx(wanted, abs=1e-6)
    drawn = model.sample_at(X, 4000, random_state=0)[:, 0, 0]
    assert kstest(drawn, np.vectorize(chance_below)).pvalue > 0.01
    mean, std = model.predict(X, return_std=True)
    assert mean[0, 0] == pytest.approx(means.mean())
    assert std[0, 0] == pytest.approx(np.sqrt((deviations**2).mean() + means.var()))
    # A row that shows this column alone: latents integrated out over draws of their prior.
    row = np.full((1, 10), np.nan)
    row[0, 0] = mean[0, 0]
    prior = np.random.default_rng(0).normal(size=(40_000, latents.shape[1]))
    with computing():
        at = model._predictor().components_at(prior)
    each = at[0][:, :2] * scale + offset, np.sqrt(at[1][:, :2]) * scale
    of_scales = [norm.pdf(row[0, 0], each[0], np.sqrt(times) * each[1]).mean() for times in SCALES]
    assert model.score_samples(row)[0] == pytest.approx(np.log(CHANCES @ of_scales), abs=0.02)
    low, high = model.impute_quantiles(np.full((1, 10), np.nan), (0.1, 0.9))[:, 0, 0]
    assert np.mean(model.sample(8000, random_state=0)[:, 0] < low) == pytest.approx(0.1, abs=0.02)
    assert np.mean(model.sample(8000, random_state=0)[:, 0] < high) == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("value", [1e7, 2147483647.0, 1e12, 1e90])
def test_a_number_that_stands_for_a_gap_spoils_no_sums(model, table, value):
    """Weights of draws add up to one, however small the density of the row. It is as unlike all others as a row can be:
    what it hides may be four times as far from what is expected as in other rows."""
    rows = table[80:82].copy()
    rows[:, 0], rows[:, 6] = value, np.nan
    filled, std = model.impute(rows, return_std=True)
    low, high = model.impute_quantiles(rows, (0.025, 0.975))[:, :, 6]
    assert (low < filled[:, 6]).all()
    assert (filled[:, 6] < high).all()
    assert (std[:, 6] < 4.0 * 3.0 * table.std(axis=0)[6]).all()


def test_densities_are_of_the_users_units(table, new):
    # A power of two costs no digits, so that both fits are the same.
    model, scaled = (mrd().fit(factor * table[:80]) for factor in (1.0, 8.0))
    seen = (~np.isnan(new)).sum(axis=1)
    for method in ("sampled", "bound"):
        found = model.score_samples(new, method=method) - scaled.score_samples(8.0 * new, method=method)
        np.testing.assert_allclose(found, seen * np.log(8.0), rtol=1e-9)
    np.testing.assert_allclose(model.infer(new).bound, model.score_samples(new, method="bound"))
    assert model.score(new) == pytest.approx(model.score_samples(new).mean())


def test_the_sampled_density_is_above_the_bound_of_a_row_like_those_learned_from(fitted, new):
    """Which it is with a chance of 0.95, and anywhere with another; what is left is for the chance of the draws."""
    bound = fitted.score_samples(new, method="bound") + np.log(0.95 * fitted._predictor().whereabouts.shares[0])
    assert (fitted.score_samples(new) > bound - 0.02).all()


def test_the_joint_density_is_a_difference_of_bounds(model, new):
    """Rows that were in no training: what they add to the bound is near to what they are worth one by one."""
    one = model.score_samples(new[:2], method="joint")
    assert one.shape == (2,)
    np.testing.assert_allclose(one, model.score_samples(new[:2]), atol=3.0)
    together = 2.0 * model.score(new[:2], method="joint")
    assert together >= one.sum() - 0.5


@pytest.mark.parametrize("make", [gplvm, mrd, dpgplvm], ids=["BayesianGPLVM", "MRD", "DPGPLVM"])
def test_a_row_with_nothing_observed_adds_nothing_and_gets_the_prior(table, make):
    alone = make(max_iter=30).fit(table[:80])
    with pytest.warns(UserWarning, match="nothing observed"):
        with_row = make(max_iter=30).fit(np.insert(table[:80], 20, np.nan, axis=0))
    assert with_row.elbo_ == alone.elbo_
    assert np.array_equal(np.delete(with_row.latents_, 20, axis=0), alone.latents_)
    assert (with_row.latents_[20] == 0.0).all()
    assert (with_row.latent_variance_[20] == 1.0).all()
    assert with_row.impute().shape == (81, 10)


def test_a_new_row_with_nothing_observed_gets_the_prior(fitted):
    nothing = np.full((1, 10), np.nan)
    found = fitted.infer(nothing)
    np.testing.assert_allclose(found.mean, 0.0, atol=1e-3)
    np.testing.assert_allclose(found.variance, 1.0, atol=1e-3)
    np.testing.assert_allclose(found.bound, 0.0, atol=1e-6)
    assert fitted.score_samples(np.concatenate([nothing, nothing])).tolist() == [0.0, 0.0]
    drawn = fitted.sample(4000, random_state=0)
    filled, std = fitted.impute(nothing, return_std=True)
    np.testing.assert_allclose(filled[0], drawn.mean(axis=0), atol=0.15 * drawn.std(axis=0).max())
    np.testing.assert_allclose(std[0], drawn.std(axis=0), rtol=0.15)


def test_moments_are_those_of_draws(fitted):
    X, variance = fitted.latents_[:5], 0.3 + fitted.latent_variance_[:5]
    mean, std = fitted.predict(X, variance=variance, return_std=True)
    drawn = fitted.sample_at(X, 20_000, variance=variance, random_state=0)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.06 * std.max())
    np.testing.assert_allclose(drawn.std(axis=0), std, rtol=0.06)
    low, middle, high = fitted.predict_quantiles(X, (0.1, 0.5, 0.9), variance=variance)
    for found, share in ((low, 0.1), (middle, 0.5), (high, 0.9)):
        np.testing.assert_allclose((drawn <= found).mean(axis=0), share, atol=0.03)


def test_certain_latents_have_gaussian_columns(fitted):
    X = fitted.latents_[:4]
    mean, std = fitted.predict(X, return_std=True)
    low, middle, high = fitted.predict_quantiles(X, (0.15865525393, 0.5, 0.84134474607))
    np.testing.assert_allclose(middle, mean, rtol=1e-6)
    np.testing.assert_allclose(high - low, 2.0 * std, rtol=1e-6)
    assert np.array_equal(fitted.inverse_transform(X), mean)


def test_the_covariance_of_rows_has_their_variances_and_is_positive(fitted):
    X = fitted.latents_[:6]
    covariance = fitted.predict(X, return_cov=True)[1]
    assert covariance.shape == (6, 6, 10)
    _, std = fitted.predict(X, return_std=True)
    np.testing.assert_allclose(np.einsum("ssd->sd", covariance), std**2, rtol=1e-6)
    for of_column in np.moveaxis(covariance, 2, 0):
        np.testing.assert_allclose(of_column, of_column.T, atol=1e-9)
        assert np.linalg.eigvalsh(of_column).min() > 0.0
    again = fitted.predict(np.concatenate([X[:1], X[:1]]), return_cov=True)[1]
    within = std[0] ** 2 - again[0, 1]
    np.testing.assert_allclose(within, _noise_variance(fitted), rtol=1e-4)  # the same function twice, other noise


def _noise_variance(model):
    noise = 1.0 / np.asarray(model.noise_precision_)
    return (noise if model.column_scale_ is not None else noise[model.groups_]) * model._scaling.scale**2


def test_samples_look_like_the_table(fitted, table):
    drawn = fitted.sample(2000, random_state=0)
    assert drawn.shape == (2000, 10)
    np.testing.assert_allclose(drawn.mean(axis=0), table[:80].mean(axis=0), atol=0.5 * table.std())
    np.testing.assert_allclose(drawn.std(axis=0), table[:80].std(axis=0), rtol=0.4)
    assert np.array_equal(drawn, fitted.sample(2000, random_state=0))
    assert not np.array_equal(drawn, fitted.sample(2000, random_state=1))


@pytest.mark.parametrize(
    ("kernel", "noise"),
    [("rbf", "group"), ("linear", "column"), pytest.param("rbf+linear", "column", marks=pytest.mark.slow)],
)
def test_every_kernel_and_noise_imputes(table, new, kernel, noise):
    model = mrd(kernel=kernel, noise=noise, max_iter=40).fit(np.concatenate([table[:40], new]))
    filled, std = model.impute(new, return_std=True)
    assert np.isfinite(filled).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.score_samples(new)).all()


@pytest.mark.parametrize(
    "changes", [{"bound": "mixed"}, {"optimiser": "paper", "max_iter": 30}], ids=["mixed", "paper"]
)
@pytest.mark.parametrize(
    "make", [gplvm, pytest.param(dpgplvm, marks=pytest.mark.slow)], ids=["BayesianGPLVM", "DPGPLVM"]
)
@pytest.mark.filterwarnings("ignore:everything is explained as noise")
def test_the_papers_bound_and_optimiser_take_gaps(table, new, make, changes):
    model = make(**{"max_iter": 20, "noise": "group", **changes}).fit(np.concatenate([table[:20], new]))
    assert np.isfinite(model.elbo_)
    assert np.isfinite(model.impute(new)).all()


def test_all_about_gaps_at_once_is_what_each_question_gets(fitted, new):
    filled, std, found = fitted.impute(new, return_std=True, quantiles=(0.1, 0.9))
    np.testing.assert_array_equal(filled, fitted.impute(new))
    np.testing.assert_array_equal(std, fitted.impute(new, return_std=True)[1])
    np.testing.assert_array_equal(found, fitted.impute_quantiles(new, (0.1, 0.9)))
    without_std = fitted.impute(new, quantiles=0.1)
    assert [part.shape for part in without_std] == [new.shape, (1, *new.shape)]
    np.testing.assert_array_equal(without_std[1][0], found[0])


def test_what_is_known_of_other_latents_does_not_touch_a_row():
    """Nor how its variance is found, where columns have so little noise that large numbers would show."""
    t = np.linspace(0.0, 6.0, 40)[:, None]
    table = np.sin(t * np.linspace(0.8, 1.2, 8) + np.arange(8)) + 1e-4 * np.random.default_rng(0).normal(size=(40, 8))
    model = gplvm(n_inducing=20, noise="column", max_iter=100).fit(table)
    X, variance = model.latents_[:6], np.zeros((6, model.n_latents_))
    _, alone = model.predict(X, return_std=True)
    variance[0] = 0.1
    _, together = model.predict(X, variance=variance, return_std=True)
    assert (together[0] > 1.1 * alone[0]).all()
    np.testing.assert_allclose(together[1:], alone[1:], rtol=1e-10)
    covariance = model.predict(X, return_cov=True)[1]
    np.testing.assert_allclose(np.einsum("ssd->sd", covariance), alone**2, rtol=1e-7)


def rbf(theta, X, Z):
    squares = ((X[:, None] - np.asarray(Z)) ** 2 * np.asarray(theta["ard_weights"])).sum(axis=2)
    return float(theta["signal_variance"]) * np.exp(-0.5 * squares)


def test_the_covariance_of_rows_is_that_of_columns_with_their_own_gaps_in_their_groups(table):
    """Against second moments of the functions, with a matrix for every column."""
    holed = np.where(np.random.default_rng(3).random((80, 10)) < 0.1, np.nan, table[:80])
    model = dpgplvm(max_iter=20).fit(holed)
    phi = np.asarray(model.state_.phi)
    model.state_ = replace(model.state_, phi=0.8 * phi + 0.2 / phi.shape[1])  # and not sure of groups
    X = model.latents_[:4]
    found = model.predict(X, return_cov=True)[1] / model._scaling.scale**2
    with computing():
        predictor = model._predictor()
        places = model._latents(X, None)[0]
        mean, variance = predictor.at_points(places)
        second = np.zeros((10, 4, 4))
        for t, (members, shares) in enumerate(zip(predictor.groups.members, predictor.groups.shares, strict=True)):
            values, among = (rbf(predictor.theta[t], places, others) for others in (model.state_.free.inducing, places))
            for k in np.flatnonzero(shares):
                pairs = np.zeros((values.shape[1],) * 2)
                upper = np.triu_indices(len(pairs))
                pairs[upper] = np.asarray(predictor.functions[t].squares)[k]
                own = 0.5 * values @ (pairs + pairs.T) @ values.T
                own += float(predictor.functions[t].prior[k]) * among
                second[members[k]] += shares[k] * (own + np.eye(4) / predictor.noise_precision[t, k])
    expected = np.moveaxis(second - mean.T[:, :, None] * mean.T[:, None, :], 0, 2)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(np.einsum("ssd->sd", found), variance, rtol=1e-9)


def test_draws_are_enough_for_many_uncertain_latents():
    """Where functions are linear, rows of the prior are Gaussian and have the moments of `predict`."""
    rng = np.random.default_rng(2)
    table = rng.normal(size=(60, 8)) @ rng.normal(size=(8, 12)) + 0.5 * rng.normal(size=(60, 12))
    model = gplvm(n_latents=8, n_inducing=20, kernel="linear", max_iter=30).fit(table)
    nowhere = np.zeros((1, model.n_latents_))
    mean, std = model.predict(nowhere, variance=1.0, return_std=True)
    filled, spread, (low, high) = model.impute(np.full((1, 12), np.nan), return_std=True, quantiles=(0.025, 0.975))
    np.testing.assert_allclose(filled, mean, atol=0.01 * std.min())
    np.testing.assert_allclose(spread, std, rtol=0.01)
    for ends in ((low, high), model.predict_quantiles(nowhere, (0.025, 0.975), variance=1.0)):
        np.testing.assert_allclose(ends[1] - ends[0], 2.0 * 1.96 * std, rtol=0.03)


@pytest.mark.parametrize("quantiles", [(0.0, 0.5), "half", [[0.5]]], ids=str)
def test_quantiles_that_are_none_are_refused_by_name(fitted, new, quantiles):
    with pytest.raises(ValueError, match="give numbers between 0 and 1"):
        fitted.impute(new, quantiles=quantiles)
