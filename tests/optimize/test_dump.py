from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.optimize.rules import NegNegPattern, builder, chain, renaming
from tests.support import parse, run, types
from xoptim.builder import GraphBuilder
from xoptim.facts.errors import XoptimError
from xoptim.match import GraphBuilderPatternOptimization, MatchResult, Node, PatternOptimization, PatternRewriter
from xoptim.optimize.environment import DebugSettings
from xoptim.optimize.options import OptimizationOptions


class BackwardsPattern(PatternOptimization):
    """Add(Mul(x, w), z) → the same with Sum, the matched nodes given last first."""

    anchors = ("Add",)

    def match(self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        before = g.node_before(node.input[0])
        return self.none(node) if before is None else MatchResult(self, [node, before], self.apply)

    def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
        add, mul = nodes
        return [
            g.make_node("Mul", mul.input[::-1], mul.output),
            g.make_node("Sum", add.input, add.output),
        ]


def test_what_is_dumped_can_be_run(tmp_path: Path) -> None:
    text = "agraph (float[2] x, float[2] z) => (float[2] y) <float[2] w = {3, 4}> { m = Mul(x, w) y = Add(m, z) }"
    gr = builder(text, BackwardsPattern, DebugSettings(dump=tmp_path / "new" / "folder"))
    gr.optimize()
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == [
        "00000_Backwards.after.onnx", "00000_Backwards.before.onnx", "00000_Backwards.txt",
    ]  # fmt: skip
    before, after = (onnx.load(folder / f"00000_Backwards.{kind}.onnx") for kind in ("before", "after"))
    assert (types(before), types(after)) == (["Mul", "Add"], ["Mul", "Sum"])
    feeds = {"x": np.array([1, 2], np.float32), "z": np.array([5, 6], np.float32)}
    for model in (before, after):
        onnx.checker.check_model(model)
        assert [v.name for v in model.graph.input] == ["x", "z"]
        assert run(model, feeds)[-1].tolist() == [8, 14]
    report = (folder / "00000_Backwards.txt").read_text()
    assert "y = Add(m, z)" in report
    assert "y = Sum(m, z)" in report


def test_each_application_is_numbered_and_runs_do_not_overwrite_each_other(tmp_path: Path) -> None:
    for _ in range(2):
        patterns = [NegNegPattern, renaming("Exp", "Log")]
        builder(chain("Neg", "Neg", "Exp", "Neg", "Neg"), patterns, DebugSettings(dump=tmp_path)).optimize()
    names = sorted(path.name.split(".")[0] for path in tmp_path.glob("*.txt"))
    assert [name.split("_")[0] for name in names] == [f"{i:05d}" for i in range(6)]
    assert [name.split("_")[1] for name in names[:3]] == ["ExpToLog", "NegNeg", "NegNeg"]


def test_large_constants_become_inputs(tmp_path: Path) -> None:
    proto = parse("agraph (float[400000] x, float[400000] z) => (float[400000] y) { m = Mul(x, w) y = Add(m, z) }")
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(400_000, np.float32), "w"))
    options = OptimizationOptions(patterns=BackwardsPattern, debug=DebugSettings(dump=tmp_path))
    GraphBuilder(proto, optimization_options=options).optimize()
    before = onnx.load(next(tmp_path.glob("*.before.onnx")))
    assert {v.name for v in before.graph.input} == {"x", "z", "w"}
    assert not before.graph.initializer


def test_other_domains_are_imported(tmp_path: Path) -> None:
    class Gelu(renaming("Neg", "Gelu")):  # type: ignore[misc]
        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node("Gelu", nodes[0].input, nodes[0].output, domain="com.microsoft")]

    builder(chain("Neg"), Gelu, DebugSettings(dump=tmp_path)).optimize()
    after = onnx.load(next(tmp_path.glob("*.after.onnx")))
    assert "com.microsoft" in {o.domain for o in after.opset_import}
    run(after, {"t0": np.ones((1, 3), np.float32)})


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    gr = builder(chain("Neg", "Neg"), NegNegPattern, DebugSettings(dump=tmp_path / "file"))
    with pytest.raises(XoptimError, match=r"DUMPPATTERNS: cannot write into .*file"):
        gr.optimize()
