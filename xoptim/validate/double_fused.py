"""Operators with an activation (FusedGemm, FusedConv), which have no kernel for double, as the operators they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from onnx import GraphProto, NodeProto, TensorProto, helper

_DOMAIN: Final = "com.microsoft"
_PRODUCTS: Final[Mapping[str, str]] = {"FusedGemm": "Gemm", "FusedConv": "Conv"}
_PREFIX: Final = "activation_"
_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "LeakyRelu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Clip": ("min", "max"),
}
"""The names of the parameters that FusedConv lists."""


def split_activations(graph: GraphProto) -> None:
    """Write each of these operators in a graph as a Gemm or Conv, an Add of what is added, and the activation."""
    found = [node for node in graph.node if node.domain == _DOMAIN and node.op_type in _PRODUCTS]
    if not found:
        return
    fused = {id(node) for node in found}
    nodes = [part for node in graph.node for part in (_split(node) if id(node) in fused else [node])]
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _split(node: NodeProto) -> Iterator[NodeProto]:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    activation = attributes.pop("activation", b"").decode()
    parameters = _parameters(attributes, activation)
    operands = list(node.input[:3])
    (result,) = node.output
    value = f"{result}/product"
    yield helper.make_node(_PRODUCTS[node.op_type], operands, [value], node.name, **attributes)
    added = "".join(node.input[len(operands) :])  # one operand, if any
    if added:
        yield helper.make_node("Add", [value, added], [f"{result}/sum"])
        value = f"{result}/sum"
    if not activation:
        yield helper.make_node("Identity", [value], [result])
        return
    inputs = [value]
    if activation == "Clip":
        for name, bound in parameters.items():
            inputs.append(f"{result}/{name}")
            number = helper.make_tensor("", TensorProto.DOUBLE, (), [bound])
            yield helper.make_node("Constant", [], inputs[-1:], value=number)
        parameters = {}
    yield helper.make_node(activation, inputs, [result], **parameters)


def _parameters(attributes: dict[str, Any], activation: str) -> dict[str, Any]:
    """The parameters of the activation, which are taken out of the attributes."""
    listed = attributes.pop(f"{_PREFIX}params", ())
    found: dict[str, Any] = dict(zip(_PARAMETERS.get(activation, ()), listed, strict=False))
    for name in [name for name in attributes if name.startswith(_PREFIX)]:
        found[name.removeprefix(_PREFIX)] = attributes.pop(name)
    return found
