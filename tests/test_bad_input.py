"""Whatever a user brings is either handled or refused in one sentence, and a refusal loses nothing."""

from __future__ import annotations

import datetime
import importlib.util
import inspect
import re
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array

from dpgplvm import DPGPLVM, MRD, RBF, BayesianGPLVM, Hyperprior
from dpgplvm.datasets import make_views

SETTINGS = {"n_latents": 2, "n_inducing": 8, "max_iter": 0, "random_state": 0}
NOTHING_LEARNED = "ignore:everything is explained as noise"  # as it should be from two rows
NAMES = ["hip", "knee", "ankle", "wrist", "elbow", "thumb"]


def dpgplvm(**changes):
    return DPGPLVM(**{**SETTINGS, "truncation": 3, "kernel": "rbf", **changes})


def mrd(**changes):
    return MRD(**{**SETTINGS, "views": ["legs"] * 3 + ["arms"] * 3, **changes})


def gplvm(**changes):
    return BayesianGPLVM(**{**SETTINGS, **changes})


@pytest.fixture(params=[dpgplvm, mrd, gplvm], ids=["DPGPLVM", "MRD", "BayesianGPLVM"])
def make(request):
    return request.param


@pytest.fixture(scope="module")
def table():
    Y = make_views(n_samples=24, latents=((0,), (1,)), columns=3, random_state=0).Y
    Y.flags.writeable = False
    return Y


def refusal(act, *arguments, **keywords) -> str:
    with pytest.raises((ValueError, TypeError)) as caught:
        act(*arguments, **keywords)
    message = str(caught.value)
    assert len(message.splitlines()) == 1, message
    return message


def assert_says(message: str, *patterns: str) -> None:
    for pattern in patterns:
        assert re.search(pattern, message, re.IGNORECASE), f"no {pattern!r} in {message!r}"


def assert_finite(model) -> None:
    for name in ("latents_", "latent_variance_", "relevance_", "linear_relevance_", "noise_precision_", "elbo_"):
        assert np.isfinite(getattr(model, name)).all(), name
    assert np.isfinite(list(model.elbo_terms_.values())).all()
    assert all(np.isfinite(values).all() for values in model.kernel_parameters_.values())


def with_column(Y, values, d=1):
    changed = np.array(Y)
    changed[:, d] = values
    return changed


BAD_TABLES = {
    "one-dimensional": (lambda Y: Y[:, 0], [r"\bY\b", "1|one", "2|two"]),
    "cube": (lambda Y: Y[None], [r"\bY\b", "3|three", "2|two"]),
    "ragged": (lambda Y: [[1.0, 2.0], [3.0]], [r"\bY\b", "row|length|inhomogeneous"]),
    "strings": (lambda Y: np.full((24, 6), "tall"), [r"\bY\b", "text|string", "number"]),
    "infinite": (lambda Y: with_column(Y, np.inf), [r"\bY\b", "inf", "column 1"]),
    "complex": (lambda Y: Y + 1j, [r"\bY\b", "complex"]),
    "no rows": (lambda Y: Y[:0], [r"\bY\b", "0 (sample|row)", "2|two"]),
    "no columns": (lambda Y: Y[:, :0], [r"\bY\b", "0 (feature|column)", "1|one"]),
    "one row": (lambda Y: Y[:1], [r"\bY\b", "1 (sample|row)", "2|two"]),
    "sparse": (lambda Y: csr_array(Y), [r"\bY\b", "sparse", "dense"]),
    "all masked": (lambda Y: np.ma.masked_greater(Y, -np.inf), [r"\bY\b", "NaN", "observed"]),
    "all NaN": (lambda Y: np.full_like(Y, np.nan), [r"\bY\b", "NaN", "observed"]),
    "column of NaN": (lambda Y: with_column(Y, np.nan), [r"\bY\b", "never observed", "'column 1'", "drop"]),
    "one row with values": (
        lambda Y: np.where(np.arange(24)[:, None] == 3, Y, np.nan),
        ["6 columns", "only once", "drop"],
    ),
    "constant where observed": (lambda Y: with_column(Y, [1.0, np.nan] * 12), ["'column 1'", "constant", "drop"]),
    "constant": (lambda Y: with_column(Y, 0.1), ["'column 1'", "constant", "drop"]),
    "all constant": (lambda Y: np.ones_like(Y), ["6 columns", "'column 0'", "constant", "drop"]),
    "nearly constant": (lambda Y: with_column(Y, 1e9 + 1e-7 * Y[:, 1]), ["'column 1'", "constant", "drop"]),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_bad_tables_are_refused_in_a_sentence(make, table, case):
    spoil, patterns = BAD_TABLES[case]
    assert_says(refusal(make().fit, spoil(table)), *patterns)


DAYS = [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=n) for n in range(24)]
BAD_COLUMNS = {
    "pandas text": pd.Series(["tall", "short"] * 12),
    "pandas categories": pd.Series(pd.Categorical(["tall", "short"] * 12)),
    "pandas dates": pd.Series(DAYS),
    "pandas dates with a zone": pd.Series(DAYS).dt.tz_localize("UTC"),
    "polars text": pl.Series("gait", ["tall", "short"] * 12),
    "polars categories": pl.Series("gait", ["tall", "short"] * 12, dtype=pl.Categorical),
    "polars enum": pl.Series("gait", ["tall", "short"] * 12, dtype=pl.Enum(["tall", "short"])),
    "polars dates": pl.Series("gait", [day.date() for day in DAYS]),
    "polars times": pl.Series("gait", DAYS),
}


@pytest.mark.parametrize("case", BAD_COLUMNS)
def test_columns_that_are_not_numbers_are_named(make, table, case):
    column = BAD_COLUMNS[case]
    if isinstance(column, pl.Series):
        frame = pl.DataFrame(np.array(table[:, :5]), schema=NAMES[:5]).with_columns(column)
    else:
        frame = pd.DataFrame(table[:, :5], columns=NAMES[:5]).assign(gait=column)
    assert_says(refusal(make().fit, frame), r"\bY\b", "'gait'", "number", "drop|encode|convert")


@pytest.mark.parametrize("values", [np.nan, np.inf, 7.0], ids=str)
def test_columns_of_a_frame_are_named_by_their_names(table, values):
    frame = pd.DataFrame(with_column(table, values), columns=NAMES)
    assert_says(refusal(gplvm().fit, frame), "'knee'")
    assert_says(refusal(gplvm().fit, pl.DataFrame(frame.to_dict("list"))), "'knee'")


def test_columns_with_the_same_name_are_refused(table):
    frame = pd.DataFrame(table, columns=["hip", "hip", *NAMES[2:]])
    assert_says(refusal(gplvm().fit, frame), "'hip'", "unique|twice|same|duplicate|2 times")


@pytest.mark.parametrize(
    "read",
    [
        np.asfortranarray,
        np.ndarray.tolist,
        lambda Y: pd.DataFrame(Y),
        lambda Y: pd.DataFrame(Y, columns=NAMES),
        lambda Y: pl.DataFrame(np.array(Y), schema=NAMES),
        lambda Y: np.repeat(Y, 2, axis=1)[:, ::2],
    ],
    ids=["Fortran", "lists", "pandas", "pandas names", "polars", "strided"],
)
def test_the_container_does_not_change_the_fit(make, table, read):
    assert make().fit(read(table)).elbo_ == make().fit(table).elbo_


def test_gaps_may_come_in_any_guise(make, table):
    holed = np.where(np.arange(table.size).reshape(table.shape) % 7 == 0, np.nan, table)
    wanted = make().fit(holed).elbo_
    assert make().fit(np.ma.masked_invalid(holed)).elbo_ == wanted
    frame = pd.DataFrame(holed, columns=NAMES)
    assert make().fit(frame.astype("Float64")).elbo_ == wanted
    assert make().fit(pl.DataFrame(holed, schema=NAMES).fill_nan(None)).elbo_ == wanted


@pytest.mark.parametrize("dtype", [bool, int, np.float32, np.uint8])
def test_other_numbers_are_as_good_as_floats(make, table, dtype):
    Y = (table > 0 if dtype is bool else 10 * np.abs(table)).astype(dtype)
    assert make().fit(Y).elbo_ == make().fit(Y.astype(float)).elbo_


def test_a_large_offset_is_not_a_constant(make, table):
    model = make().fit(with_column(table, 1e9 + table[:, 1]))
    assert_finite(model)
    assert model.relevance_[1].max() > 0.5


def assert_fits_a_small_table(model, Y):
    assert_finite(model.fit(Y))
    assert 1 <= model.n_latents_ <= Y.shape[1]
    assert model.latents_.shape == model.inducing_.shape == (len(Y), model.n_latents_)
    assert model.state_.free.inducing.shape == Y.shape
    assert model.state_.phi.shape[1] <= Y.shape[1]


@pytest.mark.filterwarnings(NOTHING_LEARNED)
def test_two_rows_of_one_column_are_enough(make, table):
    changes = {dpgplvm: {"truncation": 50}, mrd: {"views": ["legs"]}, gplvm: {}}[make]
    assert_fits_a_small_table(make(n_latents=None, n_inducing=50, max_iter=2, **changes), table[:2, :1])


@pytest.mark.filterwarnings(NOTHING_LEARNED)
def test_no_more_groups_than_columns_are_used(table):
    assert_fits_a_small_table(dpgplvm(n_latents=None, n_inducing=50, max_iter=2, truncation=50), table[:2, :2])


def test_rows_that_repeat_are_handled(make, table):
    assert_finite(make().fit(np.repeat(table[:4], 6, axis=0)))


def test_more_latents_than_rows_or_columns_are_refused(make, table):
    assert_says(refusal(make(n_latents=7).fit, table), "n_latents=7", "24 rows", "6 columns", "at most 6")


BAD_PARAMETERS = {
    "n_latents": [0, "3", 2.5],
    "n_inducing": [0, None],
    "max_iter": [-1, 10.0],
    "tol": [-1e-3, np.nan],
    "jitter": [0.0, 0.5],
    "kernel": ["cosine", RBF, None],
    "hyperprior": [0.0, np.inf, "wide"],
    "noise": ["row", None],
    "bound": ["tight"],
    "optimiser": [None],
    "standardise": ["yes"],
    "random_state": [-1, "seed"],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name in BAD_PARAMETERS for value in BAD_PARAMETERS[name]]
)
def test_bad_parameters_are_refused_in_a_sentence(make, table, name, value):
    assert_says(refusal(make(**{name: value}).fit, table), rf"\b{name}\b", "must be", re.escape(repr(value)))


def test_a_kernel_that_cannot_be_hashed_is_refused(table):
    kernel = type("Unhashable", (RBF,), {"__hash__": None})()
    assert_says(refusal(gplvm(kernel=kernel).fit, table), "^kernel|'kernel'", "Unhashable", "frozen|hash")


@pytest.fixture
def unchecked(monkeypatch):
    """dpgplvm.model.hyperprior as users have it: without the type checks that the tests add to every signature."""
    spec = importlib.util.spec_from_file_location("unchecked_hyperprior", inspect.getfile(Hyperprior))
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("role", "value"), [("relevance", -1.0), ("scale", 0.0), ("noise", np.nan), ("scale", "3"), ("density", "flat")]
)
def test_a_bad_hyperprior_is_refused(unchecked, role, value):
    assert_says(refusal(unchecked.Hyperprior, **{role: value}), role, str(value))


BAD_PAIRS = [(0, 1), (1, -1), (1,), (1, 2, 3), (np.nan, 1), (np.inf, 1), ("a", 1), (1j, 1), 3.0]
BAD_COUNTS = [0, -1, 2.5, "all"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("concentration_prior", pair) for pair in BAD_PAIRS),
        *((name, count) for name in ("truncation", "n_starts") for count in BAD_COUNTS),
        *(("n_jobs", count) for count in (0, *BAD_COUNTS[2:])),
    ],
)
def test_bad_parameters_of_the_dirichlet_process_are_refused(table, name, value):
    message = refusal(dpgplvm(**{name: value}).fit, table)
    assert_says(message, name, "pair|tuple" if name == "concentration_prior" else "int", re.escape(str(value)))


@pytest.mark.parametrize("changes", [{"bound": "mixed"}, {"optimiser": "paper"}])
def test_several_starts_of_what_has_one_are_refused(table, changes):
    message = refusal(dpgplvm(n_starts=2, **changes).fit, table)
    assert_says(message, "n_starts=2", next(iter(changes)), "n_starts=1")


LEGS = [0, 1, 2]
BAD_VIEWS = [
    ("limbs", ["'limbs'", "label", "dict"]),
    (None, ["None", "dict"]),
    (["legs"] * 5, ["5 labels", "6 columns"]),
    ([["legs"], ["arms", "arms"], *LEGS, 1], ["label"]),
    ([None, *"aaabb"], ["label|None"]),
    ([np.nan, 1, 1, 2, 2, 2], ["label|NaN"]),
    ({}, ["leave out 6 columns", "'hip'"]),
    ({"legs": LEGS}, ["leave out 3 columns", "'wrist'", "put them in a view"]),
    ({"legs": LEGS, "arms": [2, 3, 4, 5]}, ["'ankle'", "more than one view"]),
    ({"legs": [*LEGS, 2], "arms": [3, 4, 5]}, ["'ankle'", "more than one|twice"]),
    ({"legs": LEGS, "arms": [3, 4, "nose"]}, ["'arms'", "'nose'", "does not have"]),
    ({"legs": LEGS, "arms": [3, 4, 6]}, ["'arms'", "6", "does not have"]),
    ({"legs": LEGS, "arms": [3, 4, 5.7]}, ["'arms'", "5.7"]),
    ({"legs": LEGS, "arms": [3, 4, None]}, ["'arms'", "None"]),
    ({"legs": LEGS, "arms": None}, ["'arms'", "None|no columns"]),
    ({"legs": LEGS, "arms": [3, 4, 5], "tail": []}, ["'tail'", "no columns"]),
]


@pytest.mark.parametrize(("views", "patterns"), BAD_VIEWS, ids=lambda item: str(item)[:30])
def test_bad_views_are_refused_in_a_sentence(table, views, patterns):
    assert_says(refusal(mrd(views=views).fit, pd.DataFrame(table, columns=NAMES)), "views", *patterns)


def told(model):
    return model.summary(), model.elbo_, model.n_features_in_, list(model.feature_names_in_), model.latents_.tolist()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda Y: with_column(Y, np.nan),
        lambda Y: pd.DataFrame(with_column(Y, 7.0), columns=["x", "y", "z", "u", "v", "w"]),
        lambda Y: with_column(Y, np.inf)[:, :4],
        lambda Y: Y[:, :1] * np.ones(5) * [0, 1, 1, 1, 1],
        lambda Y: Y[:1],
    ],
    ids=["NaN", "other names", "infinite", "other width", "one row"],
)
def test_a_refused_refit_loses_nothing(make, table, spoil):
    model = make().fit(pd.DataFrame(table, columns=NAMES))
    before = told(model)
    refusal(model.fit, spoil(table))
    assert told(model) == before


def test_a_refit_that_fails_on_its_parameters_loses_nothing(make, table):
    model = make().fit(pd.DataFrame(table, columns=NAMES))
    before = told(model)
    change = {dpgplvm: {"concentration_prior": (0, 1)}, mrd: {"views": {"tail": [0]}}, gplvm: {"n_latents": 7}}[make]
    refusal(model.set_params(**change).fit, pd.DataFrame(table, columns=[f"other {d}" for d in range(6)]))
    assert told(model) == before
