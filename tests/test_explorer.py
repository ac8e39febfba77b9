"""The explorer page in a real browser: its numbers are Python's, and mouse, keys and touch can do everything."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
from browser import SCREENSHOTS
from saved_models import NAMES, fitted, sample, table

import dpgplvm
from dpgplvm import BayesianGPLVM, Skeleton
from dpgplvm.model.kernels import NAMED_KERNELS
from dpgplvm.predictions import Kept

NOISES = ("group", "column")
IN_THE_PLANE = Skeleton({"a": NAMES[:2], "b": NAMES[2:4], "c": NAMES[4:]}, [("a", "b"), ("b", "c")], up="-y")
IN_SPACE = Skeleton({"a": NAMES[:3], "b": NAMES[3:]}, [("a", "b")], up="z")
HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "\u2028'\"`${window.hacked=1}",
    "<!--<script>",
    "&lt;b&gt;",
    "]]> \\u003c",
]


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


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    """A model with two groups, and its page with a body."""
    model = dpgplvm.load(sample("MRD"))
    path = tmp_path_factory.mktemp("explorer") / "walk.html"
    model.explore(path, skeleton=IN_THE_PLANE, sequence=["first"] * 7 + ["second"] * 5, title="A walk")
    return model, path


@pytest.fixture(scope="module")
def frames(tmp_path_factory):
    """A model of three latents with gaps and named rows, of which one has nothing observed, and its page."""
    Y = pd.DataFrame(table(with_gaps=True), columns=NAMES, index=[f"frame {n}" for n in range(12)])
    model = fitted(BayesianGPLVM(n_latents=3, n_inducing=5, max_iter=0, random_state=0), Y)
    free = model.state_.free
    as_much = {**free.log_theta, "ard_weights": np.zeros_like(free.log_theta["ard_weights"])}
    model = fitted(model, Y, start=replace(free, log_theta=as_much))
    path = tmp_path_factory.mktemp("explorer") / "frames.html"
    model.explore(path)
    return model, path


def opened(visits, path, **options):
    page = visits.open(path, **options)
    settle(page)
    return page


def settle(page):
    """Until what was changed has been drawn, and lines out of sight as well."""
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 300))))"
    )


def until(page, expression):
    """Asked again and again from outside, since the page's policy lets nothing be evaluated within."""
    for _ in range(400):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never came: {expression}")


def latents(page):
    return np.array(page.evaluate("explorer.latents()"))


def predicted(model, X):
    return (np.asarray(part)[0] for part in model.predict(np.asarray(X)[None], return_std=True))


def assert_shown(page, model):
    """What the page shows is what the model predicts at the page's point."""
    settle(page)
    shown = page.evaluate("explorer.shown()")
    for ours, theirs in zip(predicted(model, latents(page)), (shown["mean"], shown["std"]), strict=True):
        np.testing.assert_allclose(theirs, ours, atol=1e-6 * model._scaling.scale.min())


def place(page, model, values):
    """Where on the screen these values of the first two latents are."""
    box, X = page.locator("#map").bounding_box(), model.latents_[model._seen, :2]
    margin = 0.15 * np.ptp(X, axis=0)
    low, high = X.min(axis=0) - margin, X.max(axis=0) + margin
    across, up = (np.asarray(values)[:2] - low) / (high - low)
    return box["x"] + 1 + across * (box["width"] - 2), box["y"] + 1 + (1 - up) * (box["height"] - 2)


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


def test_tab_reaches_every_control_and_focus_can_be_seen(visits, walk):
    page = opened(visits, walk[1])
    page.evaluate(
        "window.controls = [...document.querySelectorAll('button, select, input, summary, [tabindex=\"0\"]')]"
        ".filter((one) => one.checkVisibility())"
    )
    reached = []
    for _ in range(page.evaluate("controls.length")):
        page.keyboard.press("Tab")
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", page.evaluate("document.activeElement.outerHTML")
        reached.append(page.evaluate("controls.indexOf(document.activeElement)"))
    assert reached == list(range(len(reached)))


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


def test_lighting_up_a_group_or_what_a_latent_moves(visits, walk):
    model, path = walk
    page = opened(visits, path)

    def light():
        of = page.locator("li").evaluate_all(
            "lines => lines.map((one) => [one.firstChild.textContent, Number(one.style.opacity)])"
        )
        return np.array([dict(of)[name] for name in NAMES])

    page.get_by_role("button", name="arm", exact=True).click()
    settle(page)
    assert (light()[3:] == 1.0).all()
    assert (light()[:3] < 0.3).all()
    page.get_by_role("button", name="arm", exact=True).click()
    settle(page)
    assert (light() == 1.0).all()
    page.get_by_role("button", name="latent 1").click()
    settle(page)
    moved = model.explained_by_latent_[:, 1]
    np.testing.assert_allclose(light(), 0.22 + 0.78 * moved / moved.max(), atol=1e-4)


def test_columns_are_found_by_their_names(visits, walk):
    page = opened(visits, walk[1])
    page.get_by_label("Find columns").fill("kn")
    settle(page)
    assert page.locator("li:visible .name").all_inner_texts() == ["knee"]
    assert page.locator("h3:visible").count() == 1
    page.get_by_label("Find columns").fill("nowhere")
    assert page.get_by_text("No column has that in its name.").is_visible()


def test_every_control_has_a_name(visits, walk):
    page = opened(visits, walk[1])
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")["nodes"]
    nameless = []
    for node in tree:
        properties = {one["name"]: one["value"].get("value") for one in node.get("properties", [])}
        role = node.get("role", {}).get("value")
        if properties.get("focusable") and role != "RootWebArea" and not node.get("name", {}).get("value"):
            nameless.append(role)
    assert nameless == []
    assert len(tree) > 50


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


def luminance(page, selector, what):
    """Of a colour of an element, as WCAG has it."""
    colour = page.locator(selector).first.evaluate(f"one => getComputedStyle(one).{what}")
    parts = np.array([int(part) for part in re.findall(r"\d+", colour)[:3]]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_can_both_be_read(visits, walk, scheme):
    page = opened(visits, walk[1], color_scheme=scheme)
    for selector in ("h1", "#facts", ".name", ".value", ".head span", "label"):
        text, behind = luminance(page, selector, "color"), luminance(page, ".card", "backgroundColor")
        assert (max(text, behind) + 0.05) / (min(text, behind) + 0.05) > 4.5 - 1.0 * (selector == ".head span"), (
            selector
        )
    assert (luminance(page, "body", "backgroundColor") < 0.5) == (scheme == "dark")
    page.screenshot(path=screenshot(scheme))
    dots = page.locator("#map canvas").evaluate("canvas => canvas.toDataURL()")
    other = {"light": "dark", "dark": "light"}[scheme]
    page.get_by_label("Colours").select_option(other)
    settle(page)
    assert (luminance(page, "body", "backgroundColor") < 0.5) == (other == "dark")
    assert page.locator("#map canvas").evaluate("canvas => canvas.toDataURL()") != dots


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


def test_a_body_in_space_can_be_turned(visits, walk, tmp_path):
    model, _ = walk
    model.explore(tmp_path / "page.html", skeleton=IN_SPACE, sequence=True)
    page = opened(visits, tmp_path / "page.html")
    canvas = page.locator("#figure canvas")
    seen = [canvas.evaluate("canvas => canvas.toDataURL()")]
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 60)
    page.mouse.up()
    settle(page)
    seen.append(canvas.evaluate("canvas => canvas.toDataURL()"))
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    settle(page)
    seen.append(canvas.evaluate("canvas => canvas.toDataURL()"))
    assert len(set(seen)) == 3
    np.testing.assert_allclose(latents(page), model.latents_.mean(axis=0))  # which the keys of the body do not move
    page.screenshot(path=screenshot("space"))


def middle_of(canvas, colour):
    """Where on average pixels of exactly this colour are, from left to right."""
    found = canvas.evaluate(
        "(canvas, wanted) => { const { width, height } = canvas;"
        "const copy = new OffscreenCanvas(width, height).getContext('2d', { willReadFrequently: true });"
        "copy.drawImage(canvas, 0, 0); const { data } = copy.getImageData(0, 0, width, height);"
        "const found = []; for (let i = 0; i < data.length; i += 4)"
        "if (wanted.every((one, c) => data[i + c] === one)) found.push((i / 4) % width); return found }",
        colour,
    )
    return np.mean(found)


def test_one_joint_is_drawn_with_x_on_its_left_as_in_the_plots(visits, walk, tmp_path):
    model, _ = walk
    d, e = 2, 3  # of one group, and of the other
    assert model.groups_[[d, e]].tolist() == [0, 1]
    model.explore(tmp_path / "page.html", skeleton=Skeleton({"b": (d, e)}))
    page = opened(visits, tmp_path / "page.html", color_scheme="light")
    canvas = page.locator("#figure canvas")
    blue, orange = (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)
    assert middle_of(canvas, blue) < middle_of(canvas, orange) - 2
    page.get_by_label("keep in the middle").check()
    settle(page)
    assert middle_of(canvas, blue) < middle_of(canvas, orange) - 2


def test_a_latent_that_moves_nothing_lights_up_nothing(visits, tmp_path):
    model = dpgplvm.load(sample("MRD"))
    model.explained_by_latent_ = model.explained_by_latent_ * [1.0, 0.0]
    model.explore(tmp_path / "page.html")
    page = opened(visits, tmp_path / "page.html", viewport={"width": 1280, "height": 560})
    page.get_by_role("button", name="latent 1").click()
    settle(page)
    assert set(page.locator("li").evaluate_all("lines => lines.map((one) => one.style.opacity)")) == {"0.22"}
    until(page, "/\\d/.test(document.getElementById('sure').textContent)")
    assert "NaN" not in page.locator(".legend").inner_text()


def test_rows_that_do_not_follow_each_other_are_stood_at_while_they_are_played(visits, frames):
    model, path = frames
    page = opened(visits, path)
    page.get_by_role("button", name="Play").click()
    until(page, "document.getElementById('row').value >= 2")
    page.get_by_role("button", name="Pause").click()
    assert np.abs(model.latents_ - latents(page)).max(axis=1).min() < 1e-12
    settle(page)
    assert all(page.locator(".observed").all_inner_texts())


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


def screenshot(name):
    """Where a picture is kept for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)
    return SCREENSHOTS / f"explorer-{name}.png"
