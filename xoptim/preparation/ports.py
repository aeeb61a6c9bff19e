"""Rename, add and drop inputs and outputs of a model; extract the subgraph between some values."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, TypeProto, ValueInfoProto

from xoptim.facts.errors import ModelError
from xoptim.facts.protos import every_node, inner_graphs, own_names
from xoptim.facts.words import abridged, listed, meant
from xoptim.graph.export import export_node, value_info
from xoptim.graph.fragment import model_of
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.names import Names
from xoptim.graph.node import Node
from xoptim.graph.walk import reads


def extract_part(
    proto: ModelProto,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    base_dir: Path | None = None,
) -> ModelProto:
    """Extract the subgraph that computes some results from others; the model is left unchanged.

    External data stays in its files. Local functions, operator sets, metadata and quantization
    annotations are kept. Further inputs of the model that the subgraph needs become inputs as well;
    ``outputs`` are the model's by default. Raises `ModelError` when a name does not exist, an input
    is not needed or of unknown type, or an output is not computed.
    """
    graph = load_model(proto, base_dir).graph
    targets = list(dict.fromkeys(outputs)) or list(graph.outputs)
    for name in (*inputs, *targets):
        _check_exists(graph, name)
    nodes, sources = _needed(graph, targets, set(inputs))
    idle = next((name for name in inputs if name not in sources), None)
    if idle is not None:
        raise ModelError(f"{idle!r} is not needed to compute {', '.join(targets)}")
    uncomputed = next(
        (name for name in targets if name in inputs or graph.producer(name) is None), None
    )
    if uncomputed is not None:
        raise ModelError(f"{uncomputed!r} is not computed by a node of the subgraph")
    part = onnx.GraphProto(name=graph.name or "part")
    part.node.extend(map(export_node, nodes))
    # A node that computed one of the inputs may be needed for its other results.
    for node in part.node:
        node.output[:] = [graph.names.fresh(n) if n in inputs else n for n in node.output]
    _declare(graph, part, sources, set(inputs), targets)
    model = model_of(graph, part, nodes)
    model.metadata_props.extend(proto.metadata_props)
    model.producer_name, model.producer_version = proto.producer_name, proto.producer_version
    return model


def _check_exists(graph: Graph, name: str) -> None:
    if not graph.defines(name):
        names = [n for node in graph.nodes for n in node.output if n] + list(graph.inputs)
        raise ModelError(f"the main graph has no value {abridged(name)}{meant(name, names)}")


def _needed(
    graph: Graph, targets: Iterable[str], inputs: set[str]
) -> tuple[list[Node], dict[str, None]]:
    """The nodes that compute some values, in order, and the values that these read from outside."""
    nodes: set[Node] = set()
    sources: dict[str, None] = {}
    pending = [name for name in targets if name not in inputs]
    while pending:
        name = pending.pop()
        producer = graph.producer(name)
        if name in inputs or producer is None:
            sources[name] = None
        elif producer not in nodes:
            nodes.add(producer)
            pending += reads(producer)
    return sorted(nodes, key=lambda node: node.label), sources


def _declare(
    graph: Graph,
    part: onnx.GraphProto,
    sources: Iterable[str],
    inputs: set[str],
    targets: Sequence[str],
) -> None:
    """Add inputs, outputs, initializers and declarations to the subgraph."""
    source = graph.source
    assert source is not None
    value_infos: dict[str, ValueInfoProto] = {
        v.name: v for v in (*source.value_info, *source.output, *source.input)
    }
    sparse = {tensor.values.name: tensor for tensor in source.sparse_initializer}
    order = {name: index for index, name in enumerate(graph.inputs)}
    for name in sorted(sources, key=lambda name: order.get(name, len(order))):
        tensor = None if name in inputs else graph.initializers.get(name)
        if tensor is not None:
            part.initializer.append(tensor.to_proto(name))
        if name in sparse and name not in inputs:
            part.sparse_initializer.append(sparse[name])
        elif tensor is None or name in graph.overridable:
            declaration = value_infos.get(name) if name in order else None
            part.input.append(declaration or _new_input(graph, name))
    part.output.extend(
        value_infos[name] if graph.is_output(name) else value_info(name, graph.info_of(name))
        for name in targets
    )
    results = {name for node in part.node for name in node.output} - set(targets)
    part.value_info.extend(value for value in source.value_info if value.name in results)
    names = results | set(targets) | set(sources)
    part.quantization_annotation.extend(
        annotation
        for annotation in source.quantization_annotation
        if annotation.tensor_name in names
        and all(entry.value in names for entry in annotation.quant_parameter_tensor_names)
    )


def _new_input(graph: Graph, name: str) -> ValueInfoProto:
    """The declaration of a result that becomes an input; its type must be known."""
    declaration = value_info(name, graph.info_of(name))
    kind = declaration.type.WhichOneof("value")
    if kind is None or (kind == "tensor_type" and not declaration.type.tensor_type.elem_type):
        raise ModelError(f"the type of {name!r} is not known, so it cannot be an input")
    return declaration


def all_graphs(proto: ModelProto) -> Iterator[GraphProto]:
    """The main graph and all subgraphs, those of local functions included."""
    yield proto.graph
    yield from inner_graphs(proto.graph.node)
    for function in proto.functions:
        yield from inner_graphs(function.node)


def declarations(proto: ModelProto) -> Iterator[ValueInfoProto]:
    """The declarations of inputs and other values of all graphs, except outputs."""
    for graph in all_graphs(proto):
        yield from graph.input
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


def defined_names(proto: ModelProto) -> set[str]:
    """All names of values in the main graph and its subgraphs."""
    return set().union(*map(own_names, (proto.graph, *inner_graphs(proto.graph.node)))) - {""}


def named(proto: ModelProto, kind: str, name: str) -> ValueInfoProto:
    """The input or output of a name; raises `ModelError` when there is none."""
    values = proto.graph.input if kind == "input" else proto.graph.output
    port = next((value for value in values if value.name == name), None)
    if port is None:
        names = listed([value.name for value in values])
        raise ModelError(f"the model has no {kind} {name!r}; it has {names}")
    return port


def drop_outputs(proto: ModelProto, names: Sequence[str]) -> None:
    """Remove outputs of a model, in place; the nodes that computed them stay.

    Raises `ModelError` when there is no such output, or none would be left.
    """
    for name in names:
        proto.graph.output.remove(named(proto, "output", name))
    if names and not proto.graph.output:
        raise ModelError("a model needs an output; keep at least one")


def keep_outputs(proto: ModelProto, names: Sequence[str], base_dir: Path | None = None) -> None:
    """Make results of nodes of the main graph outputs of the model, in place.

    Raises `ModelError` when a name is not the name of a result, or its type is not known.
    """
    if not names:
        return
    graph = load_model(proto, base_dir).graph
    present = {value.name for value in proto.graph.output}
    for name in dict.fromkeys(names):
        if graph.producer(name) is None:
            results = [output for node in graph.nodes for output in node.output if output]
            raise ModelError(
                f"no node of the main graph produces {abridged(name)}{meant(name, results)}"
            )
        info = graph.info_of(name)
        if not info.dtype:
            raise ModelError(f"the type of {name!r} is not known, so it cannot be an output")
        if name not in present:
            proto.graph.output.append(value_info(name, info))


def rename_ports(proto: ModelProto, names: Mapping[str, str]) -> None:
    """Rename inputs and outputs of a model, in place; ``names`` has new names by old ones.

    Raises `ModelError` when there is no such input or output, or a new name is empty or in use.
    """
    if not names:
        return
    ports = {value.name for value in (*proto.graph.input, *proto.graph.output)}
    unknown = next((name for name in names if name not in ports), None)
    if unknown is not None:
        raise ModelError(
            f"the model has no input or output {unknown!r}; it has {', '.join(sorted(ports))}"
        )
    used_names = defined_names(proto) - names.keys()
    conflict = next((new for new in names.values() if not new or new in used_names), None)
    if conflict is not None or len(set(names.values())) < len(names):
        raise ModelError(
            f"{conflict!r} is already the name of a value"
            if conflict
            else "two values cannot have the same name"
        )
    if proto.training_info:
        raise ModelError("a model with training information cannot be renamed")
    rename_values(proto, names)


def rename_values(proto: ModelProto, names: Mapping[str, str]) -> None:
    """Rename values of the main graph and its subgraphs, in place; the new names are not in use."""
    for graph in (proto.graph, *inner_graphs(proto.graph.node)):
        _rename(graph, names)


def names_apart(proto: ModelProto) -> None:
    """Rename values of subgraphs that have the name of a value of another graph, in place."""
    names, earlier_names = Names(), set[str]()
    names.reserve(defined_names(proto), {})
    for graph in (proto.graph, *inner_graphs(proto.graph.node)):
        new_names = {
            name: names.fresh(name) for name in sorted(own_names(graph) & earlier_names - {""})
        }
        if new_names:
            for scope in (graph, *inner_graphs(graph.node)):
                _rename(scope, new_names)
        earlier_names |= own_names(graph)


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Rename the values of a graph, without its subgraphs: these define no name of outer graphs."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        value.name = names.get(value.name, value.name)
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = names.get(sparse.values.name, sparse.values.name)
    for node in graph.node:
        for container in (node.input, node.output):
            container[:] = [names.get(name, name) for name in container]
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)
        for entry in annotation.quant_parameter_tensor_names:
            entry.value = names.get(entry.value, entry.value)


def strip(proto: ModelProto) -> None:
    """Remove doc strings, and the metadata of nodes, values and graphs, in place.

    The metadata of the model itself stays: applications read it, for instance class names.
    """
    proto.ClearField("doc_string")
    for part in _parts(proto):
        part.ClearField("doc_string")
        if _has_metadata(part):
            part.ClearField("metadata_props")


def strippable_bytes(proto: ModelProto) -> int:
    """The number of bytes that `strip` removes."""
    texts = [len(proto.doc_string.encode())]
    for part in _parts(proto):
        texts.append(len(part.doc_string.encode()))
        if _has_metadata(part):
            texts += (entry.ByteSize() for entry in part.metadata_props)
    return sum(texts)


def _parts(proto: ModelProto) -> Iterator[Any]:
    """The parts of a model that have doc strings and metadata."""
    yield from proto.functions
    for graph in all_graphs(proto):
        yield from (graph, *graph.input, *graph.output, *graph.value_info, *graph.initializer)
    for nodes in (proto.graph.node, *(function.node for function in proto.functions)):
        for node in every_node(nodes):
            yield from (node, *node.attribute)


def _has_metadata(part: Any) -> bool:
    return "metadata_props" in part.DESCRIPTOR.fields_by_name
