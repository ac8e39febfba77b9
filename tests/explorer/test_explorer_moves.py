"""The explorer page in a real browser: its numbers are Python's, wherever mouse, keys, touch and playing take it."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from exploring import assert_shown, latents, opened, place, predicted, screenshot, settle, until
from saved_models import NAMES, sample, table

import dpgplvm
from dpgplvm.fitted import Kept
from dpgplvm.model.kernels import NAMED_KERNELS

NOISES = ("group", "column")


def varied(kernel="rbf", noise="group", gaps=False, unsure=False, mixed=False):
    """A saved model with other functions than it was saved with: no fit is needed to compare their predictions."""
    model, rng = dpgplvm.load(sample("MRD")), np.random.default_rng(0)
    free = model.state_.free
    log_theta = {
        name: rng.normal(scale=0.5, size=(2, *parameter.shape(2)))
        for name, parameter in NAMED_KERNELS[kernel].parameters.items()
    }
    free = replace(free, log_theta=log_theta)
    if noise == "column":
        free = replace(free, log_noise_precision=rng.uniform(1, 5, size=6), log_scale=rng.normal(scale=0.3, size=6))
        model.noise_precision_, model.column_scale_ = np.exp(free.log_noise_precision), np.exp(free.log_scale)
    if gaps:
        model._learned = np.where(rng.random((12, 6)) < 0.2, np.nan, model._learned)
    phi = model.state_.phi if not unsure else rng.dirichlet(np.ones(2), size=6)
    model._model, model._mixed = replace(model._model, kernel=NAMED_KERNELS[kernel]), mixed
    model.state_, model._kept = replace(model.state_, free=free, phi=phi), Kept()
    return model


def with_one_latent(model):
    """The same model, as if its other latents had turned out not to be used."""
    model.n_latents_, model.latent_order_ = 1, model.latent_order_[1:]
    for name in ("latents_", "latent_variance_", "explained_by_latent_"):
        setattr(model, name, getattr(model, name)[:, 1:])
    return model


MODELS = {
    "as it was fitted": lambda: dpgplvm.load(sample("BayesianGPLVM")),
    **{f"{kernel}, noise of {noise}s": partial(varied, kernel, noise) for kernel in NAMED_KERNELS for noise in NOISES},
    "gaps": partial(varied, gaps=True),
    "gaps, noise of columns, unsure of groups": partial(varied, noise="column", gaps=True, unsure=True),
    "unsure of groups": partial(varied, "rbf+linear", unsure=True),
    "mixed": partial(varied, unsure=True, mixed=True),
    "unused latents": lambda: with_one_latent(varied()),
}


@pytest.mark.parametrize("kind", MODELS)
def test_page_predicts_what_the_model_predicts(kind, visits, tmp_path):
    model = MODELS[kind]()
    model.explore(tmp_path / "page.html")
    rng = np.random.default_rng(1)
    X = np.concatenate([model.latents_[:4], 2.0 * rng.normal(size=(16, model.n_latents_))])
    page = opened(visits, tmp_path / "page.html")
    found = page.evaluate("places => places.map((latents) => explorer.predict(latents))", X.tolist())
    mean, std = map(np.asarray, model.predict(X, return_std=True))
    unit = model._scaling.scale
    np.testing.assert_allclose([one["mean"] for one in found] / unit, mean / unit, rtol=0, atol=1e-8)
    np.testing.assert_allclose([one["std"] for one in found] / unit, std / unit, rtol=0, atol=1e-8)
    assert (std.std(axis=0) > 0.01 * unit).any()  # they differ, so that agreeing means something


def test_dragging_moves_the_point_and_everything_with_it(visits, walk):
    model, path = walk
    page = opened(visits, path)
    before = page.locator("#figure canvas").evaluate("canvas => canvas.toDataURL()")
    start, goal = latents(page), np.array([0.3, -0.4])
    page.mouse.move(*place(page, model, start))
    page.mouse.down()
    page.mouse.move(*place(page, model, (start + goal) / 2))
    page.mouse.move(*place(page, model, goal))
    page.mouse.up()
    np.testing.assert_allclose(latents(page), goal, atol=0.03)
    assert_shown(page, model)
    mean, std = predicted(model, latents(page))
    lines = dict(zip(page.locator(".name").all_inner_texts(), page.locator(".value").all_inner_texts(), strict=True))
    for d, name in enumerate(NAMES):
        value, spread = map(float, lines[name].split(" ± "))
        np.testing.assert_allclose([value, spread], [mean[d], std[d]], atol=0.06)
    assert page.locator("#figure canvas").evaluate("canvas => canvas.toDataURL()") != before
    page.screenshot(path=screenshot("walk"))


def test_keys_move_the_point_play_and_pause(visits, walk):
    model, path = walk
    page = opened(visits, path)
    start = latents(page)
    page.keyboard.press("ArrowRight")  # without a click anywhere
    right = latents(page)
    assert right[0] > start[0]
    assert right[1] == start[1]
    page.locator("#map").focus()
    page.keyboard.press("ArrowUp")
    up = latents(page)
    page.keyboard.press("Shift+ArrowUp")
    assert latents(page)[1] - up[1] == pytest.approx(6 * (up[1] - start[1]))
    page.keyboard.press("Home")
    np.testing.assert_allclose(latents(page), model.latents_.mean(axis=0))
    assert_shown(page, model)
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Pause").is_visible()
    page.keyboard.press("Space")
    assert page.get_by_role("button", name="Play").is_visible()
    until(page, "document.getElementById('where').textContent.includes('latent 0')")


def test_sliders_move_latents_of_which_the_map_shows_two(visits, frames):
    model, path = frames
    assert model.n_latents_ == 3
    page = opened(visits, path)
    slider = page.get_by_role("slider", name="latent 2", exact=True)
    before = latents(page)
    slider.focus()
    page.keyboard.press("Shift+ArrowRight")
    slider.evaluate("one => { one.value = 0.5; one.dispatchEvent(new Event('input')) }")
    np.testing.assert_allclose(latents(page), [*before[:2], 0.5])
    assert_shown(page, model)
    page.get_by_label("Latent that goes across").select_option("latent 2")
    page.locator("#map").focus()
    page.keyboard.press("ArrowLeft")
    assert latents(page)[2] < 0.5
    page.get_by_label("Latent that goes up").select_option("latent 2")  # which is already there: the two change places
    assert page.get_by_label("Latent that goes across").input_value() == "1"


def test_playing_goes_through_the_rows_of_a_sequence(visits, walk):
    model, path = walk
    page = opened(visits, path)
    page.get_by_label("sequence").select_option("second")
    np.testing.assert_allclose(latents(page), model.latents_[7])
    page.get_by_label("Rows a second").select_option("25")
    page.get_by_role("button", name="Play").click()
    until(page, "document.getElementById('row').value >= 2")
    page.get_by_role("button", name="Pause").click()
    path_of = model.latents_[7:]
    ways = np.diff(path_of, axis=0)
    apart = latents(page) - path_of[:-1]
    along = np.clip((apart * ways).sum(axis=1) / (ways**2).sum(axis=1), 0.0, 1.0)[:, None]
    assert np.linalg.norm(apart - along * ways, axis=1).min() < 1e-12  # on the way from a row to the next
    row = page.get_by_role("slider", name="Row", exact=True)
    row.focus()
    page.keyboard.press("End")
    np.testing.assert_allclose(latents(page), model.latents_[11])
    assert_shown(page, model)
    assert page.locator("#row-name").inner_text() == "row 11"
    observed = dict(
        zip(page.locator(".name").all_inner_texts(), page.locator(".observed").all_inner_texts(), strict=True)
    )
    np.testing.assert_allclose([float(observed[name]) for name in NAMES], table()[11], atol=0.06)


def test_pointing_at_a_row_shows_which_it_is_and_its_values(visits, frames):
    model, path = frames
    page = opened(visits, path)
    assert (
        page.locator("#facts").inner_text().startswith("BayesianGPLVM · 11 of 12 rows")
    )  # of one nothing was observed
    page.mouse.move(*place(page, model, model.latents_[7]))
    settle(page)
    tip = page.locator("#tip").inner_text()
    assert "row frame 7" in tip
    assert "2 of 6 columns observed" in tip
    assert page.locator(".observed").all_inner_texts()[:4] == ["gap"] * 4
    np.testing.assert_allclose(
        [float(text) for text in page.locator(".observed").all_inner_texts()[4:]], table()[7, 4:], atol=0.06
    )
    page.mouse.down()
    page.mouse.up()
    np.testing.assert_allclose(latents(page), model.latents_[7])
    page.mouse.move(0, 0)
    settle(page)
    assert page.locator("#tip").is_hidden()


def test_a_finger_drags_on_a_phone_and_nothing_is_cut_off(visits, walk):
    model, path = walk
    page = opened(visits, path, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    start = latents(page)
    goal = start + np.array([0.3, -0.3])
    session = page.context.new_cdp_session(page)

    def touch(kind, *values):
        points = [dict(zip("xy", place(page, model, one), strict=True)) for one in values]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", start)
    touch("touchMove", (start + goal) / 2)
    touch("touchMove", goal)
    touch("touchEnd")
    np.testing.assert_allclose(latents(page), goal, atol=0.06)
    assert_shown(page, model)
    page.screenshot(path=screenshot("phone"))


def test_rows_that_do_not_follow_each_other_are_stood_at_while_they_are_played(visits, frames):
    model, path = frames
    page = opened(visits, path)
    page.get_by_role("button", name="Play").click()
    until(page, "document.getElementById('row').value >= 2")
    page.get_by_role("button", name="Pause").click()
    assert np.abs(model.latents_ - latents(page)).max(axis=1).min() < 1e-12
    settle(page)
    assert all(page.locator(".observed").all_inner_texts())
