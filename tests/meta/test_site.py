"""The sources of the site: pictures in place of flowcharts, every page in the index, links that
lead to pages.
"""

import importlib
import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.meta.sources import ROOT
from tests.reporting.conftest import Visit, browser as browser

CHART = """flowchart TB
    i0([x])
    c0[/"k"/]
    n0["Gather<br/>axis = -2"]
    o0([y])
    i0 --> n0
    c0 --> n0
    n0 --> o0
"""


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a program of the documentation."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    yield importlib.import_module
    for name in ("build_site", "pattern_pages", "pictures"):
        sys.modules.pop(name, None)


def test_a_picture(module: Any) -> None:
    """Operands are above their reader, results below it; lines of text keep their order."""
    root = ElementTree.fromstring(module("pictures").picture(CHART))
    texts = {text.text: float(text.get("y", "")) for text in root.findall(".//{*}text")}
    assert texts["x"] == texts["k"] < texts["Gather"] < texts["axis = -2"] < texts["y"]
    assert len(list(root.findall(".//{*}path"))) == 3
    assert len(list(root.findall(".//{*}rect"))) == 4


def test_parts_are_pictures_of_their_own(module: Any) -> None:
    chart = (
        "flowchart LR\n"
        "  subgraph after\n"
        "  b([x]) --> y\n"
        "  end\n"
        "  subgraph before\n"
        "  x --> t[Neg] --> u[Neg] --> y\n"
        "  end\n"
    )
    text = module("pictures").picture(chart)
    assert re.findall("<p>(.*)</p>", text) == ["before", "after"]
    assert text.count("<rect") == 6


def test_the_sources(module: Any, tmp_path: Path) -> None:
    site = module("build_site")
    site.write_sources(tmp_path)
    pages = {
        path.relative_to(tmp_path).as_posix(): path.read_text(encoding="utf-8")
        for path in tmp_path.rglob("*.md")
    }
    assert not [name for name, text in pages.items() if "```mermaid" in text]
    assert pages["docs/patterns/GatherUnsqueeze.md"].count("<svg") == 2
    assert "](docs/pictures/report.png)" in pages["index.md"], "a picture stays a picture"
    listed = {f"{name}.md" for names in site.GUIDES.values() for name in names}
    assert {name for name in pages if not name.startswith("docs/patterns/")} - listed == {
        "index.md"
    }
    for name, text in pages.items():
        plain = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        links = [
            link
            for link in re.findall(r"\]\(([^()\s]+)\)", plain)
            if not re.match(r"[a-z]+:|#", link)
        ]
        assert [
            link
            for link in links
            if not ((tmp_path / name).parent / link.partition("#")[0]).exists()
        ] == []
    assert ".. autofunction:: optimize" in (tmp_path / "api.rst").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_built_site_is_read(browser: Any) -> None:
    """From the start to the page of a pattern, whose flowcharts are drawn, and nothing is loaded
    from elsewhere.
    """
    start = ROOT / "build" / "site" / "html" / "index.html"
    if not start.exists():
        pytest.skip("make site builds it")
    seen = Visit(browser.new_page(viewport={"width": 1440, "height": 860}))
    seen.page.goto(start.as_uri())
    assert seen.texts("h1")[0].startswith("xoptim")
    assert seen.count("article img") >= 1
    seen.page.click(".sidebar-tree a:text-is('Patterns')")
    seen.page.locator("article a[href$='GatherUnsqueeze.html']").first.click()
    seen.page.locator("h1:text('GatherUnsqueeze')").wait_for()
    assert seen.texts("h1")[0].startswith("GatherUnsqueeze")
    assert seen.count("svg.graph rect") >= 3
    assert seen.page.locator("svg.graph").first.bounding_box()["width"] > 50
    seen.picture("site")
    assert (seen.errors, [url for url in seen.requests if not url.startswith("file:")]) == ([], [])
    seen.page.close()
