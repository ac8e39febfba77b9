"""A model that went through a file is the model that was saved."""

import inspect
import io
import json
import subprocess
import sys
from datetime import date, datetime
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from saved_models import FILES, NAMES, assert_same, contents, fitted, sample, samples, table, through_a_file
from sklearn.base import clone

import dpgplvm
from dpgplvm import MRD, RBF, BayesianGPLVM, Hyperprior, Linear, RBFLinear
from dpgplvm.encoding import decode, encode

SMALL = {"n_latents": 2, "n_inducing": 4, "max_iter": 0, "random_state": 0}
NEW_ROWS = np.where(np.random.default_rng(2).uniform(size=(3, 6)) < 0.3, np.nan, 4.0 * np.eye(3, 6) + 2.0)


def cases():
    """Three classes, three kernels, both noises, gaps, the paper's bound and optimiser, arrays and DataFrames."""
    linear = SMALL | {"kernel": "linear"}
    return samples() | {
        "the paper's recipe": (
            BayesianGPLVM(bound="mixed", optimiser="paper", **linear),
            pd.DataFrame(table(), columns=pd.MultiIndex.from_product([["left", "right"], ["x", "y", "z"]])),
        ),
        "units kept": (MRD(views=["all"] * 6, standardise=False, **linear), pd.DataFrame(table())),
    }


@cache
def fit(name):
    return fitted(*cases()[name])


def answers(model, rows):
    rows = model._table(rows)
    mean, std = model.predict(model.latents_[:3], return_std=True)
    filled, spread = model.impute(rows, return_std=True)
    found = {
        "predict": mean,
        "predict, std": std,
        "impute": filled,
        "impute, std": spread,
        "impute the table": model.impute(),
        "transform": model.transform(rows),
        "score_samples": model.score_samples(rows),
        "sample": model.sample(3, random_state=1),
        "summary": model.summary(),
    }
    return {name: np.ascontiguousarray(value) for name, value in found.items()}


@pytest.mark.parametrize("name", cases())
def test_every_attribute_comes_back_as_it_was(name, tmp_path):
    model = fit(name)
    loaded = through_a_file(model, tmp_path)
    assert type(loaded) is type(model)
    assert_same(contents(model), contents(loaded))
    assert_same(clone(model).get_params(), clone(loaded).get_params())


def test_a_clone_of_what_was_loaded_fits_as_the_model_did(tmp_path):
    _, Y = cases()["BayesianGPLVM"]
    again = clone(through_a_file(fit("BayesianGPLVM"), tmp_path)).fit(Y)
    assert_same(contents(again), contents(fit("BayesianGPLVM")))


@pytest.mark.parametrize("name", cases())
def test_the_same_model_gives_the_same_bytes(name, tmp_path):
    loaded = through_a_file(fit(name), tmp_path)
    first = (tmp_path / "model.dpgplvm").read_bytes()
    loaded.save(tmp_path / "again.dpgplvm")
    assert (tmp_path / "again.dpgplvm").read_bytes() == first


@pytest.mark.parametrize("name", ["BayesianGPLVM", "the paper's recipe", "DPGPLVM"])
def test_predictions_are_the_same_to_the_bit(name, tmp_path):
    model = fit(name)
    assert_same(answers(model, NEW_ROWS), answers(through_a_file(model, tmp_path), NEW_ROWS))
    assert type(through_a_file(model, tmp_path).impute()) is type(model.impute())


def test_predictions_are_the_same_to_the_bit_in_another_process(tmp_path):
    fit("DPGPLVM").save(tmp_path / "model.dpgplvm")
    np.save(tmp_path / "rows.npy", NEW_ROWS)
    program = f"""
import dpgplvm
import numpy as np

{inspect.getsource(answers)}
np.savez("answers.npz", **answers(dpgplvm.load("model.dpgplvm"), np.load("rows.npy")))
"""
    run_python(program, tmp_path)
    with np.load(tmp_path / "answers.npz") as found:
        assert_same(answers(fit("DPGPLVM"), NEW_ROWS), dict(found))


def run_python(program, folder):
    command = [sys.executable, "-W", "error", "-c", program]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("name", samples())
def test_files_of_format_1_are_read(name):
    """Written by tests/files/make_samples.py when the format was new."""
    model = dpgplvm.load(sample(name))
    expected = json.loads((FILES / "format-1.json").read_text())[name]
    mean, std = model.predict(np.zeros((1, model.n_latents_)), return_std=True)
    np.testing.assert_allclose(mean, expected["mean"], rtol=1e-6)
    np.testing.assert_allclose(std, expected["std"], rtol=1e-6)
    estimator, Y = samples()[name]
    assert_same(clone(model).get_params(), estimator.get_params())
    np.testing.assert_array_equal(np.asarray(model.impute())[~np.isnan(Y)], np.asarray(Y)[~np.isnan(Y)])
    assert "kernel" in model.summary()


VIEWS = {
    "columns": "columns",
    "list": list("aabbcc"),
    "tuple": (1, 1, 2, 2, 3, 3),
    "array": np.array([0, 0, 0, 1, 1, 1]),
    "array of text": np.array(["arm"] * 3 + ["leg"] * 3),
    "array of objects": np.array(["arm", "arm", 2, 2, (3, "leg"), None], dtype=object),
    "dict of names": {"arm": NAMES[:3], "leg": NAMES[3:]},
    "dict of everything": {"a b": np.arange(2), 7: range(2, 3), ("x", 1): (3,), None: {4, 5}, "": np.int64(5)},
    "dict with numbers of NumPy": {np.int32(1): "hip", np.float32(0.1): 2, np.str_("c"): np.array([[3]], order="F")},
}


@pytest.mark.parametrize("views", VIEWS.values(), ids=VIEWS)
def test_views_come_back(views, tmp_path):
    model = dpgplvm.load(sample("MRD")).set_params(views=views)
    loaded = through_a_file(model, tmp_path)
    assert_same(loaded.views, views)
    assert_same(clone(loaded).get_params(), model.get_params())


@pytest.mark.parametrize("container", [pd.Series, pd.Index, pl.Series])
def test_series_come_back_as_lists(container, tmp_path):
    model = dpgplvm.load(sample("MRD"))
    assert through_a_file(model.set_params(views=container(list("aabbcc"))), tmp_path).views == list("aabbcc")
    views = {"arm": container(NAMES[:3]), "leg": container(NAMES[3:])}
    assert through_a_file(model.set_params(views=views), tmp_path).views == {"arm": NAMES[:3], "leg": NAMES[3:]}


PARAMETERS = {
    "n_latents": [None, 3, np.int64(3)],
    "kernel": ["auto", RBF(), Linear(), RBFLinear()],
    "noise": ["column", "group", "auto"],
    "hyperprior": [1.5, 2, np.float32(0.3), Hyperprior(), Hyperprior(relevance=np.float64(2.0), density="value")],
    "concentration_prior": [(2.0, 0.5), (1, np.float64(3.0))],
    "tol": [0, 0.1 + 0.2, 5e-324],
    "standardise": [False, np.bool_(True)],
    "n_jobs": [-1, None],
    "random_state": [None, 0, 2**32 - 1, np.uint32(7)],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, many in PARAMETERS.items() for value in many])
def test_parameters_come_back(name, value, tmp_path):
    loaded = through_a_file(dpgplvm.load(sample("DPGPLVM")).set_params(**{name: value}), tmp_path)
    assert_same(clone(loaded).get_params()[name], value)


def test_a_random_state_comes_back_where_it_was(tmp_path):
    random_state = np.random.RandomState(3)
    random_state.normal(size=5)
    loaded = through_a_file(dpgplvm.load(sample()).set_params(random_state=random_state), tmp_path)
    np.testing.assert_array_equal(loaded.random_state.normal(size=9), random_state.normal(size=9))


def test_output_in_pandas_comes_back(tmp_path):
    model = dpgplvm.load(sample()).set_output(transform="pandas")
    assert vars(through_a_file(model, tmp_path))["_sklearn_output_config"] == {"transform": "pandas"}


@pytest.mark.parametrize(
    "columns",
    [
        [("left", 1), ("left", 2.5), ("right", None), ("", -1), ("a", ("b", "c")), ()],
        [float("nan"), float("inf"), -0.0, 10**30, True, "\ud800 \0 \N{PEDESTRIAN}"],
        [np.int64(1), np.str_("x"), np.datetime64("2024-02-29"), np.float32(0.1), np.bool_(False), np.uint8(3)],
        [date(2024, 2, 29), datetime(2024, 2, 29, 12, 30, 1, 5), *pd.date_range("2024-01-31", periods=2, freq="ME")],
        [*pd.date_range("2024-01-31", periods=2, freq="ME", unit="s"), pd.Timestamp("2024-03-01T02:00", tz="UTC")],
    ],
)
def test_names_of_columns_come_back(columns, tmp_path):
    model = dpgplvm.load(sample("DPGPLVM"))
    model._columns = columns
    loaded = through_a_file(model, tmp_path)._columns
    assert [type(name) for name in loaded] == [type(name) for name in columns]
    assert repr(loaded) == repr(columns)
    assert all(one == other or one != one for one, other in zip(loaded, columns, strict=True))


ARRAYS = nps.arrays(nps.scalar_dtypes(), nps.array_shapes(min_dims=0, min_side=0))
JSON_AND_MORE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | ARRAYS,
    lambda values: st.lists(values) | st.lists(values).map(tuple) | st.dictionaries(st.text() | st.integers(), values),
    max_leaves=10,
)


def through_bytes(array):
    content = io.BytesIO()
    np.save(content, array, allow_pickle=False)
    content.seek(0)
    return np.load(content, allow_pickle=False)


@given(JSON_AND_MORE)
@settings(max_examples=50)
def test_what_can_be_stored_comes_back(value):
    arrays = {}
    stored = json.loads(json.dumps(encode(value, "value", arrays), allow_nan=False))
    members = {name: through_bytes(array) for name, array in arrays.items()}
    assert_same(decode(stored, members), value)


def test_arrays_can_be_read_without_the_library(tmp_path):
    fit("DPGPLVM").save(tmp_path / "model.dpgplvm")
    with np.load(tmp_path / "model.dpgplvm", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["latents_"], fit("DPGPLVM").latents_)
        header = json.loads(arrays["model.json"])
    assert (header["format"], header["library"], header["class"]) == (1, dpgplvm.__version__, "DPGPLVM")
