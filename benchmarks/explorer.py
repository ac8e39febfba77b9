"""Frames a second of the explorer page, playing a body of 100 joints: 200 columns, 100 inducing points.

    python benchmarks/explorer.py [--quick] [--json FILE]

Needs Chromium and Playwright. The page is drawn without a graphics card, so another machine is faster.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

from dpgplvm import MRD, Skeleton

_ROWS, _JOINTS, _INDUCING = 150, 100, 100
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
_COUNT_FRAMES = """milliseconds => new Promise(done => {
    let frames = 0, first;
    const frame = now => {
        first ??= now;
        if (now - first >= milliseconds) done(1000 * frames / (now - first));
        else { frames += 1; requestAnimationFrame(frame); }
    };
    requestAnimationFrame(frame);
})"""
_TIME_PREDICTIONS = """([latents, times]) => {
    const start = performance.now();
    for (let i = 0; i < times; i += 1) explorer.predict(latents);
    return (performance.now() - start) / times;
}"""


def page(folder: Path) -> tuple[Path, int]:
    """The explorer of a model that was not climbed, and how many latents it has: what it costs to draw does not depend
    on how good a model is."""
    rng = np.random.default_rng(0)
    Y = np.cumsum(rng.normal(size=(_ROWS, 2 * _JOINTS)), axis=0)
    groups = np.arange(2 * _JOINTS) % 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it was not climbed
        model = MRD(views=groups, n_latents=6, n_inducing=_INDUCING, noise="column", max_iter=0, random_state=0).fit(Y)
    joints = {f"joint {j}": (2 * j, 2 * j + 1) for j in range(_JOINTS)}
    bones = [(f"joint {j}", f"joint {j + 1}") for j in range(_JOINTS - 1)]
    model.explore(folder / "page.html", skeleton=Skeleton(joints, bones), sequence=True)
    return folder / "page.html", model.n_latents_


def measured(seconds: float) -> dict[str, float]:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("there is no chromium to show the page: apt install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path, n_latents = page(Path(folder))
        browser = playwright.chromium.launch(executable_path=chromium, args=_FLAGS)
        shown = browser.new_page(viewport={"width": 1280, "height": 800})
        shown.goto(path.as_uri())
        numbers = {"megabytes": path.stat().st_size / 1e6}
        numbers["milliseconds a prediction"] = shown.evaluate(_TIME_PREDICTIONS, [[0.1] * n_latents, 200])
        shown.get_by_role("button", name="Play").click()
        numbers["frames a second"] = shown.evaluate(_COUNT_FRAMES, 1000 * seconds)
        browser.close()
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two seconds instead of ten")
    parser.add_argument("--json", metavar="FILE", help="also write all numbers to FILE")
    arguments = parser.parse_args()
    numbers = measured(2.0 if arguments.quick else 10.0)
    for name, value in numbers.items():
        print(f"{name}: {value:.3g}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
