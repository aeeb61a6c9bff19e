"""Change the subgraph of a node: what it computes, reads and returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from onnx import GraphProto, NodeProto

from xoptim.facts.protos import own_graphs, reads, replace_items
from xoptim.graph.export import export_graph
from xoptim.graph.graph import Graph
from xoptim.graph.splice import rename_graph


def rebuilt(body: Graph, names: Mapping[str, str], inputs: Collection[int] = (), outputs: Collection[int] = ()) -> GraphProto:
    """A copy of a subgraph that reads values from outside in place of its own, without the nodes that nothing needs then.

    ``names`` gives the value outside that replaces a value of the subgraph; ``inputs`` and ``outputs`` are places to leave
    out. A needed node may read such an input only through ``names``. An output whose value comes from outside becomes a copy
    of it, as runtimes want a node for each output.
    """
    proto = GraphProto()
    export_graph(body, proto)
    nodes = [node for node in proto.node if not all(name in names for name in node.output if name)]
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        for inner in own_graphs(node):
            rename_graph(inner, names)
    kept = [value for place, value in enumerate(proto.output) if place not in outputs]
    nodes += [
        NodeProto(op_type="Identity", input=[names[name]], output=[name])
        for name in dict.fromkeys(value.name for value in kept)
        if name in names
    ]
    needed = _needed(nodes, {value.name for value in kept})
    replace_items(proto.node, [node for node in nodes if any(name in needed for name in node.output)])
    replace_items(proto.input, [value for place, value in enumerate(proto.input) if place not in inputs])
    replace_items(proto.output, kept)
    replace_items(proto.initializer, [tensor for tensor in proto.initializer if tensor.name in needed])
    defined = {name for node in proto.node for name in node.output}
    replace_items(proto.value_info, [value for value in proto.value_info if value.name in defined])
    return proto


def _needed(nodes: list[NodeProto], outputs: set[str]) -> set[str]:
    """The values that the outputs depend on."""
    needed = set(outputs)
    for node in reversed(nodes):
        if any(name in needed for name in node.output):
            needed.update(reads(node))
    return needed
