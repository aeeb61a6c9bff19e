"""Load a graph from its protobuf: initializers, nodes and their subgraphs, in a valid order."""

import graphlib
import heapq
import logging
from collections.abc import Iterable

import onnx
from onnx import AttributeProto, GraphProto

from xoptim.facts.dim_formulas import size_in
from xoptim.facts.dims import substitute
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import with_headroom
from xoptim.facts.schema import may_own_graphs
from xoptim.facts.shapes import Info
from xoptim.graph.assumed import assumed_info
from xoptim.graph.graph import Graph
from xoptim.graph.model import call_domain
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import around, owner_in, readers
from xoptim.operators.inference.types import type_proto_to_info

logger = logging.getLogger("xoptim")

DEEPEST = 31
"""Levels of subgraphs that a protobuf can hold: it is read to a depth of 100 messages, and each
level takes three.
"""


def _load_initializers(graph: Graph, proto: onnx.GraphProto) -> None:
    base_dir = graph.model.base_dir
    for tensor in with_headroom(proto.initializer):
        handle = Tensor.from_proto(tensor, base_dir)
        if tensor.name in graph.initializers:
            raise ModelError(f"initializer {tensor.name!r} is defined twice")
        if graph.is_input(tensor.name) and not graph.model.lists_initializers:
            graph.overridable.add(tensor.name)
        handle.check_count()
        graph.add_initializer(tensor.name, handle)


def load_graph(graph: Graph, proto: onnx.GraphProto) -> None:
    """Fill an empty graph from its protobuf; raises `ModelError` as `load_model`."""
    graph.source = proto
    graph.name = proto.name
    _check_text(
        (
            graph.name,
            *(v.name for v in (*proto.input, *proto.output)),
            *(t.name for t in proto.initializer),
        )
    )
    names = {
        dim.dim_param: None
        for value in proto.input
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param
    }
    assumed = graph.model.assumed_sizes
    formulas = {
        text: substitute(size, assumed)
        for text in names
        if (size := size_in(text, names)) is not None
    }
    for value in proto.input:
        if graph.is_input(value.name):
            raise ModelError(f"graph input {value.name!r} is declared twice")
        info = type_proto_to_info(value.type, {**assumed, **formulas})
        graph.declare_input(
            value.name,
            info if graph.parent is not None else assumed_info(value.name, info, assumed),
        )
    _load_initializers(graph, proto)
    for sparse in proto.sparse_initializer:
        # Only its name, type and shape are known: it is never folded, and is written back
        # unchanged.
        info = Info(sparse.values.data_type, tuple(sparse.dims), container="sparse")
        graph.declare_input(sparse.values.name, info, listed=False)
    for annotation in proto.quantization_annotation:
        graph.annotations[annotation.tensor_name] = annotation
        graph.pinned.update(entry.value for entry in annotation.quant_parameter_tensor_names)
    load_nodes(graph, proto.node)
    for value in proto.output:
        graph.declare_output(value.name)
    check_names(graph)


def _check_text(texts: Iterable[object]) -> None:
    """Refuse texts that protobuf returns as bytes because they are not UTF-8: they could not be
    written back.
    """
    for text in texts:
        if type(text) is not str:
            raise ModelError(f"the model is damaged: the name {text!r} is not UTF-8")


def load_nodes(graph: Graph, protos: Iterable[onnx.NodeProto]) -> None:
    """Add nodes and their subgraphs to a graph that has none, sorted where it is necessary.

    Raises `ModelError` as `load_model`.
    """
    nodes = _wrap(graph, protos)
    _check_results(graph, nodes)
    graph.nodes.extend(nodes)
    graph.link(nodes)
    is_sorted = _connect(graph)
    for node in nodes:
        load_bodies(graph, node)
    if not is_sorted or _captures_later(graph):
        _sort(graph)
        logger.warning(
            "the nodes of graph %r are not in topological order; they were sorted", graph.name
        )


def _wrap(graph: Graph, protos: Iterable[onnx.NodeProto]) -> list[Node]:
    wrap, hidden = Node.from_proto, graph.model.hidden_operators
    nodes: list[Node] = []
    for proto in with_headroom(protos):
        try:
            node = wrap(proto)
        except TypeError:
            _check_text((*proto.input, *proto.output, proto.op_type, proto.domain, proto.overload))
            raise
        if hidden and (node.domain, node.op_type) in hidden:
            node.domain = call_domain(node.domain)
        nodes.append(node)
    _check_text(node.name for node in nodes)
    return nodes


def _check_results(graph: Graph, nodes: Iterable[Node]) -> None:
    seen: dict[str, None] = {}
    for node in nodes:
        for name in node.output:
            if name in seen:
                raise ModelError(f"result {name!r} is produced twice")
            if name:
                seen[name] = None
    clash = next(
        (name for name in seen if name in graph.declared_inputs or name in graph.initializers), None
    )
    if clash is not None:
        raise ModelError(
            f"result {clash!r} is produced by a node and is an input or an initializer too"
        )


def _connect(graph: Graph) -> bool:
    """Record the uses of all nodes.

    Return whether each node comes after the producers of its operands.
    """
    producer_of, connect = graph.producer, graph.connect
    is_sorted = True
    for node in graph.nodes:
        connect(node)
        for name in node.input:
            producer = producer_of(name)
            if producer is not None and producer.label >= node.label:
                is_sorted = False
    return is_sorted


def load_bodies(graph: Graph, node: Node) -> None:
    """Wrap the subgraphs among the attributes of a node of a graph.

    Raises `ModelError` as `load_model`.
    """
    if not may_own_graphs(node.domain, node.op_type):
        return
    proto = node.untouched_proto
    if proto is not None:
        subgraphs = {a.name: a.g for a in proto.attribute if a.type == AttributeProto.GRAPH}
    else:
        subgraphs = {
            name: value for name, value in node.attribute.items() if isinstance(value, GraphProto)
        }
    if subgraphs:
        if len(list(around(graph))) >= DEEPEST:
            raise ModelError(
                f"the subgraphs are nested more than {DEEPEST} deep, which no protobuf can hold"
            )
        # Set before the first is loaded: if one is invalid, captures of earlier ones are released.
        node.bodies = bodies = {}
        for name, source in subgraphs.items():
            bodies[name] = Graph(graph.model, parent=graph, owner=node)
            load_graph(bodies[name], source)


def _captures_later(graph: Graph) -> bool:
    for name in graph.captured():
        producer = graph.producer(name)
        if producer is not None and any(
            owner_in(graph, reader).label <= producer.label for reader in graph.captures(name)
        ):
            return True
    return False


def _sort(graph: Graph) -> None:
    """Sort the nodes so that each comes after what it reads.

    Apart from that, keep the given order (Kahn's algorithm).
    """
    nodes = list(graph.nodes)
    position = {node: index for index, node in enumerate(nodes)}
    sorter = graphlib.TopologicalSorter[int]()
    for index, producer in enumerate(nodes):
        sorter.add(index)
        for reader in (
            reader for name in producer.output if name for reader in readers(graph, name)
        ):
            sorter.add(position[reader], index)
    try:
        sorter.prepare()
    except graphlib.CycleError as error:
        node = nodes[min(error.args[1])]
        raise ModelError(f"the nodes form a cycle through {node.name or node.op_type!r}") from error
    for node in nodes:
        graph.nodes.unlink(node)
    ready: list[int] = []
    while sorter.is_active():
        for index in sorter.get_ready():
            heapq.heappush(ready, index)
        sorter.done(first := heapq.heappop(ready))
        graph.nodes.append(nodes[first])


def check_names(graph: Graph) -> None:
    """Raise `ModelError` where a name that nodes or outputs read is not defined."""
    for name in graph.undefined():
        reader = graph.consumers(name)[0]
        raise ModelError(
            f"node {reader.name or reader.op_type!r} reads {name!r}, which nothing defines"
        )
    for name in graph.outputs:
        if graph.scope(name) is None:
            raise ModelError(f"graph output {name!r} is not produced by any node")
