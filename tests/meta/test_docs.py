"""The documentation is correct: pages are up to date, links have targets."""

import importlib.util
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.meta.sources import ROOT

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


def test_pages_of_patterns_are_up_to_date() -> None:
    pytest.importorskip("jinja2")
    generate = _module(ROOT / "docs" / "generate.py")
    wanted = generate.pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in generate.FOLDER.glob("*")}
    stale = sorted(name for name in {*wanted, *found} if wanted.get(name) != found.get(name))
    assert not stale, "run `make docs`"


def test_the_generator(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jinja2")
    generate = _module(ROOT / "docs" / "generate.py")
    monkeypatch.setattr(generate, "FOLDER", tmp_path / "patterns")
    check, write = ["generate.py", "--check"], ["generate.py"]
    for words, code in ((check, 1), (write, 0), (check, 0)):
        monkeypatch.setattr("sys.argv", words)
        assert generate.main() == code
        assert ("out of date: docs/patterns/Cast.md" in capsys.readouterr().err) == bool(code)
    (tmp_path / "patterns" / "Cast.md").write_text("stale")
    (tmp_path / "patterns" / "Gone.md").write_text("superfluous")
    monkeypatch.setattr("sys.argv", check)
    assert generate.main() == 1
    assert capsys.readouterr().err.splitlines() == [
        "out of date: docs/patterns/Cast.md",
        "out of date: docs/patterns/Gone.md",
    ]
    monkeypatch.setattr("sys.argv", write)
    generate.main()
    assert {path.name for path in (tmp_path / "patterns").iterdir()} == generate.pages().keys()


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
