"""The report says what the model has found, in words and numbers."""

from __future__ import annotations

import sys
from copy import copy
from importlib.metadata import version

import numpy as np
import pytest
from pages import Page
from saved_models import NAMES

import dpgplvm
from dpgplvm.inference.starts import Start
from dpgplvm.report import html, words
from dpgplvm.report.words import certainty, groups_and_profiles


def changed(model, **attributes):
    model = copy(model)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def in_groups(searched, groups, by_latent, **others):
    """The model as if these had been its groups, and this what latents explain of every column."""
    groups, by_latent = np.array(groups), np.array(by_latent)
    n_groups, n_latents = groups.max() + 1, by_latent.shape[1]
    n_rows = len(searched.latents_)
    return changed(
        searched,
        groups_=groups,
        n_groups_=n_groups,
        group_probabilities_=np.eye(n_groups)[groups],
        explained_by_latent_=by_latent,
        explained_=by_latent.sum(axis=1),
        relevance_=by_latent,
        linear_relevance_=0.5 * by_latent,
        n_latents_=n_latents,
        latents_=np.zeros((n_rows, n_latents)),
        latent_variance_=np.ones((n_rows, n_latents)),
        **others,
    )


def test_it_tells_what_went_in_and_how_much_is_explained(model, page):
    n_rows, n_columns = len(model.latents_), len(model.groups_)
    assert f"A table of {n_rows} rows and {n_columns} columns went in" in page.text
    assert f"{model.n_latents_} latents" in page.text
    assert f"On average they predict {100 * model.explained_.mean():.0f}%" in page.text


def test_gaps_are_told_and_drawn(models, searched):
    page = Page(html(searched))
    gaps = np.isnan(searched._learned).sum() + len(searched.groups_) * (~searched._seen).sum()
    assert f"{100 * gaps / (len(searched._seen) * len(searched.groups_)):.0f}% were missing" in page.text
    assert any("its gaps" in image["alt"] for image in page.all("img"))
    without = Page(html(models["MRD"]))
    assert "missing." not in without.text
    assert not any("its gaps" in image["alt"] for image in without.all("img"))


def test_what_groups_share_and_what_is_their_own(searched):
    model = in_groups(
        searched,
        [0, 0, 1, 1, 2, 2],
        [[0.4, 0.3, 0.0], [0.6, 0.1, 0.0], [0.2, 0.0, 0.5], [0.2, 0.0, 0.5], [0.0, 0.0, 0.004], [0.0, 0.0, 0.004]],
    )
    first, second, third = words.groups(model)
    assert first.sentences[0] == (
        "2 columns that listen to latents 0 and 1. Shared: latent 0 with group 1. Private: latent 1."
    )
    assert second.sentences[0] == (
        "2 columns that listen to latents 0 and 2. Shared: latent 0 with group 0. Private: latent 2."
    )
    assert third.sentences[0] == "2 columns that listen to no latent."
    assert "explain 70% of how a column varies" in first.sentences[1]
    assert "taken for noise" in third.sentences[1]
    assert first.columns == NAMES[:2]
    assert [(q, round(share, 9)) for q, share in first.shares] == [(0, 0.5), (1, 0.2)]
    assert third.shares == []


def test_groups_that_share_everything(searched):
    first, second = words.groups(in_groups(searched, [0, 0, 0, 0, 0, 1], np.full((6, 2), 0.3)))
    assert first.sentences[0].endswith("Shared: latents 0 and 1 with group 1. Private: none.")
    assert second.sentences[0].startswith("1 column that listens to latents 0 and 1.")


def test_one_group_has_nobody_to_share_with(searched):
    (only,) = words.groups(in_groups(searched, [0] * 6, np.full((6, 2), 0.3)))
    assert only.sentences[0] == "6 columns that listen to latents 0 and 1."


def test_named_groups_are_called_by_their_names(models):
    page = Page(html(models["MRD"]))
    assert ("h3", "leg") in page.texts
    assert ("h3", "arm") in page.texts
    assert "groups of columns were given" in page.text


@pytest.mark.parametrize("standardise", [True, False])
def test_noise_is_in_the_units_that_are_told(searched, standardise):
    own = searched.groups_ == 0
    told = words.groups(changed(searched, standardise=standardise))[0].sentences[1]
    spread = np.sqrt(np.mean(1.0 / searched.noise_precision_[own]))
    assert f"standard deviation of {spread:.2g} " in told
    assert ("of a column itself is 1" in told) == standardise


@pytest.mark.parametrize(
    ("profiles", "told"),
    [
        ([0, 0, 0, 1, 1, 1], "2 profiles, the same as the groups"),
        ([0, 0, 2, 1, 1, 1], "3 profiles, which divide the groups further"),
        ([0] * 6, "1 profile, made of whole groups"),
        ([0, 1, 0, 1, 0, 1], "2 profiles, which cut across the groups"),
    ],
)
def test_how_groups_and_profiles_relate(searched, profiles, told):
    model = changed(searched, groups_=np.array([0, 0, 0, 1, 1, 1]), n_groups_=2)
    model = changed(model, profiles_=np.array(profiles), n_profiles_=max(profiles) + 1)
    assert f"Here there {'are' if max(profiles) else 'is'} {told}" in groups_and_profiles(model)[1]


def percent(shares):
    return [f"{100 * share:.0f}%" for share in shares]


def test_tables_of_columns_and_groups(model, page):
    header, *rows = page.table("Columns")
    assert header[-model.n_latents_ :] == [f"latent {q}" for q in range(model.n_latents_)]
    for d, row in enumerate(rows):
        name, group, sure, profile, _, in_units, explained, *by_latent = row
        assert name == (NAMES[d] if hasattr(model, "feature_names_in_") else f"column {d}")
        assert sure == f"{100 * model.group_probabilities_[d].max():.0f}%"
        assert profile == str(model.profiles_[d])
        precision = model.noise_precision_[d if model.column_scale_ is not None else model.groups_[d]]
        spread = np.nanstd(model._learned[:, d]) / np.sqrt(precision)
        assert float(in_units) == pytest.approx(spread, rel=0.01)
        assert [explained, *by_latent] == percent([model.explained_[d], *model.explained_by_latent_[d]])
        assert group in [row[0] for row in page.table("Groups")]
    for k, row in enumerate(page.table("Groups")[1:]):
        own = model.groups_ == k
        assert row[1] == str(own.sum())
        means = [model.explained_[own].mean(), *model.explained_by_latent_[own].mean(axis=0)]
        assert row[3:] == percent(means)


def test_table_of_latents(model, page):
    _, *rows = page.table("Latents")
    assert len(rows) == model.n_latents_
    names = [row[0] for row in page.table("Columns")[1:]]
    for q, row in enumerate(rows):
        loudest = names[int(np.argmax(model.explained_by_latent_[:, q]))]
        assert row[2].split(", ")[0] == loudest
        assert row[3] == percent([model.explained_by_latent_[:, q].mean()])[0]
        assert float(row[5]) == pytest.approx(np.sqrt(model.latent_variance_[:, q].mean()), abs=0.006)


def test_how_it_was_made(model, page):
    given = dict(page.table("Parameters that were given")[1:])
    defaults = dict(page.table("Parameters that were left")[1:])
    assert given.keys() | defaults.keys() == model.get_params().keys()
    assert given["n_inducing"] == "4"
    assert defaults["standardise"] == "True"
    versions = dict(page.table("Versions")[1:])
    assert versions["dpgplvm"] == dpgplvm.__version__
    assert versions["jax"] == version("jax")
    assert versions["numpy"] == np.__version__
    assert versions["Python"] == ".".join(map(str, sys.version_info[:3]))
    bound = dict(page.table("The bound")[1:])
    assert bound["bound"] == f"{model.elbo_:.1f}"
    terms = [float(value) for name, value in bound.items() if name not in ("bound", "corrected bound")]
    assert sum(terms) == pytest.approx(model.elbo_, abs=0.05 * len(terms) + 0.05)
    assert f"{model.outcome_.value}. {model.outcome_.sentence}" in page.text
    assert dict(page.table("What the fit made")[1:])["kernel"] == model.kernel_


def test_starts_are_listed_and_their_agreement_is_told(searched):
    groups = [np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 0, 0, 0])]
    starts = [
        Start(-10.0 - i, -20.0 - i, len(set(own.tolist())), own, dpgplvm.Outcome.CONVERGED)
        for i, own in enumerate(groups)
    ]
    page = Page(html(changed(searched, starts_=starts)))
    assert page.table("Starts")[1:] == [
        ["1 (kept)", "2", "-10.0", "-20.0", "converged"],
        ["2", "1", "-11.0", "-21.0", "converged"],
    ]
    assert "from 2 starts, which found 1 and 2 groups" in page.text
    assert "is chance): 0.00" in page.text
    assert "The 2 starts disagree about the groups" in page.text
    assert "searched for once" in " ".join(certainty(changed(searched, starts_=starts[:1])))


def test_advice_is_at_the_top_and_in_full(searched):
    page = Page(html(changed(searched, max_iter=5, n_iter_=5, outcome_=dpgplvm.Outcome.BUDGET_SPENT)))
    assert "things to look at before you rely on this" in page.text
    assert "still rising after max_iter=5 iterations: raise max_iter" in page.text
    assert "1 of the rows of Y have nothing observed (row 9)" in page.text


def test_columns_that_are_in_doubt_are_named(searched):
    sure = np.array([[0.6, 0.4], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.1, 0.9]])
    model = in_groups(searched, [0, 0, 0, 1, 1, 1], np.full((6, 2), 0.3))
    model = changed(model, group_probabilities_=sure, explained_=np.array([0.5, 0.5, 0.04, 0.5, 0.5, 0.5]))
    told = " ".join(certainty(model))
    assert "2 columns are less than 95% sure of their group: hip and wrist." in told
    assert "mean little: ankle." in told
