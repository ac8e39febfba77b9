"""The report as a page: whole, safe, the same again, and fit to be read, in a browser and without seeing it."""

from __future__ import annotations

import os
import re
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from browser import SCREENSHOTS
from pages import Page
from saved_models import NAMES, fitted
from sklearn.exceptions import NotFittedError

import dpgplvm
from dpgplvm import DPGPLVM, MRD, BayesianGPLVM, Skeleton
from dpgplvm.report import html

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "</style><b>bold</b>",
    "\" onmouseover='window.hacked=1' x=\"",
    "{{ 7 * 7 }} {% raw %}",
    "$\\alpha$ & <i>",
]


def test_it_can_be_read_without_seeing_it(page):
    headings = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert headings.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    assert page.all("html")[0]["lang"] == "en"
    assert len(page.all("title")) == 1
    images = page.all("img")
    assert len(images) >= 5
    assert all(image["alt"].endswith(".") and len(image["alt"]) > 20 for image in images)
    assert all("scope" in header for header in page.all("th"))
    targets = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    assert {link["href"] for link in page.all("a")} <= {f"#{target}" for target in targets}


def test_it_needs_nothing_but_itself(page):
    assert all(image["src"].startswith("data:image/") for image in page.all("img"))
    assert {tag for tag, _ in page.elements} & {"script", "link", "iframe", "object", "embed", "base"} == set()
    assert {"src", "href", "action", "data", "srcset"} & {name for _, own in page.elements for name in own} <= {
        "src",
        "href",
    }
    assert not re.search(r"url\(|@import", page.source)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@pytest.fixture(scope="module")
def hostile():
    """A model whose columns and groups would rather be markup."""
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(rng.normal(size=(12, 2)) @ rng.normal(size=(2, 6)), columns=HOSTILE)
    views = {name: [name] for name in HOSTILE}
    return fitted(MRD(views=views, n_latents=2, n_inducing=4, max_iter=0, random_state=0), Y)


def test_names_are_text(hostile, searched):
    page = Page(html(hostile, title="<script>alert(1)</script>"))
    assert {tag for tag, _ in page.elements} == {tag for tag, _ in Page(html(searched)).elements}
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert ("h1", "<script>alert(1)</script>") in page.texts
    assert [row[0] for row in page.table("Columns")[1:]] == HOSTILE
    assert [row[0] for row in page.table("Groups")[1:]] == HOSTILE
    assert [text for inside, text in page.texts if inside == "h3"] == HOSTILE


def test_five_hundred_columns():
    rng = np.random.default_rng(0)
    Y = pd.DataFrame(rng.normal(size=(12, 2)) @ rng.normal(size=(2, 500)), columns=[f"gene {d}" for d in range(500)])
    model = fitted(BayesianGPLVM(n_latents=2, n_inducing=4, max_iter=0, random_state=0), Y)
    page = Page(html(model))
    assert len(page.table("Columns")) == 501
    # Folded away, and left out on paper: only the few others are open.
    folded = re.search(r"<details([^>]*)>\s*<summary>Columns, in the order", page.source)[1]
    assert folded == ""
    assert page.source.count("<details open>") < 10
    assert len(page.source) < 3_000_000


def test_a_body_and_sequences(searched):
    joints = {"leg": ("hip", "knee"), "arm": ("shoulder", "elbow")}
    skeleton = Skeleton(joints, [("leg", "arm")])
    page = Page(html(searched, skeleton=skeleton, sequence=True))
    captions = " ".join(text for inside, text in page.texts if inside == "figcaption")
    for caption in (
        "The groups on the body",
        "Poses that the model predicts",
        "Lines join rows that follow each other",
    ):
        assert caption in captions
    assert "body" not in Page(html(searched)).text
    assert "Lines join rows" not in Page(html(searched, sequence=False)).text
    with pytest.raises(ValueError, match=r"sequence has shape \(3,\)"):
        html(searched, sequence=[0, 0, 1])


def test_a_body_in_space(searched):
    skeleton = Skeleton({"leg": NAMES[:3], "arm": NAMES[3:]}, [("leg", "arm")])
    assert "The groups on the body" in Page(html(searched, skeleton=skeleton)).text


def test_it_is_the_same_again_and_written_whole_or_not_at_all(searched, tmp_path, monkeypatch):
    path = tmp_path / "walk.html"
    searched.report(path, title="Walk")
    before = path.read_text(encoding="utf-8")
    assert before == html(searched, title="Walk")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match=r"walk\.html cannot be written: No space left on device"):
        searched.report(path)
    assert path.read_text(encoding="utf-8") == before
    assert os.listdir(tmp_path) == ["walk.html"]


def test_what_is_said_to_those_who_slip(searched, tmp_path):
    with pytest.raises(NotFittedError):
        DPGPLVM().report(tmp_path / "page.html")
    with pytest.raises(FileNotFoundError, match="its folder does not exist: make it first"):
        searched.report(tmp_path / "nowhere" / "page.html")
    with pytest.raises(TypeError, match="path is a int: give a str"):
        searched.report(3)
    with pytest.raises(TypeError, match=r"skeleton is a dict: give a dpgplvm\.Skeleton"):
        searched.report(tmp_path / "page.html", skeleton={"leg": NAMES[:2]})
    with pytest.raises(TypeError, match="title is a int: give a str"):
        searched.report(tmp_path / "page.html", title=3)
    assert os.listdir(tmp_path) == []


def test_a_title_that_is_no_text_of_any_encoding_is_written(searched, tmp_path):
    searched.report(tmp_path / "page.html", title="caf\udce9")  # as from a command line in another encoding
    assert ("h1", "caf?") in Page((tmp_path / "page.html").read_text(encoding="utf-8")).texts


@pytest.mark.parametrize("package", ["jinja2", "matplotlib"])
def test_without_what_it_draws_with(searched, tmp_path, monkeypatch, package):
    for name in [name for name in sys.modules if name.startswith(("dpgplvm.report", "dpgplvm.plots"))]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("report", "plots"):
        monkeypatch.delattr(dpgplvm, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=rf"{package}.*pip install 'dpgplvm\[plots\]'"):
        searched.report(tmp_path / "page.html")
    assert os.listdir(tmp_path) == []


def test_in_a_browser_names_are_shown_and_do_not_run(hostile, visits, tmp_path):
    hostile.report(tmp_path / "page.html", title=HOSTILE[0], sequence=True)
    page = visits.open(tmp_path / "page.html")
    assert page.evaluate("window.hacked") is None
    assert page.title() == HOSTILE[0]
    assert page.locator("h1").text_content() == HOSTILE[0]
    assert page.locator("h3").all_text_contents() == HOSTILE
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 100)")


def background(page):
    """How bright, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return np.mean([float(value) for value in re.findall(r"\d+", colour)[:3]])


def test_in_a_browser_by_day_by_night_on_a_phone_and_on_paper(searched, visits, tmp_path):
    searched.report(tmp_path / "page.html")
    page = visits.open(tmp_path / "page.html", color_scheme="light")
    assert background(page) > 240
    page.screenshot(path=SCREENSHOTS / "report.png", full_page=True)
    page = visits.open(tmp_path / "page.html", color_scheme="dark", viewport={"width": 360, "height": 640})
    assert background(page) < 40
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.emulate_media(media="print")
    assert background(page) > 240
    assert not page.locator("nav").is_visible()
    folded = page.locator("details:not([open]) table")
    assert folded.count() > 0
    assert folded.first.is_visible()
