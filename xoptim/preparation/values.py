"""The declarations of values in a model, and the names that it uses."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import inner_graphs


def all_graphs(proto: ModelProto) -> Iterator[GraphProto]:
    """The main graph and all subgraphs, in local functions too."""
    yield proto.graph
    yield from inner_graphs(proto.graph.node)
    for function in proto.functions:
        yield from inner_graphs(function.node)


def declarations(proto: ModelProto) -> Iterator[ValueInfoProto]:
    """The declarations of inputs, outputs and other values of all graphs."""
    for graph in all_graphs(proto):
        yield from graph.input
        yield from graph.output
        yield from graph.value_info
    for function in proto.functions:
        yield from function.value_info


def dimensions(type_proto: TypeProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """The dimensions of a tensor, or of the tensors in a sequence or optional."""
    kind = type_proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        yield from getattr(type_proto, kind).shape.dim
    elif kind in ("sequence_type", "optional_type"):
        yield from dimensions(getattr(type_proto, kind).elem_type)


def fed_inputs(proto: ModelProto) -> list[ValueInfoProto]:
    """The inputs that have no initializer."""
    stored = {tensor.name for tensor in proto.graph.initializer}
    return [value for value in proto.graph.input if value.name not in stored]


def defined_names(proto: ModelProto) -> set[str]:
    """All names of values in the main graph and its subgraphs."""
    names: set[str] = set()
    for graph in (proto.graph, *inner_graphs(proto.graph.node)):
        names.update(value.name for value in graph.input)
        names.update(tensor.name for tensor in graph.initializer)
        names.update(tensor.values.name for tensor in graph.sparse_initializer)
        names.update(name for node in graph.node for name in node.output if name)
    return names


def named(proto: ModelProto, kind: str, name: str) -> ValueInfoProto:
    """The input or output of a name.

    Raises:
        ModelError: there is none.
    """
    values = proto.graph.input if kind == "input" else proto.graph.output
    found = next((value for value in values if value.name == name), None)
    if found is None:
        listed = ", ".join(value.name for value in values)
        raise ModelError(f"the model has no {kind} {name!r}; it has {listed or 'none'}")
    return found
