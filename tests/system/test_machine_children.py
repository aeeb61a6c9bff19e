"""Child processes do not run modules of the current folder, which may be a folder of downloaded
models.
"""

import ast
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests.cli.command import RELU
from tests.meta.sources import sources
from tests.support import parse
from xoptim.system.machine import start_python

NAMES = ("xoptim", "onnxruntime", "numpy", "onnx", "planted")
SCRIPT = Path(sys.executable).with_name("xopt")
MARKER = "was_imported"
PLANTED = f'open({MARKER!r}, "a").write(__name__); raise SystemExit(7)'
HARNESS = (
    "import onnx; from xoptim.testing.runtime import RUNTIME; "
    "assert not isinstance(RUNTIME.load(onnx.load('models/model.onnx')), str); RUNTIME.stop()"
)
IMPORT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import planted'])"
SPAWN = (
    "import importlib, multiprocessing; process = multiprocessing.get_context('spawn').Process("
    "target=importlib.import_module, args=('planted',)); process.start(); process.join()"
)


@pytest.fixture(autouse=True)
def _planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A current folder with modules of these names, which leave a mark, and a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    for name in NAMES:
        Path(f"{name}.py").write_text(PLANTED)
    Path("models").mkdir()
    onnx.save(parse(RELU), "models/model.onnx")


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "models/model.onnx", "models/model.onnx", "--seconds", "0.01"),
        pytest.param(("batch", "models", "-o", "out", "-j", "1"), marks=pytest.mark.slow),
        pytest.param(
            ("tune", "models/model.onnx", "-o", "tuned.onnx", "--budget", "0.1"),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ("models/model.onnx", "-o", "out.onnx", "--benchmark"), marks=pytest.mark.slow
        ),
    ],
    ids=lambda words: words[0],
)
def test_commands(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(SCRIPT), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not Path(MARKER).exists()


def test_the_harness() -> None:
    subprocess.run([sys.executable, "-P", "-c", HARNESS], check=True)
    assert not Path(MARKER).exists()


@pytest.mark.parametrize(
    "code", ["import planted", IMPORT, SPAWN], ids=["child", "child of a child", "spawned"]
)
def test_children_and_theirs(code: str) -> None:
    with start_python(code, stderr=subprocess.DEVNULL) as process:
        process.wait()
    assert not Path(MARKER).exists()


def test_a_path_of_the_user_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "my_patterns.py").write_text("print('found')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "mine"))
    with start_python("import my_patterns", stdout=subprocess.PIPE) as process:
        assert process.communicate()[0].strip() == b"found"


def test_one_helper_starts_them() -> None:
    users = {
        source.path
        for source in sources("xoptim", "cli", "patterns")
        for node in source.nodes
        if isinstance(node, ast.Attribute) and node.attr == "executable"
    }
    assert users == {"xoptim/system/machine.py"}
