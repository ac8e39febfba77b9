"""How the explorer's page is opened, waited for, and held against what its model predicts."""

import numpy as np
from browser import SCREENSHOTS


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


def screenshot(name):
    """Where a picture is kept for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)
    return SCREENSHOTS / f"explorer-{name}.png"
