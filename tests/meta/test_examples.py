"""The scripts in ``examples`` run, and the pattern pack next to them is found, checked and used."""

import logging
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.meta.sources import ROOT
from tests.support import parse
from xoptim import Rewrite, optimize, resolve, use_operators
from xoptim.catalogue.discovery import refresh
from xoptim.cli.main import run
from xoptim.testing import check_pattern

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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed pack: what the wheel contains that is built from it."""
    folder = tmp_path_factory.mktemp("pack")
    shutil.copytree(PACK, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    build = "import setuptools.build_meta as backend; backend.build_wheel('..')"
    subprocess.run(
        [sys.executable, "-c", build], cwd=folder / "source", capture_output=True, check=True
    )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def pack(
    site: Path, own_operators: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[type[Rewrite]]]:
    """The patterns of the installed pack."""
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    modules = set(sys.modules)
    refresh()
    yield resolve("acme")
    refresh()
    for module in [
        module
        for module in sys.modules
        if module not in modules and module.startswith("acme_patterns")
    ]:
        del sys.modules[module]


def test_the_pack_is_found_and_used(pack: list[type[Rewrite]]) -> None:
    assert [pattern.name() for pattern in pack] == ["LeakySquare", "NegCos"]
    model = parse("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Cos(t) y = Exp(u) }")
    result = optimize(model, patterns="default+acme")
    assert [node.op_type for node in result.graph.node] == ["Cos", "Exp"]
    assert len(optimize(model).graph.node) == 3
    assert len(optimize(model, patterns="default+acme", drop=("NegCos",)).graph.node) == 3


def test_the_pack_is_proved(pack: list[type[Rewrite]]) -> None:
    use_operators("acme")
    for pattern in pack:
        assert check_pattern(pattern)["fired"]


def test_the_types_of_an_operator_are_those_of_its_schema(pack: list[type[Rewrite]]) -> None:
    use_operators("acme")
    for kind, operators in (("float16", ["LeakySquare"]), ("double", ["LeakyRelu", "Mul"])):
        text = f"agraph ({kind}[n] x) => ({kind}[n] y) {{ t = LeakyRelu(x) y = Mul(t, t) }}"
        result = optimize(parse(text), patterns=["LeakySquare"], verify=True)
        assert [node.op_type for node in result.graph.node] == operators


@pytest.fixture
def custom_model(pack: list[type[Rewrite]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page about custom operators, next to the model and the values that it names."""
    monkeypatch.chdir(tmp_path)
    text = (
        "agraph (float[n,8] x, float[4,4] w) => (float[n,4] y) { g = acme.Glu(x) h = MatMul(g, w) "
        "t = LeakyRelu <alpha = 0.2> (h) u = Mul(t, t) v = Neg(u) y = Neg(v) }"
    )
    onnx.save(parse(text, domains={"acme": 1}, ir_version=9), "model.onnx")
    np.savez("inputs.npz", x=np.ones((2, 8), np.float32), w=np.ones((4, 4), np.float32))
    return (ROOT / "docs" / "custom-operators.md").read_text(encoding="utf-8")


def test_the_commands_about_custom_operators(
    custom_model: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["model.onnx", "-o", "without.onnx"]) == 3
    capsys.readouterr()
    blocks = re.findall(r"^```sh\n(.*?)^```", custom_model, re.DOTALL | re.MULTILINE)
    outputs = []
    for line in "".join(blocks).splitlines():
        assert run(shlex.split(line, comments=True)[1:]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        outputs.append(captured.out.splitlines())
    (shown,) = re.findall(r"^nodes .*?^written", custom_model, re.DOTALL | re.MULTILINE)
    lines = [line for line in shown.splitlines() if line.startswith(("nodes", "operators"))]
    assert len(lines) == 2
    assert set(lines) <= set(outputs[0])
    assert ["acme::Glu", "1", "0", "32"] in [line.split()[:4] for line in outputs[2]]
    types = {value.name: value.type for value in onnx.load("shapes.onnx").graph.value_info}
    sizes = types["g"].tensor_type.shape.dim
    assert (sizes[0].dim_param, sizes[1].dim_value) == ("n", 4)


def test_the_code_about_custom_operators(custom_model: str) -> None:
    """The page shows the pack, and its last two snippets run."""
    blocks = re.findall(r"^```\w+\n(.*?)^```", custom_model, re.DOTALL | re.MULTILINE)
    sources = [
        (PACK / name).read_text(encoding="utf-8")
        for name in ("acme_patterns/operators.py", "pyproject.toml")
    ]
    copied = [block for block in blocks if any(block in source for source in sources)]
    assert len(copied) == 5
    rest = [block for block in blocks if block not in copied and "import" in block]
    assert len(rest) == 2
    session: dict[str, Any] = {}
    for block in rest:
        exec(compile(block, "custom-operators.md", "exec"), session)
    assert session["dense"].operations(None, [(3, 8), (8, 5)], [(3, 5)]) == 2 * 3 * 8 * 5
