"""The scripts in ``examples`` run, and the pattern pack next to them is found, checked and used."""

import logging
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.meta.sources import ROOT
from tests.support import parse
from xoptim import Rewrite, optimize
from xoptim.catalogue.discovery import refresh
from xoptim.catalogue.selection import resolve
from xoptim.testing import check_example, check_near_misses

EXAMPLES = ROOT / "examples"
PACK = EXAMPLES / "pack"
NEEDS = {
    "export_from_torch": ("torch", "onnxscript"),
    "recurrence_from_torch": ("torch", "onnxscript"),
    "statistics_with_pandas": ("pandas",),
}
SAYS = {
    "circuit": "10601 nodes became 91",
    "chains": "ShatterLogSoftmax at LogSoftmax",
    "declare_a_pattern": "Abs(e) -> m",
    "explain_refusals": "mostly refused at ",
    "export_from_torch": "Gemm(",
    "optimize_a_model": "181 nodes became ",
    "recurrence_from_torch": "com.microsoft.LinearAttention(reshape_out",
    "rewrite_by_text": "Mul Mul Mul MatMul Mul Mul Add",
    "simplify_in_three_ways": "Simplify: Div(Mul(x, y), y) → x",
    "statistics_with_pandas": "instances",
    "verify_two_models": "equal: 1 output in 2 runs",
    "write_a_pattern_by_hand": "Exp(z) -> y",
}
"""A part of the output of each script."""


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    logger = logging.getLogger("xoptim")
    level, handlers = logger.level, list(logger.handlers)
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


def _scripts() -> Iterator[Any]:
    for path in sorted(EXAMPLES.glob("*.py")):
        # torch's exporter warns about its own use of torch
        marks = (
            [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]
            if "torch" in path.stem
            else []
        )
        marks += [pytest.mark.slow] if path.stem == "circuit" else []
        yield pytest.param(path, id=path.stem, marks=marks)


@pytest.mark.parametrize("path", list(_scripts()))
def test_script(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in NEEDS.get(path.stem, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path), run_name="__main__")
    assert SAYS[path.stem] in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")


def test_nothing_else_is_there() -> None:
    """Every script is tested."""
    names = {path.name for path in EXAMPLES.iterdir() if path.name != "__pycache__"}
    assert names == {"models", "pack", "pipelines", "rules", *(f"{name}.py" for name in SAYS)}


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Rewrite]]:
    """The pattern of the pack, installed as by pip: its metadata is in a folder where packages are
    searched.
    """
    project = tomllib.loads((PACK / "pyproject.toml").read_text(encoding="utf-8"))
    name, version = project["project"]["name"], project["project"]["version"]
    info = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = project["project"]["entry-points"]
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{k} = {v}" for k, v in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(PACK), *sys.path])
    modules = set(sys.modules)
    refresh()
    (pattern,) = resolve("acme")
    yield pattern
    refresh()
    for module in [
        module
        for module in sys.modules
        if module not in modules and module.startswith("acme_patterns")
    ]:
        del sys.modules[module]


def test_the_pack_is_found_and_used(pack: type[Rewrite]) -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Cos(t) y = Exp(u) }")
    result = optimize(model, patterns="default+acme")
    assert [node.op_type for node in result.graph.node] == ["Cos", "Exp"]
    assert len(optimize(model).graph.node) == 3
    assert len(optimize(model, patterns="default+acme", drop=(pack.name(),)).graph.node) == 3


def test_the_pack_is_proved(pack: type[Rewrite]) -> None:
    for example in pack.examples:
        check_example(pack, example)
        assert check_near_misses(pack, example)["fired"]
