"""A browser for the tests of the page."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
PICTURES = os.environ.get("PICTURES", "")
"""The folder for the pictures of the documentation, empty for none (``make pictures``)."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window; tests are skipped where there is none."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="there is no playwright: pip install playwright"
    )
    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip("there is no chromium")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class Visit:
    """A page in the browser, and everything that went wrong there.

    Args:
        page: the page.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: self.errors.append(dialog.message))
        page.on("request", lambda request: self.requests.append(request.url))

    def count(self, selector: str) -> int:
        """Number of elements."""
        found: int = self.page.locator(selector).count()
        return found

    def texts(self, selector: str) -> list[str]:
        """The texts of elements."""
        found: list[str] = self.page.locator(selector).all_text_contents()
        return found

    def picture(self, name: str) -> None:
        """Make a picture for the documentation, if it is asked for."""
        if PICTURES:
            self.page.wait_for_timeout(200)
            self.page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Visit]]:
    """Opens a page about a model; at the end, nothing may have gone wrong there, and nothing may
    have been loaded.
    """
    visits: list[Visit] = []

    def opened(html: str, **settings: Any) -> Visit:
        file = tmp_path / f"{len(visits)}.html"
        file.write_text(html, encoding="utf-8")
        found = Visit(browser.new_page(**{"viewport": {"width": 1440, "height": 860}, **settings}))
        found.page.set_default_timeout(10_000)
        visits.append(found)
        found.page.goto(file.as_uri())
        found.page.wait_for_selector(":root[data-ready]", state="attached")
        return found

    yield opened
    for each in visits:
        assert each.errors == []
        assert [url for url in each.requests if not url.startswith("file:")] == []
        each.page.close()
