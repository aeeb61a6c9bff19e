"""The types of ``g.op``: current, and checked by mypy."""

import ast
import re
from pathlib import Path

import onnx
import pytest
from mypy import api

from tests.meta.sources import ROOT, with_mypy
from xoptim.scaffold.stubs import TARGET, main, stub

CODE = """
from xoptim import EasyPatternOptimization, GraphBuilder
from xoptim.match import PatternBuilder, PatternRewriter, Symbol


class ExamplePattern(EasyPatternOptimization):
    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol) -> Symbol:
        a, b = g.op.Split(x, axis=g.capture("axis"), outputs=2)
        y = g.op.Concat(g.op.Unsqueeze(a, axes=[1]), b, g.variadic("rest"), axis=lambda v: v > 0)
        y = g.op.Add(y, a, b, associative=True)
        y = g.op.FastGelu(y, domain="com.microsoft", anything=1)
        y = g.op.Gelu(y, domain="acme", anything=1)
        y = g.op.Softmax(y, axes=1)  # error: "Softmax"
        y = g.op.Transpose(y, perm=[1, 0], prem=[0, 1])  # error: "Transpose"
        return g.op.Gemm(y, w, transA=g.any_of(0, 1), transB=1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        low, high = g.op.Split(x, split=[1, 2], axis=0, outputs=2)
        g.op.Softmax(low, axis="last")  # error: "Softmax"
        return g.op.Gemm(low, high, alpha=2.0)


builder = GraphBuilder(21)
reveal_type(builder.op.ReduceMean("x", axes=[1], keepdims=0))  # reveals: str
builder.op.ReduceMean("x", axis=[1])  # error: "ReduceMean"
"""


def test_it_is_python() -> None:
    """Every operator is a method of both classes, with texts and without."""
    names = {schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain}
    for texts in (False, True):
        tree = ast.parse(stub(texts))
        *classes, both = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}
        assert bases == {"PatternOps": ["_Pattern"], "BuilderOps": ["_Builder"]}
        for base in ("_Pattern", "_Builder"):
            assert names <= {
                node.name
                for node in both.body
                if isinstance(node, ast.FunctionDef) and f"self: {base}," in ast.unparse(node)
            }
    assert "- ``axis``: int = -1" in stub()
    assert len(stub(texts=True)) > 2 * len(stub())


def test_it_is_current() -> None:
    written = re.search(
        r"operators of onnx (\S+)\. Do not edit", TARGET.read_text(encoding="utf-8")
    )
    assert written is not None
    if written[1] != onnx.__version__:
        pytest.skip(f"written with onnx {written[1]}, here is {onnx.__version__}")
    assert main(["--check"]) == 0, "run `make docs`"


@with_mypy
@pytest.mark.slow
def test_mypy(tmp_path: Path) -> None:
    """Each line has the error that its comment announces, and no other line has one."""
    source = tmp_path / "uses_the_stub.py"
    source.write_text(CODE)
    out, err, _ = api.run(
        ["--config-file", str(ROOT / "pyproject.toml"), "--no-pretty", str(source)]
    )
    assert not err
    found = re.findall(rf"{source.name}:(\d+): (error|note): (.*)$", out, re.MULTILINE)
    lines = CODE.splitlines()
    wanted = {
        number: line.rpartition("# error: ")[2]
        for number, line in enumerate(lines, 1)
        if "# error: " in line
    }
    errors = {int(number): text for number, kind, text in reversed(found) if kind == "error"}
    assert errors.keys() == wanted.keys(), out
    for number, name in wanted.items():
        assert name in errors[number]
    assert 'Revealed type is "str"' in out or 'Revealed type is "builtins.str"' in out
