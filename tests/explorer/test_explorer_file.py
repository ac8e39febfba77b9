"""The explorer page as a file: nothing in it runs or fetches but its own, and what it cannot be made of is refused."""

import re
from dataclasses import replace

import numpy as np
import pytest
from exploring import latents, opened, settle
from saved_models import NAMES, sample

import dpgplvm
from dpgplvm import Skeleton

HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "\u2028'\"`${window.hacked=1}",
    "<!--<script>",
    "&lt;b&gt;",
    "]]> \\u003c",
]


def test_names_are_text_and_cannot_run(visits, tmp_path):
    model = dpgplvm.load(sample("MRD"))
    model._names, model._group_names = HOSTILE, HOSTILE[:2]
    model._layout = model._layout._replace(index=HOSTILE * 2)
    body = Skeleton({HOSTILE[0]: HOSTILE[:2], HOSTILE[1]: HOSTILE[2:4]}, [HOSTILE[:2]])
    model.explore(tmp_path / "page.html", skeleton=body, sequence=HOSTILE * 2, title=HOSTILE[1])
    page = opened(visits, tmp_path / "page.html")
    assert sorted(page.locator(".name").evaluate_all("all => all.map((one) => one.textContent)")) == sorted(HOSTILE)
    assert page.title() == page.locator("h1").text_content() == HOSTILE[1]
    for _ in range(3):
        page.locator("#row").press("ArrowRight")
    page.locator("#map").hover()
    settle(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2


def test_policy_lets_nothing_else_run_and_nothing_be_fetched(visits, walk):
    page = opened(visits, walk[1])
    page.evaluate(
        "() => { const script = document.createElement('script');"
        "script.textContent = 'window.hacked = 1'; document.body.append(script) }"
    )
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("fetch('https://example.org').then(() => 'fetched', () => 'refused')") == "refused"
    assert page.evaluate("fetch('other.html').then(() => 'fetched', () => 'refused')") == "refused"
    # The browser tells what the policy has refused, and nothing else went wrong.
    assert len(visits.wrong) >= 2
    assert all("Content Security Policy" in wrong for wrong in visits.wrong)
    visits.wrong.clear()


@pytest.mark.parametrize(("limit", "most"), [("_MOST_VALUES", 40), ("_MOST_ROWS", 7)])
def test_of_a_long_table_some_rows_are_shown(visits, walk, tmp_path, monkeypatch, limit, most):
    monkeypatch.setattr(f"dpgplvm.explorer.export.{limit}", most)
    model, _ = walk
    model.explore(tmp_path / "page.html")
    page = opened(visits, tmp_path / "page.html")
    assert "6 of 12 rows" in page.locator("#facts").inner_text()
    page.get_by_role("slider", name="Row", exact=True).press("End")
    np.testing.assert_allclose(latents(page), model.latents_[10])


def test_the_same_model_gives_the_same_page(walk, tmp_path):
    model, _ = walk
    for name in ("one.html", "other.html"):
        model.explore(tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "other.html").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"sequence": [1, 2]}, ValueError, "sequence has shape (2,): give one value for each of the 12 rows, or True"),
        ({"skeleton": {"a": NAMES[:2]}}, TypeError, "skeleton is a dict: give a dpgplvm.Skeleton"),
        ({"skeleton": Skeleton({"a": ("toe x", "toe y")})}, ValueError, "skeleton has 2 columns"),
        ({"title": 3}, TypeError, "title is a int: give a str"),
    ],
)
def test_bad_arguments_are_told_and_the_old_page_stays(walk, tmp_path, arguments, error, words):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(error, match=re.escape(words)):
        walk[0].explore(path, **arguments)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_where_the_page_cannot_be_written_it_is_told(walk, tmp_path):
    with pytest.raises(IsADirectoryError, match="cannot be written: it is a folder"):
        walk[0].explore(tmp_path)
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        walk[0].explore(tmp_path / "nowhere" / "page.html")


def test_a_kernel_of_the_users_own_is_refused(walk, tmp_path):
    model = dpgplvm.load(sample("MRD"))

    class Bent(dpgplvm.RBF):
        pass

    model._model = replace(model._model, kernel=Bent())
    with pytest.raises(ValueError, match="kernel is a Bent, a kernel of your own, which the page cannot compute"):
        model.explore(tmp_path / "page.html")
