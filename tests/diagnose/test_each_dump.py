from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.engine.rules import NegNegPattern, builder, chain, renaming
from tests.support import parse, run, types
from xoptim.engine.environment import DebugSettings
from xoptim.engine.options import OptimizationOptions
from xoptim.match import (
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
)
from xoptim.optimizing.builder import GraphBuilder


class BackwardsPattern(PatternOptimization):
    """Add(Mul(x, w), z) → the same with Sum, the matched nodes given last first."""

    anchors = ("Add",)

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        before = g.node_before(node.input[0])
        return self.none(node) if before is None else MatchResult(self, [node, before], self.apply)

    def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
        add, mul = nodes
        return [
            g.make_node("Mul", mul.input[::-1], mul.output),
            g.make_node("Sum", add.input, add.output),
        ]


def test_what_is_dumped_can_be_run(tmp_path: Path) -> None:
    text = (
        "agraph (float[2] x, float[2] z) => (float[2] y) <float[2] w = {3, 4}> { m = Mul(x, w) "
        "y = Add(m, z) }"
    )
    gr = builder(text, BackwardsPattern, DebugSettings(dump=tmp_path / "new" / "folder"))
    gr.optimize()
    folder = tmp_path / "new" / "folder"
    assert sorted(path.name for path in folder.iterdir()) == [
        "00000_Backwards.after.onnx", "00000_Backwards.before.onnx", "00000_Backwards.txt",
    ]  # fmt: skip
    before, after = (
        onnx.load(folder / f"00000_Backwards.{kind}.onnx") for kind in ("before", "after")
    )
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
        builder(
            chain("Neg", "Neg", "Exp", "Neg", "Neg"), patterns, DebugSettings(dump=tmp_path)
        ).optimize()
    names = sorted(path.name.split(".")[0] for path in tmp_path.glob("*.txt"))
    assert [name.split("_")[0] for name in names] == [f"{i:05d}" for i in range(6)]
    assert [name.split("_")[1] for name in names[:3]] == ["ExpToLog", "NegNeg", "NegNeg"]


def test_other_domains_are_imported(tmp_path: Path) -> None:
    class Gelu(renaming("Neg", "Gelu")):  # type: ignore[misc]
        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node("Gelu", nodes[0].input, nodes[0].output, domain="com.microsoft")]

    builder(chain("Neg"), Gelu, DebugSettings(dump=tmp_path)).optimize()
    after = onnx.load(next(tmp_path.glob("*.after.onnx")))
    assert "com.microsoft" in {o.domain for o in after.opset_import}
    run(after, {"t0": np.ones((1, 3), np.float32)})


def _dumped(folder: Path, stem: str = "*") -> tuple[onnx.ModelProto, onnx.ModelProto]:
    before, after = (
        onnx.load(next(folder.glob(f"{stem}.{kind}.onnx"))) for kind in ("before", "after")
    )
    for model in (before, after):
        onnx.checker.check_model(model, full_check=True)
    return before, after


def _dump(folder: Path, model: str | onnx.ModelProto, patterns: Any, **options: Any) -> None:
    proto = parse(model) if isinstance(model, str) else model
    debug = DebugSettings(dump=folder)
    chosen = OptimizationOptions(patterns=patterns, debug=debug, strict=True, **options)
    GraphBuilder(proto, optimization_options=chosen).optimize()


def _inputs(model: onnx.ModelProto) -> list[str]:
    return [value.name for value in model.graph.input]


def test_the_models_say_what_they_are(tmp_path: Path) -> None:
    _dump(
        tmp_path,
        "agraph (float[a,b] x) => (float[a,b] y) { t = Neg(x) u = Neg(t) y = Exp(u) }",
        NegNegPattern,
    )
    for model in _dumped(tmp_path):
        told = {entry.key: entry.value for entry in model.metadata_props}
        assert told == {"xoptim.pattern": "NegNeg", "xoptim.exactness": "exact"}
        (given,) = model.graph.input
        assert [dim.dim_param for dim in given.type.tensor_type.shape.dim] == ["a", "b"]
        assert [value.name for value in model.graph.output] == ["u"]


def test_models_in_16_bits_are_never_exact(tmp_path: Path) -> None:
    _dump(
        tmp_path,
        "agraph (float16[a] x) => (float16[a] y) { t = Neg(x) u = Neg(t) y = Exp(u) }",
        NegNegPattern,
    )
    assert {entry.value for entry in _dumped(tmp_path)[0].metadata_props} == {"NegNeg", "rounding"}


def test_results_that_stay_are_outputs(tmp_path: Path) -> None:
    text = (
        "agraph (float[a] x) => (float[a] y, float[a] z) { t = Relu(x) u = Relu(t) y = Neg(u) "
        "z = Exp(t) }"
    )

    class Both(PatternOptimization):
        """Relu(Relu(x)) → Relu(x), and the first one stays"""

        anchors = ("Relu",)

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            before = g.node_before(node.input[0])
            return (
                MatchResult(self, [before, node], self.apply)
                if before is not None
                else self.none(node)
            )

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [g.make_node("Max", [nodes[0].output[0]], nodes[1].output), nodes[0]]

    _dump(tmp_path, text, Both)
    before, after = _dumped(tmp_path)
    assert [value.name for value in before.graph.output] == ["t", "u"]
    assert (types(before), types(after)) == (["Relu", "Relu"], ["Relu", "Max"])


def test_sizes_are_computed_inside(tmp_path: Path) -> None:
    text = (
        "agraph (float[a,b,12] x) => (float[c,d,e,f] y) <int64 i = {0}, int64 j = {1}, "
        "int64[1] k = {0}, int64[1] n = {3}, int64[1] m = {4}> { s = Shape(x) p = Gather(s, i) "
        "q = Gather(s, j) g = Unsqueeze(p, k) h = Unsqueeze(q, k) "
        "t = Concat <axis = 0> (g, h, n, m) y = Reshape(x, t) }"
    )
    _dump(tmp_path, text, "ShapeBasedReshape")
    before, after = _dumped(tmp_path)
    assert types(before)[-2:] == ["Concat", "Reshape"]
    assert (_inputs(before), _inputs(after)) == (["x"], ["x"])


def test_what_lies_between_is_there(tmp_path: Path) -> None:
    text = (
        "agraph (float[a,2] x, float[a,3] z) "
        "=> (float[a,3] y) <int64[1] s = {2}, int64[1] e = {5}, int64[1] k = {1}> { v = Relu(x) "
        "c = Concat <axis = -1> (v, z) p = Slice(c, s, e, k) y = Neg(p) }"
    )
    _dump(tmp_path, text, "ConcatSlice")
    before, _ = _dumped(tmp_path)
    # the replacement reads z, what was matched the Concat
    assert types(before) == ["Concat", "Slice"]
    assert _inputs(before) == ["v", "z"]


def test_open_dimensions_that_are_equal_stay_equal(tmp_path: Path) -> None:
    text = (
        "agraph (float[a,2] x) => (float[a,2] y) { r = Relu(x) t = Neg(r) u = Neg(t) y = Exp(u) }"
    )
    _dump(tmp_path, _open(text), NegNegPattern)
    before, _ = _dumped(tmp_path)
    names = {
        v.type.tensor_type.shape.dim[0].dim_param
        for v in (*before.graph.input, *before.graph.output)
    }
    assert names == {"unk__0"}


@pytest.mark.parametrize("name", ["unk__0", "?", "? + 1"])
def test_open_dimensions_have_names_of_their_own(tmp_path: Path, name: str) -> None:
    text = (
        "agraph (float[a,2] x, float[b,2] z) => (float[c,2] y) "
        "{ t = Concat <axis = 0> (x, z) y = Concat <axis = 0> (t, x) }"
    )
    model = _open(text)
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = name
    _dump(tmp_path, model, "ConcatConcat")
    before, _ = _dumped(tmp_path)
    x, z = (v.type.tensor_type.shape.dim[0].dim_param for v in before.graph.input)
    assert x != z
    assert {x, z} == {"unk__0", "unk__1"}


def _open(text: str) -> onnx.ModelProto:
    model = parse(text)
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].ClearField("dim_param")
    return model


def test_constants_that_are_made_of_large_ones(tmp_path: Path) -> None:
    proto = parse(
        "agraph (float[n,600] x) => (float[n,600] y) <float h = {0.5}> { t = MatMul(x, w) "
        "y = Mul(t, h) }"
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.eye(600, dtype=np.float32), "w"))
    _dump(tmp_path, proto, "MatMulMul")
    before, after = _dumped(tmp_path)
    assert _inputs(before) == _inputs(after) == ["x"]
    assert max(len(t.raw_data) for t in after.graph.initializer) == 4 * 600 * 600


def test_subgraphs(tmp_path: Path) -> None:
    class IfTwice(renaming("If", "If")):  # type: ignore[misc]
        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            if len(node.input) != 1 or (node.metadata or {}):
                return None
            return MatchResult(self, [node], self.apply)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            proto = nodes[0].to_proto()
            bodies: Any = {a.name: a.g for a in proto.attribute}
            return [g.make_node("If", nodes[0].input, nodes[0].output, **bodies)]

    text = (
        "agraph (bool c, float[a] x) => (float[a] y) { k = Neg(x) r = Abs(k) "
        "y = If (c) <then_branch = t () "
        "=> (float[a] u) { v = Neg(k) w = Neg(v) "
        "u = Exp(w) }, else_branch = e () => (float[a] z) { z = Exp(r) }> }"
    )
    _dump(tmp_path / "inner", text, NegNegPattern)
    before, after = _dumped(tmp_path / "inner")
    assert (_inputs(before), types(before), types(after)) == (["k"], ["Neg", "Neg"], ["Identity"])
    _dump(tmp_path / "outer", text, IfTwice, max_iter=1)
    before, after = _dumped(tmp_path / "outer")
    assert _inputs(before) == _inputs(after) == ["c", "k", "r"]
    assert types(before) == types(after) == ["If"]


def test_functions_that_are_called(tmp_path: Path) -> None:
    text = (
        "agraph (float[a] x) => (float[a] y) { t = local.f(x) "
        'y = Abs(t) } <domain: "local", opset_import: ["" : 18, "local" : 1]> f (p) => (q) { '
        'r = local.g(p) q = Neg(r) } <domain: "local", opset_import: ["" : 18]> g (p) => (q) { '
        'q = Exp(p) } <domain: "local", opset_import: ["" : 18]> h (p) => (q) { q = Exp(p) }'
    )

    class AbsFPattern(PatternOptimization):
        """Abs(f(x)) → Max(f(x)), which is wrong"""

        anchors = ("Abs",)

        def match(
            self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
        ) -> MatchResult | None:
            return MatchResult(self, [g.node_before(node.input[0]), node], self.apply)

        def apply(self, g: PatternRewriter, *nodes: Node) -> list[Node]:
            return [nodes[0], g.make_node("Max", nodes[1].input, nodes[1].output)]

    _dump(tmp_path, parse(text, domains={"local": 1}), AbsFPattern)
    before, after = _dumped(tmp_path)
    assert [f.name for f in before.functions] == [f.name for f in after.functions] == ["f", "g"]
    feeds = {"x": np.array([0.0], np.float32)}
    assert [run(model, feeds)[-1].item() for model in (before, after)] == [1, -1]


def test_numbers_go_on_in_a_folder_that_was_emptied(tmp_path: Path) -> None:
    for expected in (
        ["00000_NegNeg.txt"],
        ["00000_NegNeg.txt", "00001_NegNeg.txt"],
        ["00000_NegNeg.txt"],
    ):
        _dump(tmp_path / "d", chain("Neg", "Neg", "Exp"), NegNegPattern)
        assert sorted(path.name for path in (tmp_path / "d").glob("*.txt")) == expected
        if len(expected) == 2:
            for path in (tmp_path / "d").iterdir():
                path.unlink()
