"""Tables go in as they are and come out as they came: container, names, index, types and units."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone

from dpgplvm import MRD
from dpgplvm.datasets import make_views

NAMES = ["hip", "knee", "ankle", "wrist", "elbow", "thumb"]
DAYS = pd.date_range("2020-01-01", periods=24, name="day")


def mrd(**changes):
    settings = {"n_latents": 2, "n_inducing": 8, "kernel": "linear", "max_iter": 3, "random_state": 0}
    return MRD(**{**settings, "views": ["legs"] * 3 + ["arms"] * 3, **changes})


@pytest.fixture(scope="module")
def table():
    """Whole numbers, so that every type of number can hold them."""
    return np.round(100.0 + 10.0 * make_views(n_samples=24, latents=((0,), (1,)), columns=3, random_state=0).Y)


@pytest.fixture(scope="module")
def holed(table):
    return np.where(np.arange(table.size).reshape(table.shape) % 11 == 0, np.nan, table)


@pytest.fixture(scope="module")
def framed(holed):
    return mrd().fit(pd.DataFrame(holed, columns=NAMES, index=DAYS))


WHOLE = {
    "integers": lambda Y: pd.DataFrame(Y, columns=NAMES).astype(int),
    "small integers": lambda Y: pd.DataFrame(Y, columns=NAMES).astype("uint8"),
    "float32": lambda Y: pd.DataFrame(Y, columns=NAMES).astype("float32"),
    "pyarrow in pandas": lambda Y: pd.DataFrame(Y, columns=NAMES).astype("int64[pyarrow]"),
    "different types": lambda Y: pd.DataFrame(Y, columns=NAMES).astype({"hip": int, "knee": "Int16"}),
    "polars integers": lambda Y: pl.DataFrame(Y.astype(int), schema=NAMES),
    "polars decimals": lambda Y: pl.DataFrame(Y, schema=NAMES).cast(pl.Decimal(10, 2)),
    "pyarrow table": lambda Y: pa.table(dict(zip(NAMES, Y.T.copy(), strict=True))),
}


@pytest.mark.parametrize("kind", WHOLE)
def test_numbers_of_every_type_are_numbers(table, kind):
    model = mrd(max_iter=0).fit(WHOLE[kind](table))
    assert model.elbo_ == mrd(max_iter=0).fit(table).elbo_
    assert model.feature_names_in_.tolist() == NAMES


def test_yes_and_no_are_numbers(table):
    yes = table > np.median(table, axis=0)
    wanted = mrd(max_iter=0).fit(yes.astype(float)).elbo_
    for frame in (pd.DataFrame(yes, columns=NAMES), pl.DataFrame(yes, schema=NAMES)):
        assert mrd(max_iter=0).fit(frame).elbo_ == wanted


GAPS = {
    "Int64": lambda Y: pd.DataFrame(Y, columns=NAMES).astype("Int64"),
    "Float32": lambda Y: pd.DataFrame(Y, columns=NAMES).astype("Float32"),
    "pyarrow in pandas": lambda Y: pd.DataFrame(Y, columns=NAMES).convert_dtypes(dtype_backend="pyarrow"),
    "objects": lambda Y: pd.DataFrame(Y, columns=NAMES).astype(object).where(~np.isnan(Y), None),
    "objects with NA": lambda Y: pd.DataFrame(Y, columns=NAMES).astype(object).where(~np.isnan(Y), pd.NA),
    "decimals": lambda Y: pd.DataFrame(Y, columns=NAMES).map(lambda value: Decimal(value) if value == value else None),
    "polars nulls": lambda Y: pl.DataFrame(Y, schema=NAMES).fill_nan(None).cast(pl.Int32),
    "pyarrow table": lambda Y: pa.Table.from_pandas(pd.DataFrame(Y, columns=NAMES)),
}


@pytest.mark.parametrize("kind", GAPS)
def test_gaps_of_every_type_are_filled_alike(framed, holed, kind):
    given = GAPS[kind](holed)
    assert mrd(max_iter=0).fit(given).elbo_ == mrd(max_iter=0).fit(holed).elbo_
    filled = framed.impute(given)
    assert type(filled) is type(given)
    wanted = framed.impute(pd.DataFrame(holed, columns=NAMES)).to_numpy()
    found = np.column_stack([np.asarray(filled[name], dtype=float) for name in NAMES])
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


NOT_NUMBERS = {
    "objects": pd.Series([1.0, "tall", None] * 8),
    "durations as objects": pd.Series(list(np.arange(24).astype("timedelta64[s]")), dtype=object),
    "durations": pd.Series(pd.to_timedelta(np.arange(24), "s")),
    "periods": pd.Series(pd.period_range("2020-01", periods=24, freq="M")),
    "intervals": pd.Series(pd.interval_range(0, 24)),
    "text of pyarrow": pd.Series(["tall"] * 24, dtype="string[pyarrow]"),
    "polars objects": pl.Series("gait", [object()] * 24, dtype=pl.Object),
    "polars durations": pl.Series("gait", [datetime.timedelta(seconds=n) for n in range(24)]),
    "polars lists": pl.Series("gait", [[1.0, 2.0]] * 24),
    "pyarrow text": pa.array(["tall"] * 24),
}


@pytest.mark.parametrize("kind", NOT_NUMBERS)
def test_columns_of_anything_else_are_named(table, kind):
    column = NOT_NUMBERS[kind]
    if isinstance(column, pl.Series):
        frame = pl.DataFrame(table, schema=NAMES).with_columns(column)
    elif isinstance(column, pa.Array):
        frame = pa.table(dict(zip(NAMES, table.T.copy(), strict=True))).append_column("gait", column)
    else:
        frame = pd.DataFrame(table, columns=NAMES).assign(gait=column)
    with pytest.raises(ValueError, match="other than numbers in column 'gait': drop it or encode it") as caught:
        mrd().fit(frame)
    assert len(str(caught.value).splitlines()) == 1


def test_numbers_as_objects_may_begin_with_many_gaps(framed, table):
    rows = np.resize(table, (130, table.shape[1])).astype(float)
    rows[:120, 2] = np.nan
    wanted = framed.impute(pd.DataFrame(rows, columns=NAMES)).to_numpy()
    as_objects = pd.DataFrame(rows, columns=NAMES).astype(object)
    assert np.array_equal(framed.impute(as_objects.where(~np.isnan(rows), None)).to_numpy(dtype=float), wanted)
    to_array = mrd(max_iter=0).fit(table).impute(as_objects.where(~np.isnan(rows), pd.NA))
    assert np.isfinite(to_array.to_numpy(dtype=float)).all()


def test_a_column_in_which_nothing_is_known_is_no_text(framed, holed):
    frame = pd.DataFrame(holed, columns=NAMES)
    wanted = framed.impute(frame.assign(hip=np.nan)).to_numpy()
    assert np.array_equal(framed.impute(frame.assign(hip=None)).to_numpy(), wanted)
    nothing = pl.DataFrame(holed, schema=NAMES).with_columns(hip=pl.lit(None))
    np.testing.assert_allclose(framed.impute(nothing).to_numpy(), wanted, rtol=1e-12)


def test_the_training_table_comes_back_with_its_index(framed, holed):
    filled, std = framed.impute(return_std=True)
    for frame in (filled, std):
        pd.testing.assert_index_equal(frame.index, DAYS)
        assert frame.columns.tolist() == NAMES
    gaps = np.isnan(holed)
    assert np.array_equal(filled.to_numpy()[~gaps], holed[~gaps])
    assert ((std.to_numpy() > 0.0) == gaps).all()


def test_other_rows_come_back_with_their_own(framed, holed):
    index = pd.MultiIndex.from_product([["a", "a", "b"], range(8)])  # rows may even share a name
    given = pd.DataFrame(holed, columns=NAMES, index=index)[NAMES[::-1]].astype(
        {"thumb": "Float32", "ankle": "Float64"}
    )
    given = given.assign(thumb=np.arange(24, dtype="int16"))
    before = given.copy()
    filled = framed.impute(given)
    pd.testing.assert_frame_equal(given, before)
    pd.testing.assert_index_equal(filled.index, index)
    assert filled.columns.tolist() == NAMES[::-1]
    pd.testing.assert_series_equal(filled["thumb"], given["thumb"])  # nothing to fill: the very same column
    assert np.isfinite(filled.to_numpy(dtype=float)).all()


def test_latents_and_predictions_keep_the_index(framed, holed):
    model = clone(framed).set_output(transform="pandas")
    given = pd.DataFrame(holed, columns=NAMES, index=DAYS)
    latents = model.fit_transform(given)
    pd.testing.assert_index_equal(latents.index, DAYS)
    assert latents.columns.tolist() == ["mrd0", "mrd1"]
    part = model.transform(given[5:9])
    pd.testing.assert_frame_equal(part, latents[5:9], rtol=1e-6)
    mean, std = model.predict(part, return_std=True)
    for frame in (mean, std, model.inverse_transform(part)):
        pd.testing.assert_index_equal(frame.index, DAYS[5:9])
        assert frame.columns.tolist() == NAMES
    assert model.predict(part.to_numpy()).index.tolist() == [0, 1, 2, 3]
    assert model.sample(3, random_state=0).index.tolist() == [0, 1, 2]


def test_polars_comes_back_as_polars(framed, holed):
    given = pl.DataFrame(holed, schema=NAMES)
    model = mrd().set_output(transform="polars")
    latents = model.fit_transform(given)
    assert isinstance(latents, pl.DataFrame)
    assert latents.columns == ["mrd0", "mrd1"]
    for frame in (model.impute(), model.impute(given), model.predict(latents), model.sample(2, random_state=0)):
        assert isinstance(frame, pl.DataFrame)
        assert frame.columns == NAMES
    np.testing.assert_allclose(model.impute().to_numpy(), framed.impute().to_numpy(), rtol=1e-12)


def test_names_may_be_numbers_or_words_that_frames_have_methods_for(holed):
    for names in (range(6), ["select", "index", "columns", "schema", "name", ""]):
        given = pd.DataFrame(holed, columns=list(names), index=DAYS)
        model = mrd().fit(given)
        assert model.impute().columns.tolist() == list(names)
        pd.testing.assert_frame_equal(
            model.impute(given[list(names)[::-1]])[list(names)], model.impute(), check_freq=False
        )


def test_arrays_come_back_as_arrays(holed):
    model = mrd().fit(holed)
    assert isinstance(model.impute(), np.ndarray)
    assert isinstance(model.predict(pd.DataFrame(model.latents_)), np.ndarray)
    frame = pd.DataFrame(holed, columns=NAMES, index=DAYS)
    pd.testing.assert_index_equal(model.impute(frame).index, DAYS)
    np.testing.assert_allclose(model.impute(frame.astype("Float64")).to_numpy(dtype=float), model.impute(), rtol=1e-12)


def test_units_are_those_of_the_table(framed, holed):
    """Everything in other units: what comes out is in these, and what has none is the same."""
    scale, shift = np.array([1e-3, 2.0, 1.0, 1e4, 0.5, 3.0]), np.array([0.0, 50.0, -7.0, 1e5, 1.0, 2.0])
    other = mrd().fit(pd.DataFrame(holed * scale + shift, columns=NAMES, index=DAYS))
    np.testing.assert_allclose(other.latents_, framed.latents_, atol=1e-6)
    np.testing.assert_allclose(other.impute(), framed.impute() * scale + shift, rtol=1e-6)
    X = framed.latents_[:4]
    (mean, std), (other_mean, other_std) = framed.predict(X, return_std=True), other.predict(X, return_std=True)
    np.testing.assert_allclose(other_mean, mean * scale + shift, rtol=1e-5)
    np.testing.assert_allclose(other_std, std * scale, rtol=1e-5)
    np.testing.assert_allclose(other.predict_quantiles(X), framed.predict_quantiles(X) * scale + shift, rtol=1e-5)
    densities = framed.score_samples(pd.DataFrame(holed, columns=NAMES)) - (~np.isnan(holed)) @ np.log(scale)
    np.testing.assert_allclose(
        other.score_samples(pd.DataFrame(holed * scale + shift, columns=NAMES)), densities, rtol=1e-5
    )
    noise, of_other = framed.to_frame().columns, other.to_frame().columns
    np.testing.assert_allclose(of_other["noise_in_units"], noise["noise_in_units"] * scale, rtol=1e-5)
    np.testing.assert_allclose(of_other["noise"], noise["noise"], rtol=1e-5)


def test_lazy_frames_and_names_twice_are_refused(framed, holed):
    with pytest.raises(ValueError, match=r"^Y is lazy: collect it first$"):
        mrd().fit(pl.LazyFrame(holed, schema=NAMES))
    twice = pd.DataFrame(holed, columns=[*NAMES[:5], "hip"])
    for act in (mrd().fit, framed.impute, framed.transform):
        with pytest.raises(ValueError, match=r"^Y has columns with the same name \('hip' 2 times\): rename them$"):
            act(twice)
