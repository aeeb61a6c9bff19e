"""Change the subgraph of a node: what it computes, reads and returns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, NodeProto

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
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                rename_graph(attribute.g, names)
    kept = [value for place, value in enumerate(proto.output) if place not in outputs]
    nodes += [
        NodeProto(op_type="Identity", input=[names[name]], output=[name])
        for name in dict.fromkeys(value.name for value in kept)
        if name in names
    ]
    needed = _needed(nodes, {value.name for value in kept})
    _keep(proto, "node", [node for node in nodes if any(name in needed for name in node.output)])
    _keep(proto, "input", [value for place, value in enumerate(proto.input) if place not in inputs])
    _keep(proto, "output", kept)
    _keep(proto, "initializer", [tensor for tensor in proto.initializer if tensor.name in needed])
    defined = {name for node in proto.node for name in node.output}
    _keep(proto, "value_info", [value for value in proto.value_info if value.name in defined])
    return proto


def _keep(proto: GraphProto, field: str, items: Sequence[Any]) -> None:
    copies = GraphProto()
    getattr(copies, field).extend(items)
    proto.ClearField(field)
    getattr(proto, field).extend(getattr(copies, field))


def _needed(nodes: list[NodeProto], outputs: set[str]) -> set[str]:
    """The values that the outputs depend on."""
    needed = set(outputs)
    for node in reversed(nodes):
        if any(name in needed for name in node.output):
            needed.update(_reads(node))
    return needed


def _reads(node: NodeProto) -> Iterator[str]:
    """All names that stand in a node and its subgraphs as operands and outputs."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            for inner in attribute.g.node:
                yield from _reads(inner)
            yield from (value.name for value in attribute.g.output)
