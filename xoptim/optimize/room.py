"""Decide which constants that repeat along axes are stored whole, and which are computed by a node."""

from __future__ import annotations

from typing import NamedTuple

from xoptim.graph.expanded import ExpandedTensor
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.walk import readers


class _Kept(NamedTuple):
    """A constant of which a part is kept, the graph that holds it, and its name."""

    tensor: ExpandedTensor
    graph: Graph
    name: str


def stored_bytes(model: Model) -> int:
    """Bytes of the constants of a model; of those that repeat along axes, bytes of the part that is kept."""
    return sum(tensor.stored_bytes for graph in model.graphs() for tensor in graph.initializers.values())


def write_expanded(model: Model, limit: int | None) -> dict[Node, int]:
    """Write constants of which a part is kept as nodes, the largest first, until the others fit whole into the model.

    Args:
        model: the model.
        limit: bytes that all its constants may have; ``None`` for any number.

    Returns:
        The nodes, and the bytes of their results. All other constants are stored whole when the model is exported.
    """
    kept = [
        _Kept(tensor, graph, name)
        for graph in model.graphs()
        for name, tensor in graph.initializers.items()
        if isinstance(tensor, ExpandedTensor) and graph.is_needed(name) and not graph.is_output(name)
    ]
    if limit is None or not kept:
        return {}
    room = limit - stored_bytes(model)
    large: set[tuple[Graph, str]] = set()
    for each in sorted(kept, key=lambda each: each.tensor.nbytes):
        more = each.tensor.nbytes - each.tensor.stored_bytes
        if large or more > room:
            large.add((each.graph, each.name))
        else:
            room -= more
    written = [each for each in kept if (each.graph, each.name) in large]
    written.sort(key=lambda each: (min(node.label for node in readers(each.graph, each.name)), each.name))
    return {tensor.write(graph, name): tensor.nbytes for tensor, graph, name in written}
