"""Rows go in and answers come out in the user's own containers: frames, names, indices, pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from small_models import mrd

NAMES = ["hip", "knee", "ankle", "heel", "toe", "wrist", "elbow", "thumb", "palm", "neck"]


@pytest.fixture(scope="module")
def framed(table):
    return mrd().fit(pd.DataFrame(table[:80], columns=NAMES))


def test_latents_are_found_by_their_names(model):
    names = list(model.get_feature_names_out())
    X = pd.DataFrame(model.latents_[:5], columns=names)
    wanted = model.predict(model.latents_[:5])
    assert np.array_equal(model.predict(X[names[::-1]]), wanted)
    assert np.array_equal(model.predict(pl.DataFrame(X)[names[::-1]]), wanted)
    other = X.set_axis(["a", "b"], axis=1)  # no names that it knows: by position
    assert np.array_equal(model.predict(other), wanted)
    with pytest.raises(ValueError, match="X has columns 'mrd0' and not the other latents of 'mrd0', 'mrd1': give all"):
        model.predict(X.rename(columns={"mrd1": "b"}))
    as_number = model.predict(X, variance=0.2, return_std=True)
    np.testing.assert_array_equal(as_number, model.predict(X, variance=np.full(X.shape, 0.2), return_std=True))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_come_back_as_they_came(table, new, frame):
    def make(values, names):
        return frame(values, columns=names) if frame is pd.DataFrame else frame(values, schema=names)

    model = mrd().fit(make(table[:80], NAMES))
    order = [3, 0, 5, 1, 9, 4, 2, 8, 6, 7]
    names = [NAMES[d] for d in order]
    shuffled = make(new[:, order], names)
    filled, std = model.impute(shuffled, return_std=True)
    assert isinstance(filled, frame)
    assert list(filled.columns) == list(std.columns) == names
    np.testing.assert_allclose(filled.to_numpy(), model.impute(make(new, NAMES)).to_numpy()[:, order], rtol=1e-9)
    # Several tables are as many DataFrames.
    kept = ~np.isnan(new[:, order])
    of_training = model.impute_quantiles(make(new, NAMES), (0.1, 0.9))
    drawn = model.sample_imputations(shuffled, 3, random_state=0)
    for found in (model.impute_quantiles(shuffled, (0.1, 0.9)), model.impute(shuffled, quantiles=(0.1, 0.9))[1]):
        for one, wanted in zip(found, of_training, strict=True):
            np.testing.assert_allclose(one.to_numpy(), wanted.to_numpy()[:, order], rtol=1e-9)
    assert len(drawn) == 3
    for one in drawn:
        assert isinstance(one, frame)
        assert list(one.columns) == names
        assert np.array_equal(one.to_numpy()[kept], new[:, order][kept])
    latents = model.latents_[:4]
    for found in (model.predict_quantiles(latents, (0.1, 0.9)), model.sample_at(latents, 2, random_state=0)):
        assert len(found) == 2
        assert all(isinstance(one, frame) and list(one.columns) == NAMES and one.shape == (4, 10) for one in found)
    predicted = model.predict(model.transform(shuffled))
    assert isinstance(predicted, frame)
    assert list(predicted.columns) == NAMES
    assert list(model.sample(2, random_state=0).columns) == NAMES


def test_square_frames_of_polars_are_not_turned(table):
    model = mrd().fit(pl.DataFrame(table[:80], schema=NAMES))
    square = table[80:90].copy()
    square[2, 3] = np.nan
    filled = model.impute(pl.DataFrame(square, schema=NAMES, orient="row").fill_nan(None)[NAMES[::-1]])
    kept = ~np.isnan(square[:, ::-1])
    assert np.array_equal(filled.to_numpy()[kept], square[:, ::-1][kept])


def test_columns_that_are_named_by_numbers_are_found_by_them(table, new):
    model = mrd().fit(pd.DataFrame(table[:80]))
    wanted = model.impute(pd.DataFrame(new))
    turned = model.impute(pd.DataFrame(new)[list(range(9, -1, -1))])
    assert list(turned.columns) == list(range(9, -1, -1))
    np.testing.assert_allclose(turned[list(range(10))], wanted, rtol=1e-9)
    assert list(model.predict(model.latents_[:2]).columns) == list(range(10))


def test_a_model_of_an_array_takes_frames_of_any_types(model, new):
    frame = pd.DataFrame(new, columns=NAMES)
    wanted = model.impute(new)
    np.testing.assert_allclose(model.impute(frame.astype("Float64")).to_numpy(dtype=float), wanted)
    np.testing.assert_allclose(model.impute(pl.DataFrame(new, schema=NAMES).fill_nan(None)).to_numpy(), wanted)


def test_a_frame_keeps_its_index_and_the_types_of_columns_without_gaps(table, framed):
    frame = pd.DataFrame(np.round(table[80:]), columns=NAMES, index=pd.RangeIndex(100, 130))
    frame["hip"] = frame["hip"].astype(int)
    frame.loc[103, "knee"] = np.nan
    filled, (drawn,) = framed.impute(frame), framed.sample_imputations(frame, 1, random_state=0)
    assert filled.index.equals(frame.index)
    assert drawn.index.equals(frame.index)
    assert drawn["hip"].dtype == frame["hip"].dtype
    assert filled["hip"].dtype == frame["hip"].dtype
    assert np.isfinite(filled.loc[103, "knee"])
    assert np.isnan(frame.loc[103, "knee"])  # the user's own is left alone


def test_scikit_learn_names_the_latents(model, table, new):
    assert list(model.get_feature_names_out()) == [f"mrd{q}" for q in range(model.n_latents_)]
    named = mrd().set_output(transform="pandas").fit(table[:80]).transform(new)
    assert list(named.columns) == list(model.get_feature_names_out())
    assert model.__sklearn_tags__().input_tags.allow_nan


def test_a_model_survives_pickling_and_cloning(model, new):
    wanted = model.impute(new)
    again = pickle.loads(pickle.dumps(model))
    assert again._kept.predictor is None
    assert np.array_equal(again.impute(new), wanted)
    assert clone(model).get_params()["n_latents"] == 2
