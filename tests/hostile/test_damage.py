"""Parts of a model that a checker would refuse."""

from collections.abc import Callable

import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper

from tests.cli.command import Xopt
from tests.hostile.cases import PLAIN, Case, Made, changed, check, not_verified, optimized, refused

WEIGHT = (
    "agraph (float[4] x) => (float[4] y) <float[4] w = {1,2,3,4}> { t = Identity(x) y = Add(t, w) }"
)
CONSTANT = (
    "agraph (float[4] x) => (float[4] y) { w = Constant <value = float[4] {1,2,3,4}> () "
    "t = Identity(x) y = Add(t, w) }"
)
NODES = PLAIN.format("t = Identity(x) y = Neg(t)")


def weight(change: Callable[[TensorProto], object]) -> Callable[[], Made]:
    return changed(WEIGHT, lambda model: change(model.graph.initializer[0]))


def constant(change: Callable[[TensorProto], object]) -> Callable[[], Made]:
    return changed(CONSTANT, lambda model: change(model.graph.node[0].attribute[0].t))


def node(change: Callable[[onnx.NodeProto], object]) -> Callable[[], Made]:
    return changed(NODES, lambda model: change(model.graph.node[1]))


def raw(content: bytes) -> Callable[[TensorProto], None]:
    def change(tensor: TensorProto) -> None:
        tensor.ClearField("float_data")
        tensor.raw_data = content

    return change


def dims(*sizes: int) -> Callable[[TensorProto], None]:
    def change(tensor: TensorProto) -> None:
        tensor.dims[:] = sizes

    return change


def typed(number: int) -> Callable[[TensorProto], None]:
    def change(tensor: TensorProto) -> None:
        tensor.data_type = number

    return change


def misspelt(field: bytes) -> Callable[[], bytes]:
    """A model with a text that is not UTF-8."""

    def make() -> bytes:
        model = helper.make_model(
            helper.make_graph(
                [
                    helper.make_node("Neg", ["INPUT"], ["MIDDLE"], name="NODE"),
                    helper.make_node("Neg", ["MIDDLE"], ["y"]),
                ],
                "GRAPH",
                [helper.make_tensor_value_info("INPUT", TensorProto.FLOAT, ["LENGTH"])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
            ),
            opset_imports=[helper.make_opsetid("", 18)],
        )
        found = bytes(model.SerializeToString())
        assert field in found
        return found.replace(field, b"\xff" * len(field))

    return make


def same_attribute_twice(proto: onnx.NodeProto) -> None:
    proto.attribute.extend([helper.make_attribute("a", 1), helper.make_attribute("a", 2)])


SHORT = "7 bytes of data, 16 expected"
CASES = [
    refused(
        "damage-bytes",
        "an initializer of 7 bytes for 4 floats",
        weight(raw(b"1234567")),
        f"tensor 'w' is damaged: {SHORT}",
    ),
    refused(
        "damage-empty",
        "an initializer without data",
        weight(raw(b"")),
        "tensor 'w' is damaged: 0 bytes of data, 16 expected",
    ),
    refused(
        "damage-numbers",
        "an initializer of 4 numbers for a shape of 113",
        weight(dims(113)),
        "tensor 'w' is damaged: 4 numbers, 113 expected",
    ),
    refused(
        "damage-negative",
        "an initializer with a negative dimension",
        weight(dims(-4)),
        "is damaged: its shape is [-4]",
    ),
    refused(
        "damage-dimension",
        "an initializer with a dimension of 2^62",
        weight(dims(1 << 62)),
        "tensor 'w' is damaged",
    ),
    refused(
        "damage-type",
        "an initializer of a type that does not exist",
        weight(typed(99)),
        "newer than the installed onnx",
    ),
    refused("damage-type-0", "an initializer without a type", weight(typed(0)), "its type is 0"),
    refused(
        "damage-constant",
        "a Constant of 7 bytes for 4 floats",
        constant(raw(b"1234567")),
        "a constant is damaged",
    ),
    refused(
        "damage-constant-dims",
        "a Constant with a negative dimension",
        constant(dims(-4)),
        "a constant is damaged",
    ),
    refused(
        "damage-constant-type",
        "a Constant of a type that does not exist",
        constant(typed(99)),
        "its type is 99",
    ),
    not_verified(
        "damage-constant-none",
        "a Constant without a value",
        changed(CONSTANT, lambda model: model.graph.node[0].ClearField("attribute")),
        "onnxruntime cannot load",
        "Constant Add",
    ),
    not_verified(
        "damage-attribute",
        "an attribute without name and type",
        node(lambda n: n.attribute.add()),
        "onnxruntime",
        "Neg",
    ),
    not_verified(
        "damage-attribute-twice",
        "an attribute written twice",
        node(same_attribute_twice),
        "onnxruntime",
        "Neg",
    ),
    not_verified(
        "damage-attribute-graph",
        "an attribute that is a graph, without the graph",
        node(lambda n: n.attribute.add(name="g", type=AttributeProto.GRAPH)),
        "onnxruntime",
        "Neg",
    ),
    not_verified(
        "damage-reference",
        "a reference to an attribute of a function, outside a function",
        node(lambda n: n.attribute.add(name="g", type=AttributeProto.INT, ref_attr_name="h")),
        "onnxruntime",
        "Neg",
    ),
    not_verified(
        "damage-operator",
        "a node without an operator",
        node(lambda n: n.ClearField("op_type")),
        "onnxruntime",
    ),
    not_verified(
        "damage-operands",
        "a node with an empty operand too many",
        node(lambda n: n.input.append("")),
        "onnxruntime",
        "Neg",
    ),
    not_verified(
        "damage-results",
        "a node with an empty result too many",
        node(lambda n: n.output.append("")),
        "onnxruntime",
        "Neg",
    ),
    refused(
        "damage-no-results",
        "a node without results",
        changed(NODES, lambda model: model.graph.node[0].ClearField("output")),
        "reads 't', which nothing defines",
    ),
    optimized(
        "damage-empty-node", "an empty node", changed(NODES, lambda model: model.graph.node.add())
    ),
    optimized(
        "damage-value-info",
        "a description of nothing",
        changed(NODES, lambda model: model.graph.value_info.add()),
        "Neg",
    ),
    not_verified(
        "damage-input",
        "an input without a name",
        changed(NODES, lambda model: model.graph.input.add()),
        "onnxruntime",
        "Neg",
    ),
    *(
        refused(
            f"damage-utf8-{where.decode().lower()}",
            f"a name that is not UTF-8: of the {what}",
            misspelt(where),
            "is not UTF-8",
        )
        for where, what in (
            (b"GRAPH", "graph"),
            (b"INPUT", "input"),
            (b"MIDDLE", "result"),
            (b"NODE", "node"),
            (b"Neg", "operator"),
            (b"LENGTH", "dimension"),
        )
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_damage(xopt: Xopt, case: Case) -> None:
    check(case, xopt)
