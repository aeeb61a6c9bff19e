"""Statements of a model next to its nodes: defaults of inputs, annotations, shapes of results,
functions that hide operators.
"""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support import load, node_of, parse, replace, run, types, verify
from xoptim import GraphBuilder, optimize
from xoptim.facts.errors import RewriteError
from xoptim.graph.edit import Edit
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor

FLOAT = TensorProto.FLOAT


def declare(model: onnx.ModelProto, **shapes: list[int]) -> onnx.ModelProto:
    """Add declarations of float results."""
    model.graph.value_info.extend(
        helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in shapes.items()
    )
    return model


# -------------------------------------------------------------- defaults that a caller may override

RESHAPED = """agraph (float[n,4] x, int64[2] s, bool c) => (y) <int64[2] s = {2, 8}> {
    t = Reshape (x, s)
    u = If (c) <
        then_branch = yes () => (float[2,8] p) { r = test.Op (t) p = Neg (r) },
        else_branch = no () => (float[2,8] q) { q = Abs (t) }
    >
    v = test.Op (x)
    y = Add (u, v)
}"""


def test_shapes_that_follow_from_a_default_are_not_believed() -> None:
    proto = declare(parse(RESHAPED, domains={"test": 1}), t=[2, 8], u=[2, 8], v=[2, 8])
    branch = next(a.g for a in proto.graph.node[1].attribute if a.name == "then_branch")
    branch.value_info.append(helper.make_tensor_value_info("r", FLOAT, [2, 8]))
    graph = load_model(proto).graph
    assert graph.overridable == {"s"}
    for name in "tu":
        assert graph.info_of(name).dtype == FLOAT, "its type does not depend on it"
        assert not any(isinstance(dim, int) for dim in graph.info_of(name).shape or ())
    inner = node_of(graph, "If").bodies["then_branch"]
    assert inner.info_of("r").shape is None
    assert graph.info_of("v").static_shape == (2, 8), "the caller has no influence on it"
    proto.graph.input.remove(proto.graph.input[1])
    assert load_model(proto).graph.info_of("t").static_shape == (2, 8), "a constant"


@pytest.mark.parametrize("shape", [["n", 2], None])
def test_sizes_of_a_default_are_not_those_that_a_caller_feeds(
    shape: list[str | int] | None,
) -> None:
    model = parse("agraph (float[n,2] x) => (int64[m] y) <float[1,2] x = {1, 2}> { y = Shape(x) }")
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", FLOAT, shape))
    feeds = {"x": np.ones((3, 2), np.float32)}
    (expected,), (actual,) = (run(m, feeds) for m in (model, optimize(model)))
    assert expected.tolist() == actual.tolist() == [3, 2]


def test_new_nodes_depend_on_the_caller_as_well() -> None:
    model = load(RESHAPED, domains={"test": 1})
    graph = model.graph
    reshape = node_of(graph, "Reshape")
    replace(graph, [reshape], [Node("Identity", ["s"], ["k"]), Node("Reshape", ["x", "k"], ["t"])])
    assert [graph.depends_on_caller(name) for name in ("s", "k", "t", "u", "x", "v")] == [
        True,
        True,
        True,
        True,
        False,
        False,
    ]
    verify(model)


OVERRIDDEN = [
    "t = Slice (x, zero, k) y = Neg (t)",
    "t = Expand (x, k) y = Add (t, x)",
    "e = Expand (x, k) t = Add (e, x) y = Neg (t)",
    "t = Tile (x, k) y = Tile (t, one)",
]


@pytest.mark.parametrize("nodes", OVERRIDDEN)
def test_other_values_than_the_defaults(nodes: str) -> None:
    """With the shapes written down that the defaults lead to, as exporters do."""
    stored = "<int64[1] k = {3}, int64[1] zero = {0}, int64[1] one = {1}>"
    proto = parse(f"agraph (float[3] x, int64[1] k) => (y) {stored} {{ {nodes} }}")
    for node in proto.graph.node:
        size = 9 if "Tile" in nodes else 3
        declare(proto, **{node.output[0]: [size]})
    after = optimize(proto)
    x = np.array([1, -2, 3], np.float32)
    for feeds in ({"x": x}, {"x": x, "k": np.array([1])}):
        np.testing.assert_array_equal(run(after, feeds)[0], run(proto, feeds)[0])


# -------------------------------------------------------------------- annotations


def annotated(*tensors: str) -> onnx.ModelProto:
    """Two equal sums.

    The second one, and its operand, are quantized by scales that equal others.
    """
    proto = parse(
        "agraph (float[4] x) => (float[4] y) <float[4] a = {1,2,3,4}, float[4] b = {1,2,3,4}, "
        "float s = {1}, float s2 = {1}, uint8 z = {0}> { t = Add (x, a) u = Add (x, b) "
        "m = Mul (t, u) y = Mul (m, s) }"
    )
    for name in tensors:
        annotation = proto.graph.quantization_annotation.add(tensor_name=name)
        annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s2")
        annotation.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="z")
    return proto


def test_annotations_keep_what_they_name_and_follow_their_values() -> None:
    after = optimize(annotated("u", "b"), patterns=None)
    assert [node.op_type for node in after.graph.node] == ["Add", "Mul", "Mul"]
    assert {tensor.name for tensor in after.graph.initializer} >= {"a", "s2", "z"}
    found = {each.tensor_name: each for each in after.graph.quantization_annotation}
    assert sorted(found) == ["a", "t"], "of what was merged into these"
    assert [entry.value for entry in found["t"].quant_parameter_tensor_names] == ["s2", "z"]
    onnx.checker.check_model(after)


def test_an_annotation_of_what_is_gone_goes() -> None:
    after = optimize(annotated("m"), patterns=None)
    assert [each.tensor_name for each in after.graph.quantization_annotation] == ["m"]
    proto = parse("agraph (float[4] x) => (float[4] y) { a = Neg (x) b = Neg (a) y = Abs (b) }")
    proto.graph.quantization_annotation.add(tensor_name="a")
    assert not optimize(proto).graph.quantization_annotation


# -------------------------------------------------------------------- shapes of results


def test_declarations_of_what_remains_survive() -> None:
    proto = parse(
        "agraph (float[4] x) => (float[4] y) { t = Neg (x) u = Exp (t) i = Identity (u) "
        "w = Log (i) y = Abs (w) }"
    )
    declare(proto, t=[4], u=[4], i=[4], w=[4])
    for version in (3, 10):
        proto.ir_version = version
        after = optimize(proto)
        assert types(after) == ["Neg", "Exp", "Log", "Abs"]
        assert [(v.name, v.type) for v in after.graph.value_info] == [
            (v.name, v.type) for v in proto.graph.value_info if v.name != "i"
        ]


# -------------------------------------------------------------------- functions

OWN = """agraph (float[4] x) => (float[4] y) <float[4] k = {1, 2, 3, 4}> {
    t = com.microsoft.Gelu (k)
    u = com.microsoft.Gelu (x)
    v = com.microsoft.Gelu (x)
    w = Add (u, v)
    y = Add (w, t)
}
<domain: "com.microsoft", opset_import: ["" : 18]>
Gelu (a) => (b) { c = Exp (a) d = Exp (a) b = Add (c, d) }"""


def test_a_function_that_is_called_like_an_operator_is_that_function() -> None:
    proto = parse(OWN, domains={"com.microsoft": 1})
    after = optimize(proto, patterns="default+onnxruntime")
    assert [(node.domain, node.op_type) for node in after.graph.node][:3] == [
        ("com.microsoft", "Gelu")
    ] * 3
    assert [o.domain for o in after.opset_import] == [o.domain for o in proto.opset_import]
    assert [node.op_type for node in after.functions[0].node] == ["Exp", "Add"]
    graph = load_model(proto).graph
    assert graph.info_of("u").rank is None, "the formula is that of another operator"
    assert types(optimize(proto, inline=True)) != types(after)


def test_nothing_new_takes_the_place_of_an_operator_that_is_hidden() -> None:
    builder = GraphBuilder(parse(OWN, domains={"com.microsoft": 1}))
    with pytest.raises(RewriteError, match="hides operator"):
        Edit(builder.graph).append(Node("Gelu", ["x"], ["new"], domain="com.microsoft"))
    builder.graph.add_initializer("one", Tensor.from_array(np.ones(1, np.float32)))
    verify(builder.model)
