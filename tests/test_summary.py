"""The summary fits a screen and says what a reader needs."""

from __future__ import annotations

import re
from copy import copy
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Outcome
from dpgplvm.datasets import make_views
from dpgplvm.inference.starts import Start
from dpgplvm.notebook import html

SETTINGS = {"n_latents": 2, "n_inducing": 8, "random_state": 0, "max_iter": 5}
NAMES = ["wrist", "elbow", "hip", "knee", "ankle", "toe"]
WIDEST = 160


@pytest.fixture(scope="module")
def table():
    return make_views(n_samples=24, latents=((0,), (1,)), columns=(2, 4), random_state=0).Y


@pytest.fixture(scope="module")
def views(table):
    return MRD(**SETTINGS, views=["arms"] * 2 + ["legs"] * 4).fit(pd.DataFrame(table, columns=NAMES))


def summary_with(table, names, **changes):
    return BayesianGPLVM(**{**SETTINGS, "max_iter": 0, **changes}).fit(pd.DataFrame(table, columns=names)).summary()


def group_rows(text):
    """Name, number of columns and noise in every row of the table of groups."""
    return re.findall(r"^ *(\S.*?) +(\d+) +(\d+\.\d{3}) ", text, re.MULTILINE)


def assert_fits_a_screen(text, n_lines):
    lines = text.split("\n")
    assert lines == text.splitlines()
    assert len(lines) == n_lines
    assert max(map(len, lines)) <= WIDEST
    assert all(line.isprintable() for line in lines)


def unfitted(table, views):
    """Of views, before any climb."""
    return MRD(**{**SETTINGS, "max_iter": 0}, views=views).fit(table).summary()


@pytest.fixture(scope="module")
def n_lines(table):
    """Lines for one group with names that are no trouble."""
    return len(summary_with(table, NAMES).split("\n"))


def test_it_names_the_model_its_sizes_and_its_columns(views):
    text = views.summary()
    for words in ("MRD", "24 rows", "6 columns", "2 latents", "2 groups", "arms", "legs", *NAMES):
        assert words in text


def test_it_says_how_the_fit_ended(views):
    assert Outcome.BUDGET_SPENT.value in views.summary()
    assert "max_iter" in views.summary()
    assert f"{views.elbo_:.1f}" in views.summary()


def test_each_group_has_its_columns_noise_and_latents(views):
    lines = views.summary().splitlines()
    for k, (view, members) in enumerate({"arms": NAMES[:2], "legs": NAMES[2:]}.items()):
        at = next(i for i, line in enumerate(lines) if view in line.split())
        assert str(len(members)) in lines[at].split()
        assert f"{1 / np.sqrt(views.noise_precision_[k]):.3f}" in lines[at]
        assert lines[at + 1].strip() == ", ".join(members)
        own = views.groups_ == k
        assert f" {views.explained_[own].mean():.0%} " in lines[at]
        for q, share in enumerate(views.explained_by_latent_[own].mean(axis=0)):
            assert f"{q} ({share:.0%})" in lines[at]


def test_groups_that_are_inferred_are_numbered(table):
    model = DPGPLVM(**{**SETTINGS, "max_iter": 0}, truncation=3, kernel="rbf").fit(pd.DataFrame(table, columns=NAMES))
    text = model.summary()
    assert "DPGPLVM" in text
    sizes = np.bincount(model.groups_)
    assert [row[:2] for row in group_rows(text)] == [(str(k), str(size)) for k, size in enumerate(sizes)]


def test_one_group_is_not_plural(table):
    text = summary_with(table, NAMES)
    assert "1 group;" in text
    assert "1 groups" not in text


@pytest.mark.parametrize("noise", ["group", "column"])
def test_it_says_whose_the_noise_is(table, noise):
    model = MRD(**SETTINGS, noise=noise, views=["arms"] * 2 + ["legs"] * 4).fit(table)
    text = model.summary()
    assert f"kernel rbf, noise of {noise}s" in text
    variances = 1.0 / model.noise_precision_
    if noise == "column":
        variances = [variances[:2].mean(), variances[2:].mean()]
    assert [row[2] for row in group_rows(text)] == [f"{np.sqrt(variance):.3f}" for variance in variances]


def told_with(model, **attributes):
    changed = copy(model)
    for name, value in attributes.items():
        setattr(changed, name, value)
    return changed.summary()


@pytest.mark.parametrize(
    ("profiles", "words"),
    [
        ([1, 1, 0, 0, 0, 0], "2 profiles: the same as the groups"),
        ([1, 1, 0, 0, 2, 2], "3 profiles, which divide the groups further"),
        ([0, 0, 0, 0, 0, 0], "1 profile, each of whole groups"),
        ([0, 1, 0, 0, 0, 1], "2 profiles, which cut across the groups"),
    ],
    ids=["same", "finer", "coarser", "across"],
)
def test_it_says_how_profiles_relate_to_groups(views, profiles, words):
    assert words in told_with(views, profiles_=np.array(profiles), n_profiles_=max(profiles) + 1)


def test_columns_that_are_hardly_predicted_are_named(views):
    assert "Hardly predicted" not in told_with(views, explained_=np.full(6, 0.5))
    text = told_with(views, explained_=np.array([0.5, 0.01, 0.5, 0.5, 0.0, 0.5]))
    assert "Hardly predicted at all, whatever their group: elbow, ankle." in text


def test_several_starts_are_compared(views):
    first = Start(-10.0, -20.0, 2, np.array([1, 1, 0, 0, 0, 0]), Outcome.CONVERGED)
    second = first._replace(corrected=-25.5, groups=np.array([0, 0, 1, 1, 1, 1]))
    assert "starts:" not in told_with(views, starts_=[first])
    text = told_with(views, starts_=[first, second])
    assert "2 starts: corrected bounds from -25.5 to -20.0" in text
    assert "1.00" in text.splitlines()[-1]


def test_columns_without_names_are_numbered(table):
    assert "column 0, column 1" in BayesianGPLVM(**{**SETTINGS, "max_iter": 0}).fit(table).summary()


def names_in(text, left=0):
    """The names of columns from this place of the lines on."""
    return re.findall(r"sensor \d+", "\n".join(line[left:] for line in text.splitlines()))


@pytest.fixture(scope="module")
def wide(table):
    """One group of a hundred columns."""
    Y = np.random.default_rng(0).normal(size=(24, 100))
    names = [f"sensor {d}" for d in range(100)]
    return BayesianGPLVM(**{**SETTINGS, "max_iter": 0}).fit(pd.DataFrame(Y, columns=names))


def test_all_columns_of_a_group_are_listed_where_they_fit(wide, table):
    names = [f"sensor {d}" for d in range(30)]
    text = summary_with(np.hstack([table**power for power in range(1, 6)]), names)
    assert names_in(text.partition("profiles")[0]) == names
    assert max(len(line) for line in text.splitlines() if "sensor" in line) <= 120


def test_long_lists_of_columns_are_cut(wide):
    text = told_with(wide, profiles_=np.zeros(100, int), explained_=np.ones(100))
    listed = [line for line in text.splitlines() if "sensor" in line]
    assert len(listed) == 5
    assert max(map(len, listed)) <= 120
    assert listed[-1].endswith(", ... (100)")
    assert names_in(text) == [f"sensor {d}" for d in range(len(names_in(text)))]
    assert [row[1] for row in group_rows(text)] == ["100"]


def test_profiles_are_listed_where_groups_do_not_say_them(views):
    finer = told_with(views, profiles_=np.array([1, 1, 0, 0, 2, 2]), n_profiles_=3, explained_=np.ones(6))
    rows = [line.split(maxsplit=2) for line in finer.splitlines()[-3:]]
    assert rows == [["0", "2", "hip, knee"], ["1", "2", "wrist, elbow"], ["2", "2", "ankle, toe"]]
    assert finer.splitlines()[-4].split() == ["profile", "columns"]
    same = told_with(views, profiles_=np.array([1, 1, 0, 0, 0, 0]), n_profiles_=2)
    assert "profile  columns" not in same


@pytest.mark.parametrize(
    "names",
    [
        ["température", "膝関節", "колено", "γόνατο", "ركبة", "knee 🦵"],
        [f"{name} {'x' * 1000}" for name in NAMES],
        ["two\nlines", "tab\there", "return\r", "line\u2028separator", "bell\a", "plain"],
        ["{0}", "%s", "\\n", "'", '"', ""],
    ],
    ids=["unicode", "very long", "control characters", "format characters"],
)
def test_any_name_of_a_column_can_be_shown(table, n_lines, names):
    is_long = max(map(len, names)) > 1000  # six of these take two lines
    assert_fits_a_screen(summary_with(table, names), n_lines + is_long)


def test_unicode_is_shown_as_it_is(table):
    text = summary_with(table, ["température", "膝関節", "колено", "γόνατο", "ركبة", "knee 🦵"])
    assert all(name in text for name in ("température", "膝関節", "колено", "γόνατο", "ركبة", "🦵"))


@pytest.mark.parametrize("n_repeats", [0, 100])
def test_names_of_views_with_the_same_beginning_differ(table, n_repeats):
    inside, outside = (f"temperature_{'of_the_house_' * n_repeats}{where}" for where in ("inside", "outside"))
    text = unfitted(table, [inside] * 2 + [outside] * 4)
    assert_fits_a_screen(text, len(unfitted(table, ["arms"] * 2 + ["legs"] * 4).split("\n")))
    first, second = group_rows(text)
    assert first[0] != second[0]


def test_a_view_with_a_strange_name_can_be_shown(table):
    text = unfitted(table, {"two\nlines": [0, 1], "膝": [2, 3, 4, 5]})
    assert_fits_a_screen(text, len(unfitted(table, ["arms"] * 2 + ["legs"] * 4).split("\n")))
    assert "膝" in text


def test_a_model_must_be_fitted_first():
    for tell in (BayesianGPLVM().summary, BayesianGPLVM().to_frame):
        with pytest.raises(NotFittedError, match="fit"):
            tell()


def test_frames_say_the_same(table, views):
    fit, groups, columns, rows = views.to_frame()
    assert fit.loc[0, ["model", "n_rows", "n_columns", "n_groups", "kernel"]].tolist() == ["MRD", 24, 6, 2, "rbf"]
    assert fit.loc[0, "bound"] == views.elbo_
    assert fit.loc[0, "outcome"] == views.outcome_.value
    assert groups.index.tolist() == ["arms", "legs"]
    assert groups["columns"].tolist() == ["wrist, elbow", "hip, knee, ankle, toe"]
    assert columns.index.tolist() == NAMES
    assert columns["group"].tolist() == ["arms"] * 2 + ["legs"] * 4
    np.testing.assert_allclose(columns["noise_in_units"], columns["noise"] * table.std(axis=0), rtol=1e-12)
    latents = ["latent_0", "latent_1"]
    np.testing.assert_allclose(
        columns[["explained", *latents]].groupby(columns["group"]).mean(), groups[["explained", *latents]]
    )
    for name, group in groups.iterrows():
        line = next(line for line in views.summary().splitlines() if name in line.split())
        for value in (f"{group['noise']:.3f}", f"{group['explained']:.0%}", f"0 ({group['latent_0']:.0%})"):
            assert value in line
    assert np.array_equal(rows[latents], views.latents_)
    np.testing.assert_allclose(rows[["std_0", "std_1"]] ** 2, views.latent_variance_)


def test_groups_that_are_inferred_have_numbers_in_frames(table):
    model = DPGPLVM(**{**SETTINGS, "max_iter": 0}, truncation=3, kernel="rbf").fit(table)
    frames = model.to_frame()
    assert frames.groups.index.tolist() == list(range(model.n_groups_))
    assert frames.columns["group"].tolist() == model.groups_.tolist()
    assert frames.columns["probability"].tolist() == model.group_probabilities_.max(axis=1).tolist()


def test_frames_are_of_the_tables_kind_and_rows_have_its_index(table, views):
    days = pd.date_range("2020-01-01", periods=24, name="day")
    of_pandas = clone(views).fit(pd.DataFrame(table, columns=NAMES, index=days)).to_frame()
    pd.testing.assert_index_equal(of_pandas.rows.index, days)
    of_polars = clone(views).fit(pl.DataFrame(table, schema=NAMES)).to_frame()
    assert all(isinstance(frame, pl.DataFrame) for frame in of_polars)
    assert of_polars.columns["column"].to_list() == NAMES
    assert of_polars.groups["explained"].to_list() == of_pandas.groups["explained"].tolist()


HTML = ["<script>alert(1)</script>", "a & b", '"quoted"', "'single'", "<b>bold", "plain"]


def test_a_notebook_shows_the_groups_and_no_name_is_markup(table):
    view = "<img src=x onerror=alert(2)>"
    model = MRD(**{**SETTINGS, "max_iter": 0}, views=[view] * 2 + ["legs"] * 4)
    before = model._repr_html_()
    assert "explained" not in before
    shown = model.fit(pd.DataFrame(table, columns=HTML))._repr_mimebundle_()["text/html"]
    assert model._repr_html_().count("<table>") == 1
    page = ElementTree.fromstring(f"<div>{html(model)}</div>")  # well-formed, whatever the names are
    cells = [[cell.text for cell in row] for row in page.iter("tr")]
    assert cells[0] == ["group", "columns", "noise", "explained", "latent 0", "latent 1", "names"]
    groups = model.to_frame().groups
    for (name, group), row in zip(groups.iterrows(), cells[1:], strict=True):
        shares = [f"{group[column]:.0%}" for column in ("explained", "latent_0", "latent_1")]
        assert row[:-1] == [name, str(group["n_columns"]), f"{group['noise']:.3f}", *shares]
    titles = [cell.get("title") for cell in page.iter("td") if cell.get("title")]
    assert titles == [", ".join(HTML[:2]), ", ".join(HTML[2:])]
    for markup in ("<script>alert", "<img", "<b>bold"):
        assert markup not in shown
    assert views_of(page) == [view, "legs"]


def views_of(page):
    return [row[0].text for row in list(page.iter("tr"))[1:]]


def test_a_pipeline_with_a_fitted_model_can_be_shown(views):
    assert "MRD" in make_pipeline(views)._repr_html_()
