import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, run
from xoptim.api.optimizing import optimize
from xoptim.graph.splice import inline_functions
from xoptim.optimizing.builder import GraphBuilder

TEXT = """agraph (bool c, float[2] x) => (float[2] y) <float[2] t = {1, 2}> {
  a = l.f <alpha = 0.5> (x)
  b = If (c) <then_branch = th () => (float[2] q) { q = l.f(a) },
    else_branch = e () => (float[2] q) { q = Neg(a) }>
  y = Add(b, t)
}
<domain: "l", opset_import: ["" : 18, "l" : 1]> f <alpha: float = 2.0> (u) => (v)
{ t = l.g(u) v = Elu <alpha: float = @alpha> (t) }
<domain: "l", opset_import: ["" : 18]> g (u) => (v) { t = Neg(u) v = Sub(t, u) }"""


@pytest.mark.parametrize("ir_version", [8, 10])
def test_inlined_models_compute_the_same(ir_version: int) -> None:
    proto = parse(TEXT, domains={"l": 1}, ir_version=ir_version)
    proto.metadata_props.add(key="k", value="v")
    proto.graph.doc_string = "kept"
    before = proto.SerializeToString(deterministic=True)
    inlined = inline_functions(proto)
    assert proto.SerializeToString(deterministic=True) == before
    assert not inlined.functions
    assert (inlined.metadata_props[0].value, inlined.graph.doc_string) == ("v", "kept")
    onnx.checker.check_model(inlined)
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": np.array([1, -2], np.float32)}
        np.testing.assert_array_equal(run(inlined, feeds)[0], run(proto, feeds)[0])


@pytest.mark.parametrize("taken", ["t__1", "t__2", "v__1"])
def test_names_of_weights_are_not_taken(taken: str) -> None:
    proto = parse(
        f"agraph (float[2] x) => (float[2] y) {{ a = l.f(x) b = l.f(a) y = Add(b, {taken}) }} "
        '<domain: "l", opset_import: ["" : 18]> f (u) => (v) { t = Neg(u) v = Exp(t) }',
        domains={"l": 1},
    )
    proto.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), taken))
    inlined = inline_functions(proto)
    onnx.checker.check_model(inlined)
    feeds = {"x": np.array([1, -2], np.float32)}
    np.testing.assert_array_equal(run(inlined, feeds)[0], run(proto, feeds)[0])


def test_inlining_is_offered_at_the_door() -> None:
    proto = parse(TEXT, domains={"l": 1})
    assert len(optimize(proto, patterns=None).functions) == 2
    assert not optimize(proto, patterns=None, inline=True).functions
    assert len(GraphBuilder(proto, inline=True).nodes) > len(GraphBuilder(proto).nodes)
    plain = parse("agraph (float[2] x) => (float[2] y) { y = Neg(x) }")
    assert optimize(plain, patterns=None, inline=True) == plain


_NORM = (
    '<ir_version: 9, opset_import: ["" : 18, "pkg.onnxscript.torch_lib" : 1, "blocks" : 1]> '
    "agraph (float[a] x) => (float y) { n = pkg.onnxscript.torch_lib.norm <ord = 2.0> (x) "
    "y = blocks.Twice(n) } "
    '<domain: "pkg.onnxscript.torch_lib", opset_import: ["" : 18]> norm <ord> (x) => (y) { '
    "o = Constant <value_float: float = @ord> () i = IsInf(o) "
    "y = If(i) <then_branch = most () => (p) { p = ReduceMax <keepdims = 0> (x) }, "
    "else_branch = root () => (q) { q = ReduceL2 <keepdims = 0> (x) }> } "
    '<domain: "blocks", opset_import: ["" : 18]> Twice (x) => (y) { y = Add(x, x) }'
)


def test_functions_of_torch_libraries_are_inlined_by_default() -> None:
    proto = onnx.parser.parse_model(_NORM)
    result = optimize(proto)
    assert [node.op_type for node in result.graph.node] == ["ReduceL2", "Twice"]
    assert [function.name for function in result.functions] == ["Twice"]
    feeds = {"x": np.array([3, 4], np.float32)}
    np.testing.assert_array_equal(run(result, feeds)[0], 10)


def test_libraries_that_cannot_be_inlined_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xoptim.graph.splice.EXPANSION_LIMIT", 2)
    assert [node.op_type for node in optimize(onnx.parser.parse_model(_NORM)).graph.node] == [
        "norm",
        "Twice",
    ]
