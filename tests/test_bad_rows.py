"""New rows and latents that do not fit the model are refused in one sentence that says what to do."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from dpgplvm import MRD
from dpgplvm.datasets import make_views

NAMES = ["hip", "knee", "ankle", "wrist", "elbow", "thumb"]
OF_TABLES = ("infer", "transform", "impute", "impute_quantiles", "sample_imputations", "score_samples", "score")
OF_LATENTS = ("predict", "inverse_transform", "predict_quantiles", "sample_at")


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=24, latents=((0,), (1,)), columns=3, random_state=0).Y


def mrd():
    return MRD(views=["legs"] * 3 + ["arms"] * 3, n_latents=2, n_inducing=8, max_iter=5, random_state=0)


@pytest.fixture(scope="module")
def fitted(table):
    return mrd().fit(pd.DataFrame(table, columns=NAMES))


def assert_refused(act, *arguments, says, **keywords):
    with pytest.raises((ValueError, TypeError)) as caught:
        act(*arguments, **keywords)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    for pattern in says:
        assert re.search(pattern, message, re.IGNORECASE), f"no {pattern!r} in {message!r}"


@pytest.mark.parametrize("method", [*OF_TABLES, *OF_LATENTS, "sample"])
def test_nothing_is_predicted_before_a_fit(table, method):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(mrd(), method)(*(() if method == "sample" else (table,)))


BAD_ROWS = {
    "a column less": (lambda Y: pd.DataFrame(Y[:, :5], columns=NAMES[:5]), ["lacks", "'thumb'", "NaN"]),
    "a column more": (lambda Y: pd.DataFrame(Y, columns=NAMES).assign(tail=1.0), ["'tail'", "drop"]),
    "other names": (lambda Y: pd.DataFrame(Y, columns=[*NAMES[:5], "tail"]), ["lacks", "'thumb'"]),
    "text": (lambda Y: pd.DataFrame(Y, columns=NAMES).assign(hip="tall"), ["'hip'", "number", "drop|encode"]),
    "dates": (lambda Y: pd.DataFrame(Y, columns=NAMES).assign(hip=pd.Timestamp(0)), ["'hip'", "number", "drop|encode"]),
    "far away": (lambda Y: pd.DataFrame(np.where(Y[0, 1] == Y, 1e200, Y), columns=NAMES), ["1e.200", "'knee'", "NaN"]),
    "infinite": (lambda Y: pd.DataFrame(np.where(Y[0, 1] == Y, np.inf, Y), columns=NAMES), ["infinity", "'knee'"]),
    "no rows": (lambda Y: pd.DataFrame(Y[:0], columns=NAMES), [r"\bY\b", "0 (sample|row)"]),
}


@pytest.mark.parametrize("case", BAD_ROWS)
@pytest.mark.parametrize("method", OF_TABLES)
def test_rows_that_do_not_fit_are_refused(fitted, table, method, case):
    spoil, says = BAD_ROWS[case]
    assert_refused(getattr(fitted, method), spoil(table), says=says)


BAD_ARRAYS = {
    "a column less": (lambda Y: Y[:, :5], [r"\bY\b", "5", "6", "give", "NaN where nothing is known"]),
    "a column more": (lambda Y: np.hstack([Y, Y[:, :1]]), [r"\bY\b", "7", "6", "give"]),
    "text": (lambda Y: np.full(Y.shape, "tall"), ["text", "encode"]),
    "text of numbers": (lambda Y: Y.astype(str), ["text", "encode"]),
    "objects of text": (lambda Y: Y.astype(str).astype(object), ["text", "encode"]),
    "masked text": (lambda Y: np.ma.masked_equal(Y.astype(str), "3"), ["text", "encode"]),
    "dates": (lambda Y: Y.astype("datetime64[s]"), ["dates", "give numbers"]),
    "durations": (lambda Y: Y.astype("timedelta64[s]"), ["durations", "give numbers"]),
    "masked complex": (lambda Y: np.ma.masked_equal(Y * 1j, 3), ["complex", "real and imaginary"]),
    "complex": (lambda Y: Y * 1j, ["complex", "real and imaginary"]),
    "three dimensions": (lambda Y: Y[None], ["dim 3", "rows by columns"]),
    "no table": (lambda Y: 3.0, ["scalar", "rows by columns"]),
    "a frame without columns": (lambda Y: pd.DataFrame(index=range(3)), ["no columns", "give"]),
}


@pytest.fixture(scope="module")
def fitted_to_array(table):
    return mrd().fit(table)


@pytest.mark.parametrize("case", BAD_ARRAYS)
def test_arrays_that_do_not_fit_are_refused(fitted_to_array, table, case):
    spoil, says = BAD_ARRAYS[case]
    for method in ("impute", "transform"):
        assert_refused(getattr(fitted_to_array, method), spoil(table), says=says)


def test_a_frame_without_names_to_match_is_taken_by_position(table):
    model = mrd().fit(table)
    frame = pd.DataFrame(table, columns=NAMES)
    assert np.array_equal(model.transform(frame), model.transform(table))


@pytest.mark.parametrize("method", OF_LATENTS)
@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.zeros((3, 5)), ["X", "5 columns", "latents"]),
        (np.zeros(2), ["X", "1D|2D"]),
        ([["a", "b"]], ["X", "string|number|convert"]),
        (np.full((1, 2), np.nan), ["X", "NaN"]),
    ],
    ids=["width", "one-dimensional", "text", "NaN"],
)
def test_latents_that_do_not_fit_are_refused(fitted, method, X, says):
    assert_refused(getattr(fitted, method), X, says=says)


def test_bad_options_are_refused(fitted, table):
    frame, X = pd.DataFrame(table, columns=NAMES), fitted.latents_[:3]
    for negative in (-np.ones_like(X), np.ones((2, X.shape[1]))):
        assert_refused(fitted.predict, X, variance=negative, says=["variance", "zero or more"])
    assert_refused(fitted.predict, X, return_std=True, return_cov=True, says=["return_std", "return_cov"])
    assert_refused(fitted.predict, X, variance=np.ones_like(X), return_cov=True, says=["variance", "return_cov"])
    for method in (fitted.score, fitted.score_samples):
        assert_refused(method, frame, method="exact", says=["method", "'exact'", "sampled", "bound", "joint"])
    for quantiles in (0.0, 1.0, [0.5, 2.0], np.nan):
        assert_refused(fitted.impute_quantiles, frame, quantiles, says=["quantiles", "between 0 and 1"])
        assert_refused(fitted.predict_quantiles, X, quantiles, says=["quantiles", "between 0 and 1"])
    for seed in (-1, "seed", 1.5):
        assert_refused(fitted.sample, 2, random_state=seed, says=["random_state", "0 or more"])
    for draws in (0, -1, 2.5, True):
        assert_refused(fitted.sample, draws, says=["n_samples", str(draws), "1 or more"])
        assert_refused(fitted.sample_at, X, draws, says=["n_draws", str(draws), "1 or more"])
        assert_refused(fitted.sample_imputations, frame, draws, says=["n_draws", str(draws), "1 or more"])


def test_a_refusal_loses_nothing(fitted, table):
    before = fitted.summary(), fitted.impute().to_numpy().tolist()
    assert_refused(fitted.impute, pd.DataFrame(table[:, :2], columns=NAMES[:2]), says=["lacks"])
    assert (fitted.summary(), fitted.impute().to_numpy().tolist()) == before
