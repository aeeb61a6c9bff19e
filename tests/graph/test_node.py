from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, helper, numpy_helper

from tests.support import load, node_of, parse, run
from xoptim.facts.attributes import AttributeReference
from xoptim.facts.shapes import Info
from xoptim.graph.node import Node


def test_attributes_are_decoded() -> None:
    proto = helper.make_node(
        "Op",
        ["x", ""],
        ["y"],
        domain="d",
        i=3,
        f=0.5,
        s="text",
        ints=[1, 2],
        floats=[0.5],
        strings=["a", "b"],
    )
    proto.attribute.append(helper.make_attribute("raw", b"\xff\xfe"))
    proto.attribute.append(helper.make_attribute("t", numpy_helper.from_array(np.arange(3))))
    node = Node.from_proto(proto)
    assert (node.op_type, node.domain, node.input, node.output) == ("Op", "d", ("x", ""), ("y",))
    found = dict(node.attribute)
    assert found.pop("t").dims == [3]
    assert found == {
        "i": 3, "f": 0.5, "s": "text", "ints": [1, 2], "floats": [0.5], "strings": ["a", "b"],
        "raw": b"\xff\xfe",
    }  # fmt: skip
    assert node.attribute is node.attribute
    assert node.to_proto() == proto


def test_the_standard_domain_has_two_names() -> None:
    proto = helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    node = Node.from_proto(proto)
    assert node.domain == ""
    assert node.to_proto().domain == "ai.onnx", "what nothing touches is written as it was"
    assert Node("Relu", ["x"], ["y"], domain="ai.onnx").to_proto().domain == ""


REDUCTIONS = (
    "ReduceMax <keepdims = {}> (x)",
    "ReduceSum <keepdims = {}> (x, k)",
    "ArgMin <keepdims = {}> (x)",
)


@pytest.mark.parametrize(("kept", "expected"), [(0, 0), (1, 1), (2, 0), (-1, 0)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_axes_are_kept_where_the_attribute_is_1(reduction: str, kept: int, expected: int) -> None:
    """As onnxruntime does it: the standard says nothing of other numbers."""
    text = f"agraph (float[3,2] x) => (y) <int64[1] k = {{0}}> {{ y = {reduction.format(kept)} }}"
    model = load(text)
    (node,) = model.graph.nodes
    assert node.get_attribute("keepdims") == expected
    (found,) = run(parse(text), {"x": np.ones((3, 2), np.float32)})
    assert model.graph.info_of("y").static_shape == found.shape


def test_references_to_attributes_of_a_function() -> None:
    model = load(
        "agraph (float[n] x) => (float[n] y) { "
        'y = l.f <a = 0.5> (x) } <domain: "l", opset_import: ["" : 18]> f <a> (x) => (y) { '
        "y = Elu <alpha: float = @a> (x) }",
        domains={"l": 1},
    )
    node = node_of(model.functions[0].body, "Elu")
    reference = AttributeReference("a", AttributeProto.FLOAT)
    assert node.attribute == {"alpha": reference}
    assert node.get_attribute("alpha") == reference, "not the default: the caller decides"
    written = Node("Elu", ["x"], ["y"], {"alpha": reference}).to_proto()
    assert written.attribute[0].ref_attr_name == "a"
    assert written.attribute[0].type == AttributeProto.FLOAT


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("y = Transpose(x)", "perm", [2, 1, 0]),
        ("y = Transpose <perm = [0, 2, 1]> (x)", "perm", [0, 2, 1]),
        ("y = Transpose(u)", "perm", None),
        ("y = LeakyRelu(x)", "alpha", 0.01),
        ("y = Softmax(x)", "axis", -1),
        ("y = Concat <axis = 0> (x, x)", "axis", 0),
        ("y = MaxPool <kernel_shape = [3]> (x)", "strides", [1]),
        ("y = MaxPool <kernel_shape = [3, 3]> (u)", "pads", [0, 0, 0, 0]),
        ("y = Relu(x)", "nothing", None),
    ],
)
def test_defaults(text: str, name: str, expected: Any) -> None:
    model = load(f"agraph (float[a,b,c] x, float u) => (y) {{ {text} }}")
    model.graph.learn("u", Info(onnx.TensorProto.FLOAT))
    node = next(iter(model.graph.nodes))
    value = node.get_attribute(name)
    assert value == (pytest.approx(expected) if isinstance(expected, float) else expected)
    if expected is None:
        assert node.get_attribute(name, "mine") == "mine"


def test_defaults_depend_on_the_operator_set() -> None:
    text = "agraph (float[a,b] x) => (y) { y = Softmax(x) }"
    assert node_of(load(text, 11), "Softmax").get_attribute("axis") == 1
    assert node_of(load(text, 13), "Softmax").get_attribute("axis") == -1
    assert node_of(load(text, 13), "Softmax").opset == 13
    assert Node("Softmax", ["x"], ["y"]).opset == 0


def test_same_attributes() -> None:
    def node(**attributes: Any) -> Node:
        return Node.from_proto(helper.make_node("Op", ["x"], ["y"], **attributes))

    tensor = numpy_helper.from_array(np.ones(3))
    assert node(a=1, b=[1, 2], t=tensor).same_attributes(node(t=tensor, b=[1, 2], a=1))
    assert node(f=0.1).same_attributes(Node("Op", ["x"], ["y"], {"f": 0.1})), (
        "compared as 32-bit numbers"
    )
    assert not node(a=1).same_attributes(node(a=2))
    assert not node(a=1).same_attributes(node())
    assert not node(a=1).same_attributes(node(b=1))
    assert not node(t=tensor).same_attributes(node(t=numpy_helper.from_array(np.zeros(3))))
    assert not node(a="1").same_attributes(node(a=1))


def test_new_nodes_are_written() -> None:
    node = Node(
        "Op",
        ["x"],
        ["y"],
        {"i": 1, "v": np.ones(2, np.float32)},
        domain="d",
        name="n",
        overload="o",
        doc_string="why",
    )
    node.metadata = {"k": "v"}
    proto = node.to_proto()
    assert (proto.domain, proto.name, proto.overload, proto.doc_string) == ("d", "n", "o", "why")
    assert {a.name: a.type for a in proto.attribute} == {
        "i": AttributeProto.INT,
        "v": AttributeProto.TENSOR,
    }
    assert [(p.key, p.value) for p in proto.metadata_props] == [("k", "v")]
    assert repr(node) == "y = d::Op(x)"


def test_metadata_is_added_to_what_the_node_has() -> None:
    proto = onnx.NodeProto(op_type="Relu", input=["x"], output=["y"])
    proto.metadata_props.add(key="a", value="1")
    node = Node.from_proto(proto)
    node.metadata = {"b": "2"}
    assert node.metadata_props() == {"a": "1", "b": "2"}
    assert [(p.key, p.value) for p in node.to_proto().metadata_props] == [("a", "1"), ("b", "2")]
    node.metadata = {"a": "3"}
    assert [(p.key, p.value) for p in node.to_proto().metadata_props] == [("a", "3")]
    assert len(proto.metadata_props) == 1, "the protobuf that was given is not modified"


def test_changed_inputs_are_written_over_the_protobuf() -> None:
    proto = helper.make_node("Add", ["a", "b"], ["c"], name="n", doc_string="keep me")
    node = Node.from_proto(proto)
    node.input = ("a", "z")
    written = node.to_proto()
    assert (list(written.input), written.name, written.doc_string) == (["a", "z"], "n", "keep me")
    assert list(proto.input) == ["a", "b"]
