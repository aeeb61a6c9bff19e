"""The wheel and the source distribution contain every module."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from tests.meta.sources import ROOT, with_mypy
from tests.share import is_whole
from xoptim.scaffold.new_pattern import write_pack

_BUILT = ("xoptim", "patterns", "cli", "pyproject.toml", "setup.py", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built from a copy, so that no files are left in the
    project.
    """
    folder = tmp_path_factory.mktemp("build")
    for name in _BUILT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(
                source, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(source, folder / name)
    out = folder / "dist"
    command = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--sdist",
        "--wheel",
        "--outdir",
        str(out),
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.slow
def test_wheel_has_every_module(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    wanted = {name if name.startswith("xoptim/") else f"xoptim/{name}" for name in _modules(built)}
    assert wanted - names == set()
    assert {"xoptim/py.typed", "xoptim/match/ops.pyi", "xoptim/schemas.json"} <= names
    assert {
        "xoptim/reporting/page.html",
        "xoptim/reporting/page.css",
        "xoptim/reporting/app.js",
    } <= names
    assert {"xoptim/scaffold/pattern.txt", "xoptim/scaffold/from_model.txt"} <= names
    assert wheel.name == f"xoptim-{_project()['version']}-py3-none-any.whl", (
        "nothing in it is compiled"
    )
    assert not [
        n
        for n in names
        if n.split("/")[0] not in ("xoptim",) and ".dist-info" not in n.split("/")[0]
    ]
    entries = next(n for n in names if n.endswith("entry_points.txt"))
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(entries).decode()
    assert {"xopt = xoptim.cli.start:main", "xoptim = xoptim.cli.start:main"} <= set(
        text.splitlines()
    )


@pytest.mark.slow
def test_the_wheel_is_small(built: Path) -> None:
    """It holds modules, data of modules and types, below 2.5 MB.

    Tests, models and pictures stay in the repository.
    """
    (wheel,) = built.glob("*.whl")
    assert wheel.stat().st_size < 2_500_000
    with zipfile.ZipFile(wheel) as archive:
        kinds = {Path(name).suffix for name in archive.namelist() if ".dist-info/" not in name}
    texts = {".md", ".html", ".css", ".js", ".json", ".toml", ".txt"}
    assert kinds == {*texts, ".py", ".pyi", ".typed"}


@pytest.mark.slow
def test_the_wheel_and_its_dependencies_are_enough(built: Path, tmp_path: Path) -> None:
    """In an environment without the packages of the tests, the command verifies what it writes,
    under each of its names.

    The dependencies, and what they need, are linked from this environment, so that nothing is
    downloaded.
    """
    (wheel,) = built.glob("*.whl")
    venv.create(tmp_path / "env", symlinks=os.name == "posix", with_pip=False)
    python = tmp_path / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(
        subprocess.run(
            [python, "-c", ask], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    for path in _contents({_name(each) for each in _project()["dependencies"]}):
        (packages / path.name).symlink_to(path)
    install = ["install", "--no-index", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), *install], check=True, timeout=300
    )
    model = shutil.copy(ROOT / "examples" / "models" / "tiny_bert.onnx", tmp_path)
    for name in ("xopt", "xoptim"):
        run = [python.parent / name, model, "--strict"]
        done = subprocess.run(
            run, capture_output=True, text=True, cwd=tmp_path, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "tiny_bert.opt.onnx").exists()
    missing = subprocess.run([python, "-c", "import pytest"], capture_output=True, check=False)
    assert missing.returncode, "the environment has no other packages"


@pytest.mark.slow
def test_source_distribution_has_every_module(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert _modules(built) - names == set()


@with_mypy
@pytest.mark.slow
@pytest.mark.skipif(not is_whole(), reason="make batteries checks an installed package by mypy")
def test_an_editable_installation_is_visible_to_type_checkers(built: Path, tmp_path: Path) -> None:
    """It is a plain path, below which all packages lie, for Python and for mypy.

    A pack of patterns passes strict types.
    """
    root = built.parent
    build = f"import setuptools.build_meta as s; s.build_editable({str(tmp_path)!r})"
    subprocess.run(
        [sys.executable, "-c", build], cwd=root, capture_output=True, timeout=300, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (
            archive.read(name).decode().strip()
            for name in archive.namelist()
            if name.endswith(".pth")
        )
        assert not [name for name in archive.namelist() if name.endswith(".py")], "no hook"
    assert path == str(root)
    (root / "patterns" / "later.py").write_text("LATER = 1\n")
    code = (
        "from xoptim.cli.main import main\n"
        "from xoptim.patterns.later import LATER\n"
        "LATER.nothing\n"
        "main(1)\n"
    )
    (tmp_path / "elsewhere.py").write_text(code)
    write_pack("AbsAbsPattern", tmp_path / "acme-patterns")
    options = ["--strict", "--config-file=", f"--cache-dir={tmp_path}", "--follow-imports=silent"]
    run = [
        sys.executable,
        "-m",
        "mypy",
        *options,
        "--python-executable",
        sys.executable,
        "elsewhere.py",
        "acme-patterns",
    ]
    try:
        done = subprocess.run(
            run,
            cwd=tmp_path,
            env={**os.environ, "MYPYPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        (root / "patterns" / "later.py").unlink()
    found = re.findall(r"(\S+):(\d+): error: .*\[(.*)\]", done.stdout)
    assert found == [
        ("elsewhere.py", "3", "attr-defined"),
        ("elsewhere.py", "4", "call-arg"),
    ], done.stdout


def _project() -> dict[str, Any]:
    content: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    return content


def _name(requirement: str) -> str:
    """The package that a requirement names.

    Empty when it is not one of this system, or of an extra.
    """
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    marker = requirement.partition(";")[2]
    return "" if "extra ==" in marker or "sys_platform" in marker else name[0]


def _contents(names: set[str]) -> set[Path]:
    """The files and folders, in the environment of this test, of some packages and of those that
    these need.
    """
    waiting, done, found = [*names], {""}, set[Path]()
    while waiting:
        name = waiting.pop()
        if name not in done:
            done.add(name)
            try:
                package = distribution(name)
            except PackageNotFoundError:  # other versions of Python need it
                continue
            tops = {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}
            found.update(Path(str(package.locate_file(top))) for top in tops)
            waiting += map(_name, package.requires or ())
    return found


def _modules(built: Path) -> set[str]:
    """The modules of the copy that was built, relative to its root."""
    root = built.parent
    files = [
        path for folder in ("xoptim", "patterns", "cli") for path in (root / folder).rglob("*.py")
    ]
    assert len(files) > 100
    return {path.relative_to(root).as_posix() for path in files}
