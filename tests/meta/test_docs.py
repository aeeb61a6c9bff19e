"""The documentation is correct: pages are up to date, links have targets."""

import importlib.util
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measured import read
from tests.meta.sources import ROOT
from xoptim import installed_patterns
from xoptim.cli.main import run

PAGES = sorted(
    p
    for p in (
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
    )
)
_PICTURE = re.compile(r"""\.picture\("([\w-]+)"\)""")
NOT_THERE = {"patterns/activations/relu_relu.py"}  # the pattern that a reader writes


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_pattern_has_a_page() -> None:
    pytest.importorskip("jinja2")
    pages = _module(ROOT / "docs" / "pattern_pages.py").pages()
    names = installed_patterns()
    assert pages.keys() == {"README.md", *(f"{name}.md" for name in names)}
    for name, pattern in names.items():
        assert pages[f"{name}.md"].count("```mermaid") == 2 * len(pattern.examples)
        assert f"[{name}]({name}.md)" in pages["README.md"]


def test_the_readme_counts_the_patterns() -> None:
    shipped = sum(pattern.is_shipped() for pattern in installed_patterns().values())
    (claimed,) = re.findall(r"more than (\d+) patterns", (ROOT / "README.md").read_text("utf-8"))
    assert int(claimed) < shipped


def test_the_output_that_is_shown_is_that_of_the_shipped_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes, bytes and hints; differences and times depend on the machine."""
    model = tmp_path / "model.onnx"
    shutil.copy(ROOT / "examples" / "models" / "tiny_bert.onnx", model)
    assert run([str(model), "--no-config", "-v"]) == 0
    said = capsys.readouterr().out.splitlines()
    for page in ("README.md", "docs/getting-started.md"):
        (shown,) = re.findall(
            r"^nodes         181 → 64.*?^written", (ROOT / page).read_text("utf-8"), re.M | re.S
        )
        lines = [each for each in shown.splitlines() if each.startswith(("nodes", "size", "hint"))]
        assert len(lines) == 4
        assert set(lines) <= set(said)


def test_the_readme_shows_the_results_of_targets() -> None:
    """Each number is one of the lab, or the sum of its column."""
    tables = read(ROOT / "lab" / "targets.md")
    rows = re.findall(
        r"^\| (WebGPU|OpenVINO) \| (\d+) \| [^|]+ \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$",
        (ROOT / "README.md").read_text("utf-8"),
        re.M,
    )
    assert len(rows) == 2
    for target, models, *shown in rows:
        table = tables[target.lower()].dictionaries()
        sums = [
            sum(int(left) for row in table for left in re.findall(r"^(\d+) left", row[column]))
            for column in ("original", "default", "fitted")
        ]
        assert (int(models), [int(each.replace(",", "")) for each in shown]) == (len(table), sums)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        _check_links(page)


def _check_links(page: Path) -> None:
    text = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    links = [
        link for link in re.findall(r"\]\(([^()\s]+)\)", text) if not re.match(r"[a-z]+:", link)
    ]
    paths = re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.\w+)`", text)
    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == [], (
        page
    )
    assert {
        path for path in paths if not (ROOT / path).exists() and not (page.parent / path).exists()
    } <= NOT_THERE, page


def test_pictures_are_made_by_tests() -> None:
    """``make pictures`` makes each picture that a page shows, and no other."""
    made = {
        name
        for path in (ROOT / "tests").rglob("*.py")
        for name in _PICTURE.findall(path.read_text("utf-8"))
    }
    shown = {
        name
        for page in PAGES
        for name in re.findall(r"pictures/([\w-]+)\.png\)", page.read_text(encoding="utf-8"))
    }
    files = {path.stem: path.read_bytes() for path in (ROOT / "docs" / "pictures").iterdir()}
    assert made == shown == files.keys()
    for name, content in files.items():
        assert content[:8] == b"\x89PNG\r\n\x1a\n"
        width, height = struct.unpack(">II", content[16:24])
        assert (width, height) == (1440, 860), name
        assert len(content) > 20_000, f"{name} shows a page that is all but empty"


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_lists_its_targets() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = dict(re.findall(r"^([a-z-]+):.*?## (.+)$", makefile, re.MULTILINE))
    assert {"demo", "test", "check", "lint", "types", "docs"} <= targets.keys()
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert dict(line.split(maxsplit=1) for line in listed.stdout.splitlines()) == targets
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == targets.keys()
