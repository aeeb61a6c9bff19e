"""Optimizations of onnxruntime that crash on some models: sessions disable them there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto

from xoptim.facts.protos import every_node, inner_graphs
from xoptim.verification.runs.protos import TYPE_ATTRIBUTES

AT_HALF: Final = ("NchwcTransformer",)
"""Arranges float32 convolutions in blocks, and crashes where a MatMul multiplies transposed float16
numbers by a constant.
"""


def fatal_optimizers(model: onnx.ModelProto) -> tuple[str, ...]:
    """The names of optimizations of the level ``all`` that may crash on a model."""
    return AT_HALF if computes_in_half(model) else ()


def computes_in_half(model: onnx.ModelProto) -> bool:
    """Whether a model has float16 values, other than stored weights that a Cast reads.

    Such a Cast is computed once, when the model is loaded: optimizations see its result.
    """
    graphs = list(_graphs(model))
    values = (value for graph in graphs for value in _declared(graph))
    if any(_element(value.type) == TensorProto.FLOAT16 for value in values):
        return True
    nodes = [node for graph in graphs for node in graph.node]
    nodes += every_node(node for function in model.functions for node in function.node)
    if any(_makes_half(node) for node in nodes):
        return True
    tensors = (tensor for graph in graphs for tensor in graph.initializer)
    stored = {tensor.name for tensor in tensors if tensor.data_type == TensorProto.FLOAT16}
    stored |= {name for node in nodes if _has_half_tensor(node) for name in node.output}
    return any(not stored.isdisjoint(node.input) for node in nodes if node.op_type != "Cast")


def _graphs(model: onnx.ModelProto) -> Iterator[GraphProto]:
    """The main graph, and the subgraphs at every depth, also in local functions."""
    yield model.graph
    yield from inner_graphs(model.graph.node)
    for function in model.functions:
        yield from inner_graphs(function.node)


def _declared(graph: GraphProto) -> Iterator[onnx.ValueInfoProto]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info


def _element(type_proto: TypeProto) -> int:
    """The element type of a tensor, or of the tensors in a sequence or optional; 0 for others."""
    kind = type_proto.WhichOneof("value")
    if kind == "tensor_type":
        return type_proto.tensor_type.elem_type
    if kind == "sequence_type":
        return _element(type_proto.sequence_type.elem_type)
    if kind == "optional_type":
        return _element(type_proto.optional_type.elem_type)
    return 0


def _makes_half(node: NodeProto) -> bool:
    """Whether an attribute lets a node compute in float16; a Constant only stores numbers."""
    if _has_half_tensor(node):
        return node.op_type != "Constant"
    typed = (attribute for attribute in node.attribute if attribute.name in TYPE_ATTRIBUTES)
    return any(attribute.i == TensorProto.FLOAT16 for attribute in typed)


def _has_half_tensor(node: NodeProto) -> bool:
    """Whether an attribute holds float16 numbers."""
    tensors = (a.t for a in node.attribute if a.type == AttributeProto.TENSOR)
    return any(tensor.data_type == TensorProto.FLOAT16 for tensor in tensors)
