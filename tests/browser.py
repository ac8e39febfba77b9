"""A real browser for the tests of pages: Chromium, driven by Playwright, from files alone.

Where there is no Chromium these tests are skipped, which is a failure where the environment variable CI is set.
Pictures of what was seen go to `screenshots`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SCREENSHOTS = Path(__file__).parents[1] / "screenshots"
# For a machine without network, and a root user.
_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)


@pytest.fixture(scope="session")
def browser():
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        message = "there is no chromium to look at pages with: apt install chromium"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        yield launched
        launched.close()


class Visits:
    """Pages that were opened, and what went wrong in them."""

    def __init__(self, browser) -> None:
        self.browser, self.contexts, self.wrong, self.requests = browser, [], [], []

    def open(self, path: Path, **options):
        """The page in this file, ready; options are those of a context: viewport, color_scheme, has_touch."""
        context = self.browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        self.contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda message: message.type in ("error", "warning") and self.wrong.append(message.text))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        context.route(lambda url: not url.startswith("file:"), lambda route: route.abort())
        page.goto(path.as_uri())
        return page


@pytest.fixture
def visits(browser):
    """Opens pages; when the test has ended, nothing may have gone wrong in them or left them."""
    found = Visits(browser)
    yield found
    for context in found.contexts:
        context.close()
    assert found.wrong == []
    assert [url for url in found.requests if not url.startswith("file:")] == []
