"""Rows that have drifted: unlike those that were learned from, but along what columns do together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scales import CHANCES, SCALES
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from dpgplvm import MRD, BayesianGPLVM
from dpgplvm.inference import rounds
from dpgplvm.inference.drift import _CHANCES, _SIZES, Drift
from dpgplvm.inference.row_scales import MAYBE_UNLIKE
from dpgplvm.numerics import computing

N_COLUMNS = 24
SLOPES, WAVES = np.random.default_rng(0).normal(size=(2, 2, N_COLUMNS))


def drawn(n_rows, seed, out=0.0):
    """Rows of columns that mostly rise, along two latents of which the first is so far out."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2)) + np.array([out, 0.0])
    return X @ SLOPES + 0.3 * np.sin(X @ WAVES) + 0.03 * rng.normal(size=(n_rows, N_COLUMNS))


@pytest.fixture(scope="module")
def model():
    return BayesianGPLVM(n_latents=2, n_inducing=25, kernel="rbf", noise="column", random_state=0).fit(drawn(100, 0))


@pytest.fixture(scope="module")
def predictor(model):
    with computing():
        return model._predictor()


def suspects(predictor, rows):
    """Which rows are suspected, by the density that they have without any drift."""
    drift = Drift.learned(predictor)
    scaled = predictor_units(predictor, rows)
    densities = np.empty(len(rows))
    for some, part in rounds.posterior_of_rows(predictor, scaled, may_drift=False):
        densities[some] = part.log_density
    observed = np.ones_like(scaled)
    return drift.unlikely(densities, observed) & drift.may_explain(observed)


def predictor_units(predictor, rows):
    reference = drawn(100, 0)
    return (rows - reference.mean(axis=0)) / reference.std(axis=0)


def errors(model, truth, n_hidden=6):
    """Mean squared error of hidden columns in units of their variance, and what share of them intervals hold."""
    hidden = np.arange(N_COLUMNS) < n_hidden
    rows = np.where(hidden, np.nan, truth)
    filled = model.impute(rows)
    low, high = model.impute_quantiles(rows, (0.025, 0.975))
    error = np.mean(((filled - truth) / drawn(1000, 9).std(axis=0))[:, hidden] ** 2)
    return error, np.mean(((low <= truth) & (truth <= high))[:, hidden])


FAR = drawn(40, 2, out=6.0)


@pytest.mark.parametrize("out", [3.0, 6.0])
def test_rows_that_walked_on_are_filled_by_what_columns_do_together(model, monkeypatch, out):
    rows = drawn(40, 2, out)
    error, held = errors(model, rows)
    monkeypatch.setattr(Drift, "learned", lambda *arguments: None)
    without, _ = errors(model, rows)
    assert without > 1.0  # they go back to the mean
    assert error < 0.4 * without
    assert held > 0.9


def test_rows_that_walked_on_are_suspects_and_others_are_not(predictor):
    with computing():
        assert suspects(predictor, FAR).all()
        assert suspects(predictor, drawn(200, 3)).mean() < 0.1


def test_what_is_said_of_a_row_that_has_drifted_does_not_depend_on_others(model):
    rows = np.where(np.arange(N_COLUMNS) < 6, np.nan, np.concatenate([FAR[:4], drawn(4, 3)]))
    together, std = model.impute(rows, return_std=True)
    alone, std_alone = model.impute(rows[1:2], return_std=True)
    np.testing.assert_allclose(alone, together[1:2], rtol=1e-10)
    np.testing.assert_allclose(std_alone, std[1:2], rtol=1e-10)


def test_linear_functions_and_literal_models_do_not_drift(predictor):
    linear = BayesianGPLVM(n_latents=2, kernel="linear", random_state=0).fit(drawn(30, 0))
    with computing():
        assert Drift.learned(predictor) is not None
        assert Drift.learned(predictor.literally()) is None
        assert Drift.learned(linear._predictor()) is None


def test_the_covariance_is_that_of_the_functions_where_rows_were(predictor):
    with computing():
        drift = Drift.learned(predictor)
        values, _ = predictor.at_points(np.asarray(predictor.training.mean))
    eigenvalues, directions = np.linalg.eigh(np.cov(values.T, bias=True))
    largest = directions[:, -6:]  # a quarter of the columns
    np.testing.assert_allclose(drift.loadings @ drift.loadings.T, largest * eigenvalues[-6:] @ largest.T, atol=1e-10)
    np.testing.assert_allclose(drift.own, 0.001 * values.var(axis=0))


def random_row(n_columns=5, n_directions=2, n_draws=4):
    rng = np.random.default_rng(1)
    drift = Drift(rng.normal(size=(n_columns, n_directions)), np.full(n_columns, 0.01), np.zeros(n_columns), 0.0)
    values, means = 3.0 * rng.normal(size=n_columns), rng.normal(size=(n_draws, n_columns))
    variances, log_prior = rng.uniform(0.1, 1.0, size=means.shape), rng.normal(size=(len(SCALES), n_draws))
    return drift, values, np.array([1.0, 1.0, 0.0, 1.0, 0.0]), means, variances, log_prior


def literal(drift, means, variances, chosen):
    """Mean and covariance of some columns, for every size and scale, and the prior chances of these."""
    for size, chance in zip(_SIZES, _CHANCES, strict=True):
        for k, (scale, of_scale) in enumerate(zip(SCALES, CHANCES, strict=True)):
            own = np.diag(variances + size * drift.own)
            covariance = scale * (own + size * drift.loadings @ drift.loadings.T)
            yield means[chosen], covariance[np.ix_(chosen, chosen)], np.log(chance * of_scale), k


def plain(means, variances, values, seen):
    return multivariate_normal(means[seen], np.diag(variances[seen])).logpdf(values[seen])


def test_the_density_of_a_row_that_may_have_drifted_is_a_sum_of_gaussians():
    drift, values, observed, means, variances, log_prior = random_row()
    seen = observed > 0.0
    without = np.array(
        [
            [
                multivariate_normal(means[w, seen], scale * np.diag(variances[w, seen])).logpdf(values[seen])
                for w in range(4)
            ]
            for scale in SCALES
        ]
    )
    found = drift.of_row(MAYBE_UNLIKE, values, observed, means, variances, log_prior, without)
    for w in range(len(means)):
        terms = [
            multivariate_normal(mean, covariance).logpdf(values[seen]) + chance + log_prior[k, w]
            for mean, covariance, chance, k in literal(drift, means[w], variances[w], seen)
        ]
        assert found.log_joint[w] == pytest.approx(logsumexp(terms), rel=1e-10)


def test_draws_of_a_row_that_may_have_drifted_have_the_moments_of_what_is_hidden():
    """Many draws at the same place, beside the sum over sizes and scales of Gaussians given what is seen."""
    drift, values, observed, means, variances, log_prior = random_row(n_draws=1)
    many = (np.repeat(part, 40_000, axis=-2 if part is not log_prior else -1) for part in (means, variances, log_prior))
    columns = np.arange(5)
    seen, hidden = columns[observed > 0.0], columns[observed == 0.0]
    without = [[plain(means[0], scale * variances[0], values, seen)] for scale in SCALES]
    without = np.repeat(without, 40_000, axis=1)
    found = drift.of_row(MAYBE_UNLIKE, values, observed, *many, without)
    logs, firsts, seconds = [], [], []
    for _, covariance, chance, k in literal(drift, means[0], variances[0], columns):
        inner = covariance[np.ix_(seen, seen)]
        gain = np.linalg.solve(inner, covariance[np.ix_(seen, hidden)]).T
        mean = means[0, hidden] + gain @ (values - means[0])[seen]
        left = covariance[np.ix_(hidden, hidden)] - gain @ covariance[np.ix_(seen, hidden)]
        logs.append(multivariate_normal(means[0, seen], inner).logpdf(values[seen]) + chance + log_prior[k, 0])
        firsts.append(mean)
        seconds.append(left + np.outer(mean, mean))
    shares = np.exp(logs - logsumexp(logs))
    mean = shares @ np.array(firsts)
    covariance = np.einsum("k,kij->ij", shares, seconds) - np.outer(mean, mean)
    spread = np.sqrt(np.diag(covariance))
    of_draws = found.means[:, hidden]
    np.testing.assert_allclose(of_draws.mean(axis=0), mean, atol=0.02 * spread.max())
    own = (found.scales * found.expected)[:, None] * found.variances[:, hidden]
    total = np.cov(of_draws.T) + np.diag(own.mean(axis=0))
    np.testing.assert_allclose(total, covariance, atol=0.04 * spread.max() ** 2)


def test_peaks_are_higher_than_where_they_were_looked_for_from(predictor):
    rows = predictor_units(predictor, FAR[:5])
    observed = np.ones_like(rows)
    starts = np.random.default_rng(3).normal(size=(5, 3, predictor.inducing.shape[1]))
    with computing():
        drift = Drift.learned(predictor)
        at, information, _ = drift.peaks(predictor, rows, observed, starts, 3)
        size = np.ones(at.shape[:2])
        before, after = (
            drift._expanded(predictor, places, size, rows[:, None], observed[:, None]) for places in (starts, at)
        )
        mean, variance = predictor.at_points(at[2])
        slopes = predictor.slopes_at(at[2], np.eye(at.shape[2]))
    assert (after.height.max(axis=1) >= before.height.max(axis=1)).all()
    assert np.median(after.height.max(axis=1) - before.height.max(axis=1)) > 5.0
    assert (np.linalg.eigvalsh(information) > 0.99).all()
    for place in range(3):
        covariance = np.diag(variance[place] + drift.own) + drift.loadings @ drift.loadings.T
        height = multivariate_normal(mean[place], covariance).logpdf(rows[2]) - 0.5 * (at[2, place] ** 2).sum()
        constant = 0.5 * N_COLUMNS * np.log(2.0 * np.pi)
        assert after.height[2, place] == pytest.approx(height + constant, rel=1e-8)
        J = slopes[:, place]
        solved = np.linalg.solve(covariance, np.column_stack([rows[2] - mean[place], J.T]))
        np.testing.assert_allclose(after.slope[2, place], J @ solved[:, 0] - at[2, place], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(after.information[2, place], J @ solved[:, 1:] + np.eye(len(J)), rtol=1e-6)


def test_peaks_are_as_wide_as_what_they_leave_unexplained_makes_them(predictor):
    rows = predictor_units(predictor, FAR[:5])
    rows[:, ::2] += 0.5  # which no drift explains
    shown = rows[:, None], np.ones_like(rows)[:, None]
    starts = np.random.default_rng(3).normal(size=(5, 4, predictor.inducing.shape[1]))
    with computing():
        drift = Drift.learned(predictor)
        at, information, _ = drift.peaks(predictor, rows, np.ones_like(rows), starts, 2)
        sizes = [np.full(at.shape[:2], size) for size in _SIZES[1:]]
        expanded = [drift._expanded(predictor, at, size, *shown) for size in sizes]
    scales = [np.clip(one.squares / N_COLUMNS, SCALES[0], SCALES[-1]) for one in expanded]
    prior = np.eye(at.shape[2])
    expected = [
        (one.information - prior) / scale[..., None, None] + prior for one, scale in zip(expanded, scales, strict=True)
    ]
    # One of the sizes is that of the peak.
    apart = np.abs(np.array(expected) - information).max(axis=(3, 4)) / np.abs(information).max(axis=(2, 3))
    assert (apart.min(axis=0) < 1e-8).all()
    assert np.take_along_axis(np.array(scales), apart.argmin(axis=0)[None], axis=0).max() > 1.5


def test_every_row_comes_back_once_whether_it_has_drifted_or_not(predictor):
    """Rows like those learned from, rows that have drifted, and rows with a number that is wrong."""
    wrong = drawn(10, 4)
    wrong[:, 22] = 20.0
    rows = np.concatenate([drawn(10, 3), FAR[:10], wrong])
    rows = np.where(np.arange(N_COLUMNS) < 6, np.nan, predictor_units(predictor, rows))
    with computing():
        parts = list(rounds.posterior_of_rows(predictor, rows))
    assert sorted(np.concatenate([numbers for numbers, _ in parts])) == list(range(30))
    for numbers, part in parts:
        assert len(numbers) == len(part.weights) == len(part.log_density)
        np.testing.assert_allclose(part.weights.sum(axis=1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("n_hidden", [6, 12])
def test_many_draws_of_rows_that_have_drifted_have_weight(predictor, n_hidden):
    rows = np.where(np.arange(N_COLUMNS) < n_hidden, np.nan, predictor_units(predictor, FAR))
    with computing():
        parts = [part for _, part in rounds.posterior_of_rows(predictor, rows)]
    worth = np.concatenate([part.n_effective for part in parts])
    draws = np.concatenate([np.full(len(part.weights), part.weights.shape[1]) for part in parts])
    assert np.median(worth) > 20.0
    assert (worth > 10.0).mean() > 0.9
    assert np.median(draws) < 4000


@pytest.mark.parametrize("n_hidden", [6, 20])
@pytest.mark.parametrize("value", [8.0, 20.0, -999.0, 1e12])
def test_a_wrong_number_in_one_column_does_not_take_others_along(model, monkeypatch, value, n_hidden):
    """Or hardly further than it does without any drift."""
    rows = drawn(10, 4)
    spoiled = np.where(np.arange(N_COLUMNS) < n_hidden, np.nan, rows)
    spoiled[:, 22] = value
    spread = drawn(1000, 9).std(axis=0)

    def error():
        return np.sqrt(np.mean(((model.impute(spoiled) - rows) / spread)[:, :n_hidden] ** 2))

    found = error()
    monkeypatch.setattr(Drift, "learned", lambda *arguments: None)
    assert found < 1.25 * error()


def test_where_nothing_varies_nothing_drifts():
    """Everything is explained as noise: no direction is left."""
    Y = np.random.default_rng(0).normal(size=(60, 6))
    with pytest.warns(UserWarning, match="explained as noise"):
        noise = BayesianGPLVM(n_latents=2, n_inducing=10, kernel="rbf", random_state=0).fit(Y)
    row = np.array([[30.0, -30.0, 30.0, -30.0, 30.0, np.nan]])
    assert np.isfinite(noise.impute(row)).all()
    assert np.isfinite(noise.score_samples(row)).all()


def test_a_row_that_has_drifted_may_have_columns_of_several_groups(monkeypatch):
    """One that is hidden, and one that is seen."""
    views = np.arange(N_COLUMNS) % 2
    model = MRD(views=views, n_latents=2, n_inducing=25, kernel="rbf", random_state=0)
    model.fit(drawn(100, 0))
    phi = np.array(model.state_.phi)
    phi[[3, 10]] = 0.4, 0.6
    model.state_ = replace(model.state_, phi=phi)
    model._kept.predictor = None
    error, held = errors(model, FAR)
    monkeypatch.setattr(Drift, "learned", lambda *arguments: None)
    without, _ = errors(model, FAR)
    assert error < 0.4 * without
    assert held > 0.9
