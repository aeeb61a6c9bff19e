"""Operators that compute in double only when split: FusedGemm, FusedConv, and Attention, which
rounds its scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, helper

from xoptim.facts.protos import standard_domain
from xoptim.operators.activations import PARAMETERS

_DOMAIN: Final = "com.microsoft"
_UNFUSED: Final[Mapping[str, str]] = {"FusedGemm": "Gemm", "FusedConv": "Conv"}
_SMALLEST_SCALE: Final = 1e-4
"""The smallest scale of Attention that may be 1 / sqrt(head size)."""
_PREFIX: Final = "activation_"


def split_operators(graph: GraphProto) -> None:
    """Replace the operators of this module in a graph by several nodes each."""
    splits = [_SPLITS.get((standard_domain(node.domain), node.op_type)) for node in graph.node]
    if not any(splits):
        return
    pairs = zip(graph.node, splits, strict=True)
    nodes = [part for node, split in pairs for part in (split(node) if split else [node])]
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _scaled_attention(node: NodeProto) -> Iterator[NodeProto]:
    """Attention of queries that a Mul scales: the operator itself rounds the root of the scale, and
    Softmax, to 32 bits.
    """
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    query, result = node.input[0], node.output[0]
    scale, scaled = f"{result}/scale", f"{result}/scaled"
    if "scale" in attributes:
        yield _constant(scale, _not_rounded(attributes["scale"]))
    else:
        yield from _usual_scale(query, scale, attributes.get("q_num_heads", 1))
    yield helper.make_node("Mul", [query, scale], [scaled])
    attributes |= {"scale": 1.0, "softmax_precision": int(TensorProto.DOUBLE)}
    yield helper.make_node(
        "Attention", [scaled, *node.input[1:]], list(node.output), node.name, **attributes
    )


def _usual_scale(query: str, scale: str, heads: int) -> Iterator[NodeProto]:
    """1 / sqrt(head size), where the last axis of the query holds ``heads`` heads."""
    steps = [f"{scale}/{name}" for name in ("width", "number", "heads", "size", "root")]
    width, number, count, size, root = steps
    yield helper.make_node("Shape", [query], [width], start=-1)
    yield helper.make_node("Cast", [width], [number], to=int(TensorProto.DOUBLE))
    yield _constant(count, heads)
    yield helper.make_node("Div", [number, count], [size])
    yield helper.make_node("Sqrt", [size], [root])
    yield helper.make_node("Reciprocal", [root], [scale])


def _not_rounded(scale: float) -> float:
    """1 / sqrt(n) if the scale is this number in float32 for an integer n; else the scale."""
    if not _SMALLEST_SCALE < scale <= 1:
        return scale
    usual = 1 / math.sqrt(round(scale**-2))
    return usual if np.float32(usual) == np.float32(scale) else scale


def _constant(name: str, number: float) -> NodeProto:
    return helper.make_node(
        "Constant", [], [name], value=helper.make_tensor("", TensorProto.DOUBLE, (), [number])
    )


def _without_activation(node: NodeProto) -> Iterator[NodeProto]:
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    activation = attributes.pop("activation", b"").decode()
    parameters = _parameters(attributes, activation)
    operands = list(node.input[:3])
    (result,) = node.output
    value = f"{result}/product"
    yield helper.make_node(_UNFUSED[node.op_type], operands, [value], node.name, **attributes)
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
            yield _constant(inputs[-1], bound)
        parameters = {}
    yield helper.make_node(activation, inputs, [result], **parameters)


def _parameters(attributes: dict[str, Any], activation: str) -> dict[str, Any]:
    """The parameters of the activation, which are taken out of the attributes."""
    listed = attributes.pop(f"{_PREFIX}params", ())
    values: dict[str, Any] = dict(zip(PARAMETERS.get(activation, ()), listed, strict=False))
    for name in [name for name in attributes if name.startswith(_PREFIX)]:
        values[name.removeprefix(_PREFIX)] = attributes.pop(name)
    return values


_SPLITS: Final[Mapping[tuple[str, str], Callable[[NodeProto], Iterator[NodeProto]]]] = {
    (_DOMAIN, "FusedGemm"): _without_activation,
    (_DOMAIN, "FusedConv"): _without_activation,
    ("", "Attention"): _scaled_attention,
}
