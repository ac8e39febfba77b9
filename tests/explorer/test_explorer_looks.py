"""What the explorer page shows in a real browser can be seen, read, found and reached by everyone."""

import re

import numpy as np
import pytest
from exploring import latents, opened, screenshot, settle, until
from saved_models import NAMES, sample

import dpgplvm
from dpgplvm import Skeleton

IN_SPACE = Skeleton({"a": NAMES[:3], "b": NAMES[3:]}, [("a", "b")], up="z")


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
