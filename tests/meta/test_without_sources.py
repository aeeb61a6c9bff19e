"""The command runs from compiled modules, as in frozen applications, and from an archive."""

import compileall
import shutil
import subprocess
import sys
import zipapp
from pathlib import Path

import pytest

from tests.meta.sources import ROOT

pytestmark = pytest.mark.slow

START = """
import sys
import xoptim
from importlib import metadata
metadata.Distribution.discover = lambda **_: iter(())  # as in frozen applications
from xoptim.cli.start import main
place = sys.argv.pop(1)
assert xoptim.__file__.startswith(place), xoptim.__file__
assert callable(xoptim.optimize)
main()
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a copy of the package."""
    folder = tmp_path / "copy"
    shutil.copytree(
        ROOT / "xoptim",
        folder / "xoptim",
        ignore=shutil.ignore_patterns("__pycache__", "cli", "patterns"),
    )
    for name in ("cli", "patterns"):
        shutil.copytree(
            ROOT / name,
            folder / "xoptim" / name,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    (folder / "__main__.py").write_text(START, encoding="utf-8")
    return folder


def assert_it_optimizes(program: Path, place: Path, folder: Path) -> None:
    """Run a program with the folder or archive of its modules first in the path."""
    model = ROOT / "examples" / "models" / "tiny_bert.onnx"
    done = subprocess.run(
        [sys.executable, str(program), str(place), str(model), "-o", "model.onnx"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=folder,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "verification  equal" in done.stdout
    assert "181 → " in done.stdout


def test_compiled_modules_only(package: Path, tmp_path: Path) -> None:
    assert compileall.compile_dir(package, quiet=1, legacy=True)
    for source in package.rglob("*.py"):
        source.unlink()
    assert_it_optimizes(package, package, tmp_path)


def test_an_archive(package: Path, tmp_path: Path) -> None:
    archive = tmp_path / "xopt.pyz"
    zipapp.create_archive(package, archive)
    assert_it_optimizes(archive, archive, tmp_path)
