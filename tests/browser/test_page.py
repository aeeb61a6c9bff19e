"""The page that runs xoptim in the browser: its Python without onnxruntime, and the page in
Chromium with Pyodide.
"""

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, TypeAlias

import onnx
import pytest

import xoptim
from tests.browser.fetch import missing, site
from tests.meta.sources import ROOT
from tests.reporting.conftest import Visit

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]
PYODIDE = ROOT / ".venv" / "pyodide"
"""The folder that ``make test-browser`` fetches."""
MODEL = ROOT / "examples" / "models" / "tiny_bert.onnx"
LIKE_PYODIDE = """
import sys, threading
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("onnxruntime", "click", "rich"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
def refuse(self):
    raise RuntimeError("can't start new thread")
sys.meta_path.insert(0, Absent())
threading.Thread.start = refuse
sys.modules.update(resource=None, msvcrt=None)
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from optimize import optimized
found = optimized(memoryview(Path(sys.argv[2]).read_bytes()), "some model.onnx")
for name, value in found.items():
    Path(name).write_bytes(value if isinstance(value, bytes) else value.encode())
"""
STAND_IN = {
    "onnx/__init__.py": (
        """
class load_model_from_string:
    def __init__(self, data): self.graph, self.node = self, data
"""
    ),
    "xoptim/__init__.py": (
        """
import pathlib
class XoptimError(Exception): pass
def optimize(data, report):
    if not data.startswith(b"model"): raise XoptimError("not a\\nmodel")
    pathlib.Path(report).write_bytes((pathlib.Path(__file__).parent / "report.html").read_bytes())
    return data[:5]
"""
    ),
}
"""The modules that the Python of the page imports, without numpy.

Nodes are bytes, the report is a real one.
"""
Served: TypeAlias = Callable[[Path, Sequence[str]], Visit]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def run_like_pyodide(model: Path, folder: Path) -> None:
    """Run the Python of the page without what Pyodide lacks, and write its results into a
    folder.
    """
    words = [sys.executable, "-c", LIKE_PYODIDE, str(ROOT / "docs" / "browser"), str(model)]
    done = subprocess.run(
        words, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_python_without_what_pyodide_lacks(tmp_path: Path) -> None:
    pytest.importorskip("igraph")
    run_like_pyodide(MODEL, tmp_path)
    assert (tmp_path / "name").read_text() == "some model.opt.onnx"
    before, after = onnx.load(MODEL), onnx.load(tmp_path / "model")
    assert 2 * len(after.graph.node) < len(before.graph.node)
    assert xoptim.verify(before, after).ok
    summary = (tmp_path / "summary").read_text(encoding="utf-8")
    assert summary.startswith(f"nodes {len(before.graph.node)} → {len(after.graph.node)}, bytes ")
    assert summary.endswith(", not compared")
    assert "not compared</span>" in (tmp_path / "report").read_text(encoding="utf-8")


def test_a_file_that_is_not_a_model(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xff")
    run_like_pyodide(tmp_path / "bad.onnx", tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.suffix != ".onnx"] == ["error"]
    assert len((tmp_path / "error").read_text().splitlines()) == 1


@pytest.fixture
def served(browser: Any, tmp_path: Path) -> Iterator[Served]:
    """Opens the page with a folder of wheels.

    It may read from this machine only, and send nothing.
    """
    if not (PYODIDE / "pyodide.mjs").exists():
        pytest.skip("there is no Pyodide: make test-browser fetches it")
    (tmp_path / "pyodide").symlink_to(PYODIDE)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/"
    page = browser.new_page()
    sent: list[Any] = []
    page.on("request", lambda request: sent.append(request))

    def opened(wheels: Path, names: Sequence[str]) -> Visit:
        site().write_browser_page(tmp_path / "page", wheels, "../pyodide/", names)
        found = Visit(page)
        page.set_default_timeout(120_000)
        page.goto(f"{address}page/index.html")
        return found

    yield opened
    assert {request.method for request in sent} <= {"GET"}
    assert [
        request.url
        for request in sent
        if not request.url.startswith((address, "blob:", "about:", "data:"))
    ] == []
    page.close()
    server.shutdown()
    server.server_close()


def give(visit: Visit, model: Path) -> str:
    """Choose a file when the page is ready; returns what the page then says."""
    visit.page.wait_for_selector("#file:not([disabled])")
    visit.page.set_input_files("#file", model)
    visit.page.wait_for_selector("#file:not([disabled])")
    said: str = visit.page.inner_text("#state")
    return said


def check_report(visit: Visit) -> None:
    """The report is drawn in its frame, and nothing went wrong on the page or in the frame."""
    frame = visit.page.frame_locator("#report")
    frame.locator("#before .node").first.wait_for()
    assert frame.locator("h1 .badge").inner_text() == "not compared"
    assert visit.errors == []


def test_the_page_with_a_stand_in(served: Served, tmp_path: Path) -> None:
    """The page, its worker, Pyodide and the report are the real ones.

    Xoptim is two modules that need no numpy.
    """
    pytest.importorskip("igraph")
    run_like_pyodide(MODEL, tmp_path)
    (tmp_path / "wheels").mkdir()
    with zipfile.ZipFile(tmp_path / "wheels" / "stand_in-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in {
            **STAND_IN,
            "xoptim/report.html": (tmp_path / "report").read_text(encoding="utf-8"),
        }.items():
            wheel.writestr(name, text)
        wheel.writestr(
            "stand_in-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\n",
        )
        wheel.writestr("stand_in-1.0.dist-info/RECORD", "")
        wheel.writestr("stand_in-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
    (tmp_path / "a.onnx").write_bytes(b"model and more")
    (tmp_path / "b.onnx").write_bytes(b"other")
    visit = served(tmp_path / "wheels", [])
    assert "Without proof" in visit.page.inner_text("#unproved")
    assert give(visit, tmp_path / "a.onnx") == "nodes 14 → 5, bytes 14 → 5, not compared"
    check_report(visit)
    with visit.page.expect_download() as download:
        visit.page.click("#result")
    assert download.value.suggested_filename == "a.opt.onnx"
    assert Path(download.value.path()).read_bytes() == b"model"
    assert give(visit, tmp_path / "b.onnx") == "not a model"
    assert visit.page.is_hidden("#result")
    assert visit.page.is_hidden("#report")


def test_packages_that_are_missing_are_named(served: Served, tmp_path: Path) -> None:
    visit = served(tmp_path, [])
    visit.page.wait_for_selector("#state.error")
    assert "ModuleNotFoundError" in visit.page.inner_text("#state")
    assert visit.page.is_disabled("#file")


def test_the_whole_page(served: Served, tmp_path: Path) -> None:
    absent = missing(PYODIDE) if (PYODIDE / "pyodide-lock.json").exists() else ["Pyodide"]
    if absent:
        pytest.skip(f"{', '.join(absent)}: not at hand")
    visit = served(PYODIDE / "wheels", site().NAMES)
    assert give(visit, MODEL).endswith("not compared")
    check_report(visit)
    with visit.page.expect_download() as download:
        visit.page.click("#result")
    onnx_file = tmp_path / "result.onnx"
    onnx_file.write_bytes(Path(download.value.path()).read_bytes())
    assert xoptim.verify(MODEL, onnx_file).ok
