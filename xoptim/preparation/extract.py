"""The part of a model between some values."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import onnx
from onnx import ModelProto, ValueInfoProto

from xoptim.facts.errors import ModelError
from xoptim.facts.words import meant
from xoptim.graph.export import export_node, value_info
from xoptim.graph.fragment import model_of
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.walk import reads


def extract_part(
    proto: ModelProto, inputs: Sequence[str] = (), outputs: Sequence[str] = (), base_dir: Path | None = None
) -> ModelProto:
    """The part of a model, which is left unchanged, that computes some results from others.

    Weights in files of their own stay there. Local functions, operator sets, metadata and quantization annotations come
    along. Inputs of the model that the part needs besides ``inputs`` become inputs too; ``outputs`` are the model's by
    default. Raises `ModelError` when a name does not exist, an input is not needed, or an output is not computed.
    """
    graph = load_model(proto, base_dir).graph
    ends = list(dict.fromkeys(outputs)) or list(graph.outputs)
    for name in (*inputs, *ends):
        _check_exists(graph, name)
    nodes, read = _needed(graph, ends, set(inputs))
    idle = next((name for name in inputs if name not in read), None)
    if idle is not None:
        raise ModelError(f"{idle!r} is not needed to compute {', '.join(ends)}")
    uncomputed = next((name for name in ends if name in inputs or graph.producer(name) is None), None)
    if uncomputed is not None:
        raise ModelError(f"{uncomputed!r} is not the result of a node of the part")
    part = onnx.GraphProto(name=graph.name or "part")
    part.node.extend(map(export_node, nodes))
    _declare(graph, part, read, set(inputs), ends)
    whole = model_of(graph, part, nodes)
    whole.metadata_props.extend(proto.metadata_props)
    whole.producer_name, whole.producer_version = proto.producer_name, proto.producer_version
    return whole


def _check_exists(graph: Graph, name: str) -> None:
    if not graph.defines(name):
        known = [each for node in graph.nodes for each in node.output if each] + list(graph.inputs)
        raise ModelError(f"the main graph has no value {name!r}{meant(name, known)}")


def _needed(graph: Graph, ends: Iterable[str], given: set[str]) -> tuple[list[Node], dict[str, None]]:
    """The nodes that compute some values, in order, and what they read and do not compute themselves."""
    nodes: set[Node] = set()
    read: dict[str, None] = {}
    pending = [name for name in ends if name not in given]
    while pending:
        name = pending.pop()
        producer = graph.producer(name)
        if name in given or producer is None:
            read[name] = None
        elif producer not in nodes:
            nodes.add(producer)
            pending += reads(producer)
    return sorted(nodes, key=lambda node: node.label), read


def _declare(graph: Graph, part: onnx.GraphProto, read: Iterable[str], given: set[str], ends: Sequence[str]) -> None:
    """Add inputs, outputs, initializers and declarations to the part."""
    source = graph.source
    assert source is not None
    declared: dict[str, ValueInfoProto] = {v.name: v for v in (*source.value_info, *source.output, *source.input)}
    sparse = {tensor.values.name: tensor for tensor in source.sparse_initializer}
    order = {name: place for place, name in enumerate(graph.inputs)}
    for name in sorted(read, key=lambda name: order.get(name, len(order))):
        tensor = None if name in given else graph.initializers.get(name)
        if tensor is not None:
            part.initializer.append(tensor.to_proto(name))
        if name in sparse and name not in given:
            part.sparse_initializer.append(sparse[name])
        elif tensor is None or name in graph.overridable:
            given_type = declared.get(name) if name in order else None
            part.input.append(given_type or value_info(name, graph.info_of(name)))
    part.output.extend(declared[name] if graph.is_output(name) else value_info(name, graph.info_of(name)) for name in ends)
    made = {name for node in part.node for name in node.output} - set(ends)
    part.value_info.extend(value for value in source.value_info if value.name in made)
    known = made | set(ends) | set(read)
    part.quantization_annotation.extend(
        each
        for each in source.quantization_annotation
        if each.tensor_name in known and all(entry.value in known for entry in each.quant_parameter_tensor_names)
    )
