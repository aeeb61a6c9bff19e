"""Export a `Model` to protobufs."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import TypeAlias

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from xoptim.facts.dims import fresh
from xoptim.facts.protos import (
    UNLISTED_SINCE,
    copy_fields,
    lack_of_memory,
    opset_versions,
    replace_items,
    with_headroom,
)
from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.model import Function, Model
from xoptim.graph.node import Node
from xoptim.graph.propagate import contradicts
from xoptim.graph.tensors import Tensor
from xoptim.operators.inference.types import info_to_type_proto
from xoptim.system.collection import collection_paused

_REBUILT = frozenset(
    ("node", "initializer", "input", "output", "value_info", "quantization_annotation", "name")
)
ToProto: TypeAlias = Callable[[Tensor, str], TensorProto]
"""Makes the protobuf of a constant with a name."""


def export_model(model: Model, to_proto: ToProto = Tensor.to_proto) -> ModelProto:
    """A protobuf of the whole model. It shares no objects with the one the model came from.

    ``to_proto`` makes the protobuf of each initializer, or a stub if its data is written later.
    """
    with collection_paused(), lack_of_memory():
        proto = deepcopy(model.shell)
        if model.graph.opsets and not proto.opset_import:
            for domain, version in model.graph.opsets.items():
                proto.opset_import.add(domain=domain, version=version)
        _add_missing_domains(model.opsets, proto)
        export_graph(model.graph, proto.graph, to_proto)
        if model.lists_initializers and (
            proto.ir_version >= UNLISTED_SINCE or _has_other_initializers(model)
        ):
            _unlist_initializers(model.graph, proto.graph)
            proto.ir_version = max(proto.ir_version, UNLISTED_SINCE)
        for function in model.functions:
            proto.functions.append(export_function(function))
    return proto


def _add_missing_domains(opsets: Mapping[str, int], proto: ModelProto | onnx.FunctionProto) -> None:
    """Import the operator sets that rewrites have added."""
    versions = opset_versions(proto.opset_import)
    for domain, version in opsets.items():
        if domain not in versions:
            proto.opset_import.add(domain=domain, version=version)


def export_graph(graph: Graph, proto: GraphProto, to_proto: ToProto = Tensor.to_proto) -> None:
    """Write a graph into an empty protobuf."""
    source = graph.source
    if source is not None:
        copy_fields(source, proto, _REBUILT)
    if source is None or source.HasField("name"):
        proto.name = graph.name if source is not None else graph.name or "graph"
    proto.node.extend(export_nodes(graph, to_proto))
    proto.initializer.extend(
        to_proto(tensor, name) for name, tensor in with_headroom(graph.initializers.items())
    )
    _export_values(graph, proto)


def _export_values(graph: Graph, proto: GraphProto) -> None:
    source = graph.source or GraphProto()
    source_inputs, source_outputs = (
        {v.name: v for v in values} for values in (source.input, source.output)
    )
    for name in graph.inputs:
        proto.input.append(source_inputs.get(name) or value_info(name, graph.info_of(name)))
    for name in graph.outputs:
        proto.output.append(_output(name, source_outputs.get(name), graph.info_of(name)))
    declarations = (v for v in with_headroom(source.value_info) if graph.defines(v.name))
    if graph.refutes_declared:
        proto.value_info.extend(
            _redeclared(v, info) for v in declarations if (info := graph.info_of(v.name)).dtype
        )
    else:
        proto.value_info.extend(
            v for v in declarations if not contradicts(graph.info_of(v.name), v)
        )
    names = {v.name for v in (*proto.value_info, *proto.output)}
    proto.value_info.extend(
        value_info(name, info) for name, info in _scanned(graph).items() if name not in names
    )
    for name, annotation in graph.annotations.items():
        if graph.defines(name):
            proto.quantization_annotation.add().CopyFrom(annotation)
            proto.quantization_annotation[-1].tensor_name = name


def _output(name: str, declaration: ValueInfoProto | None, info: Info) -> ValueInfoProto:
    """The declaration of an output: that of the model, unless it is wrong."""
    if declaration is not None and not _is_refuted(declaration, info):
        return declaration
    return value_info(name, info) if declaration is None else _redeclared(declaration, info)


def _redeclared(declaration: ValueInfoProto, info: Info) -> ValueInfoProto:
    """A declaration with the type and the shape that were inferred."""
    corrected = deepcopy(declaration)
    corrected.ClearField("type")
    corrected.MergeFrom(value_info(declaration.name, info))
    return corrected


def _is_refuted(declaration: ValueInfoProto, info: Info) -> bool:
    """Whether a declared shape cannot be right, by its rank or by a number.

    This may not have shown when the model was loaded, for example because an If with branches of
    different ranks hid the shape.
    """
    if (
        info.shape is None
        or not info.is_tensor
        or not declaration.type.tensor_type.HasField("shape")
    ):
        return False
    dims = declaration.type.tensor_type.shape.dim
    if len(dims) != len(info.shape):
        return True
    return any(
        d.HasField("dim_value") and isinstance(i, int) and d.dim_value != i
        for d, i in zip(dims, info.shape, strict=True)
    )


def _scanned(graph: Graph) -> dict[str, Info]:
    """Computed results that a Scan reads, with their fixed dimensions.

    onnxruntime must find the rank of the results of a Scan when it loads the model. It may have
    found the rank at a node that a rewrite removed, such as the Reshape of a result of a Loop; so
    the rank is declared.
    """
    infos: dict[str, Info] = {}
    for name in dict.fromkeys(name for node in graph.of_type("Scan") for name in node.input):
        info = graph.info_of(name)
        if graph.producer(name) is not None and info.dtype and info.shape is not None:
            infos[name] = Info(
                info.dtype, tuple(d if isinstance(d, int) else fresh() for d in info.shape)
            )
    return infos


def _has_other_initializers(model: Model) -> bool:
    """Whether the initializers have changed since the model was loaded."""
    graphs = list(model.graph.all_graphs())
    loaded_names = [
        [] if graph.source is None else [tensor.name for tensor in graph.source.initializer]
        for graph in graphs
    ]
    return any(
        list(graph.initializers) != names for graph, names in zip(graphs, loaded_names, strict=True)
    )


def _unlist_initializers(graph: Graph, proto: GraphProto) -> None:
    """Drop the loaded initializers from the list of inputs, whether rewrites kept them or not.

    Before IR version 4, all of them must be listed there; since then, callers may override the
    listed ones.
    """
    names = (
        {tensor.name for tensor in graph.source.initializer} if graph.source is not None else set()
    )
    replace_items(proto.input, [value for value in proto.input if value.name not in names])


def value_info(name: str, info: Info) -> ValueInfoProto:
    """The declaration of a result, made from the facts about it."""
    return ValueInfoProto(name=name, type=info_to_type_proto(info))


def export_nodes(graph: Graph, to_proto: ToProto = Tensor.to_proto) -> Iterator[NodeProto]:
    """The nodes of a graph.

    Unchanged ones are the protobufs they came from, not copies: do not modify them.
    """
    return (export_node(node, to_proto) for node in with_headroom(graph.nodes))


def export_node(node: Node, to_proto: ToProto = Tensor.to_proto) -> NodeProto:
    """A node with its subgraphs.

    When unchanged, the protobuf it came from, not a copy: do not modify it.
    """
    proto = node.untouched_proto
    if proto is None or node.bodies or not node.is_unchanged:
        proto = node.to_proto()
        for name, body in node.bodies.items():
            _export_body(proto, name, body, to_proto)
    return proto


def _export_body(proto: NodeProto, name: str, body: Graph, to_proto: ToProto) -> None:
    for attribute in proto.attribute:
        if attribute.name == name:
            attribute.ClearField("g")
            break
    else:
        attribute = proto.attribute.add(name=name, type=AttributeProto.GRAPH)
    export_graph(body, attribute.g, to_proto)


def _constants(tensors: Mapping[str, Tensor]) -> list[NodeProto]:
    """Constant nodes with these values: the body of a function cannot have initializers."""
    nodes = [NodeProto(op_type="Constant", output=[name]) for name in tensors]
    for node, (name, tensor) in zip(nodes, tensors.items(), strict=True):
        node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(
            tensor.to_proto(name)
        )
    return nodes


def export_function(function: Function) -> onnx.FunctionProto:
    """A local function as it is now."""
    proto, body = deepcopy(function.proto), function.body
    replace_items(proto.node, (*_constants(body.initializers), *export_nodes(body)))
    if proto.value_info:
        replace_items(proto.value_info, [v for v in proto.value_info if body.defines(v.name)])
    _add_missing_domains(body.opsets, proto)
    return proto
