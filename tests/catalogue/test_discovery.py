"""Discovery of patterns: the built-in catalogue and packs of third parties."""

import importlib
import logging
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.support import parse, types
from xoptim import (
    EasyPatternOptimization,
    PatternOptimization,
    Query,
    Rewrite,
    database,
    installed_patterns,
    optimize,
    select,
)
from xoptim.catalogue import discovery
from xoptim.catalogue.discovery import BUILT_IN, GROUP, patterns_of
from xoptim.catalogue.entries import make_entry
from xoptim.catalogue.selection import resolve
from xoptim.cli.main import run

SINH = '''
from xoptim import EasyPatternOptimization


class {name}(EasyPatternOptimization):
    """Asinh(Sinh(x)) → x"""

    exactness = "rounding"

    def match_pattern(self, g, x):
        return g.op.Asinh(g.op.Sinh(x))

    def apply_pattern(self, g, x):
        return x
'''
MODEL = "agraph (float[n] x) => (float[n] y) { a = Sinh(x) b = Asinh(a) y = Relu(b) }"
AddPack = Callable[..., None]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in which packages are found; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    modules = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    discovery.refresh()
    yield folder
    discovery.refresh()
    for name in set(sys.modules) - modules:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def add_pack(site: Path) -> AddPack:
    """Install a pack by hand: its files, and what pip would write about it."""

    def add(name: str, files: dict[str, str], entry: str = "") -> None:
        for path, text in files.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {entry or name}\n")
        importlib.invalidate_caches()

    return add


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def builtin() -> dict[str, type[Rewrite]]:
    return {
        name: cls
        for name, cls in installed_patterns().items()
        if cls.__module__.startswith("xoptim.")
    }


# ---------------------------------------------------------------- the built-in catalogue


def test_the_catalogue() -> None:
    found = installed_patterns()
    assert list(found) == sorted(found)
    assert found is installed_patterns(), "looked up once"
    assert {"TransposeTranspose", "MatMulAdd"} <= found.keys() == builtin().keys()
    for name, cls in found.items():
        assert name == cls.name() == cls.__name__.removesuffix("Pattern")
        assert cls not in (PatternOptimization, EasyPatternOptimization)


def test_an_error_in_the_catalogue_is_not_hidden(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(module: object) -> list[type[PatternOptimization]]:
        raise ImportError("broken")

    monkeypatch.setattr(discovery, "patterns_of", broken)
    with pytest.raises(ImportError, match="broken"):
        installed_patterns()


# ---------------------------------------------------------------- packs


@pytest.mark.slow
def test_a_pack_that_pip_installs(site: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "acme_patterns").mkdir(parents=True)
    (source / "acme_patterns" / "__init__.py").write_text("")
    (source / "acme_patterns" / "sinh.py").write_text(SINH.format(name="AcmeSinhPattern"))
    (source / "pyproject.toml").write_text(
        "[build-system]\n"
        'requires = ["setuptools"]\n'
        'build-backend = "setuptools.build_meta"\n'
        "[project]\n"
        'name = "acme-patterns"\n'
        'version = "1.0"\n'
        f'[project.entry-points."{GROUP}"]\n'
        'acme = "acme_patterns"\n'
        "[tool.setuptools]\n"
        'packages = ["acme_patterns"]\n'
    )
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
    ]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--target", str(site), str(source)], check=True
    )
    importlib.invalidate_caches()
    assert installed_patterns()["AcmeSinh"].__module__ == "acme_patterns.sinh"
    assert types(optimize(parse(MODEL), strict=True)) == ["Sinh", "Asinh", "Relu"]
    assert types(optimize(parse(MODEL), patterns="default+acme")) == ["Relu"]
    assert types(optimize(parse(MODEL), patterns="all-acme")) == ["Sinh", "Asinh", "Relu"]
    # The words of the pack are words of the database, for queries and on the command line.
    assert types(optimize(parse(MODEL), patterns=Query(["acme"]))) == ["Relu"]
    assert types(optimize(parse(MODEL), patterns=Query(["fast_run"], exclude=["acme"]))) == [
        "Sinh",
        "Asinh",
        "Relu",
    ]
    assert [p.name() for p in database().query(Query(["all"], require=["acme", "rounding"]))] == [
        "AcmeSinh"
    ]
    model = tmp_path / "model.onnx"
    model.write_bytes(parse(MODEL).SerializeToString())
    assert run([str(model), "--patterns", "TransposeTranspose", "--include", "acme", "-q"]) == 0
    assert types(onnx.load(tmp_path / "model.opt.onnx")) == ["Relu"]
    assert run([str(model), "-q"]) == 0
    assert types(onnx.load(tmp_path / "model.opt.onnx")) == ["Sinh", "Asinh", "Relu"]


WHOLE = """
from xoptim.api.whole_model import GlobalRewriter


class WholePattern(GlobalRewriter):
    phase = "target"
"""


def test_a_pack_with_a_rewriter_of_whole_models(
    add_pack: AddPack, caplog: pytest.LogCaptureFixture
) -> None:
    add_pack("acme", {"acme.py": WHOLE + SINH.format(name="SinhPattern")})
    assert [p.name() for p in select(Query(["acme"]))] == ["Sinh", "Whole"]
    assert database()["Whole"] is select("Whole")[0] is select(installed_patterns()["Whole"])[0]
    assert warnings(caplog) == []


def test_a_module(add_pack: AddPack, caplog: pytest.LogCaptureFixture) -> None:
    add_pack("acme", {"acme.py": SINH.format(name="AcmeSinhPattern")})
    assert installed_patterns().keys() == builtin().keys() | {"AcmeSinh"}
    assert [cls.__name__ for cls in resolve("acme")] == ["AcmeSinhPattern"]
    for preset in ("default", "onnxruntime", "fast_run"):
        assert "AcmeSinh" not in {pattern.name() for pattern in select(preset)}
    assert "AcmeSinh" in {pattern.name() for pattern in select("all")}
    assert types(optimize(parse(MODEL), patterns="AcmeSinh", strict=True)) == ["Relu"]
    assert warnings(caplog) == []


@pytest.mark.parametrize("pack", ["default", "exact", "canonicalize"])
def test_the_name_of_a_pack_does_not_change_what_it_means(pack: str, add_pack: AddPack) -> None:
    before = {pattern.name() for pattern in select(pack)}
    discovery.refresh()
    source = SINH.format(name="AcmeSinhPattern")
    source = source.replace("    exactness", '    phase = "target"\n    exactness')
    add_pack(pack, {"acme.py": source}, entry="acme")
    assert "AcmeSinh" in {pattern.name() for pattern in select("all")}
    assert {pattern.name() for pattern in select(pack)} == before


@pytest.mark.parametrize(("domain", "presets"), [("acme", {"all"}), ("", {"default", "all"})])
def test_custom_operators_are_in_no_portable_preset(domain: str, presets: set[str]) -> None:
    class SinhFoldedPattern(EasyPatternOptimization):
        """Sinh(x) → acme.Sinh(x)"""

        produces = (domain,) if domain else ()

        def match_pattern(self, g: Any, x: Any) -> Any:
            return g.op.Sinh(x)

        def apply_pattern(self, g: Any, x: str) -> Any:
            return g.op.Sinh(x, domain="acme")

    words = make_entry("SinhFolded", SinhFoldedPattern).words
    assert words & {"default", "onnxruntime", "all"} == presets


def test_a_package_with_all_its_modules(
    add_pack: AddPack, caplog: pytest.LogCaptureFixture
) -> None:
    add_pack(
        "acme",
        {
            "acme/__init__.py": "from acme.first import FirstPattern",
            "acme/first.py": SINH.format(name="FirstPattern"),
            "acme/_help.py": SINH.format(name="_Base") + "\nclass Other: pass\n",
            "acme/deep/__init__.py": "",
            "acme/deep/second.py": (
                "from acme._help import _Base\n"
                "from xoptim import PatternOptimization\n"
                "from xoptim.patterns.movement.movement_pair import "
                "TransposeTransposePattern\n"
                "class SecondPattern(_Base): '''A → B'''\n"
                "class Third(PatternOptimization): '''A → B'''\n"
            ),
        },
    )
    assert installed_patterns().keys() - builtin().keys() == {"First", "Second", "Third"}
    assert (
        installed_patterns()["TransposeTranspose"].__module__
        == "xoptim.patterns.movement.movement_pair"
    )
    assert warnings(caplog) == []
    assert [cls.__name__ for cls in patterns_of(importlib.import_module("acme.deep"))] == [
        "SecondPattern",
        "Third",
    ]


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        ({"broken.py": "import nothing_of_that_name"}, "broken"),
        ({"broken.py": "1 / 0"}, "broken"),
        ({"broken.py": "def ("}, "broken"),
        ({"broken.py": ""}, "broken:missing"),
        ({"other.py": ""}, "no_such_module"),
        (
            {
                "broken/__init__.py": SINH.format(name="HalfPattern"),
                "broken/bad.py": "raise ValueError('no')",
            },
            "broken",
        ),
    ],
)
def test_a_broken_pack_is_skipped(
    files: dict[str, str], entry: str, add_pack: AddPack, caplog: pytest.LogCaptureFixture
) -> None:
    add_pack("broken", files, entry)
    add_pack("sound", {"sound.py": SINH.format(name="SoundPattern")})
    assert installed_patterns().keys() - builtin().keys() == {"Sound"}
    (message,) = warnings(caplog)
    assert message.startswith("pattern pack 'broken' ")
    caplog.clear()
    assert "TransposeTranspose" in installed_patterns()
    assert warnings(caplog) == [], "said once"


@pytest.mark.parametrize("name", ["a_pack", "z_pack"])
def test_the_built_in_pattern_wins(
    name: str, add_pack: AddPack, caplog: pytest.LogCaptureFixture
) -> None:
    text = SINH.format(name="TransposeTransposePattern") + SINH.format(name="OwnPattern")
    add_pack(name, {f"{name}.py": text})
    assert (
        installed_patterns()["TransposeTranspose"].__module__
        == "xoptim.patterns.movement.movement_pair"
    )
    assert installed_patterns()["Own"].__module__ == name
    (message,) = warnings(caplog)
    assert re.match(f"pattern TransposeTranspose .*'{name}'", message)


def test_of_two_packs_the_first_wins(add_pack: AddPack, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("two", "one"):
        add_pack(name, {f"{name}.py": SINH.format(name="SamePattern")})
    assert installed_patterns()["Same"].__module__ == "one"
    expected = "pattern Same of pack 'two' is ignored: another pattern has that name"
    assert warnings(caplog) == [expected]


def test_a_pack_that_is_listed_twice(add_pack: AddPack, caplog: pytest.LogCaptureFixture) -> None:
    add_pack("acme", {"acme.py": SINH.format(name="AcmeSinhPattern")})
    add_pack("again", {}, "acme")
    assert "AcmeSinh" in installed_patterns()
    assert warnings(caplog) == []


@pytest.fixture
def refreshed() -> Iterator[None]:
    """Patterns are looked for again at the next call, and after the test."""
    discovery.refresh()
    yield
    discovery.refresh()


@pytest.mark.usefixtures("refreshed")
def test_the_catalogue_is_there_without_metadata_of_packages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xoptim.catalogue.discovery.entry_points", lambda group: [])
    assert {"TransposeTranspose", "Repeated", "ShapeArithmetic"} <= installed_patterns().keys()


@pytest.mark.usefixtures("refreshed")
def test_metadata_of_an_earlier_version_lists_nothing_twice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("xoptim.catalogue.discovery.entry_points", lambda group: [*BUILT_IN])
    assert discovery.packs() == [*BUILT_IN]
    assert installed_patterns()
    assert warnings(caplog) == []
