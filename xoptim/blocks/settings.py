"""Settings of a node: nodes with equal settings may stand in the same place of a block that repeats."""

from __future__ import annotations

from collections.abc import Hashable

from onnx import GraphProto

from xoptim.facts.attributes import encode_attribute
from xoptim.facts.info import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node


def settings(graph: Graph, node: Node) -> Hashable | None:
    """Operator, attributes, and which operands and results are present, with their types; for results the number of axes too.

    A local function has no shapes, so that layers of other widths, or weights that are stored as rows, are equal.

    Args:
        graph: the graph.
        node: the node.

    Returns:
        ``None`` for a node that cannot be part of a block: one with subgraphs, which may read values of the block by name, and
        one with a result that is referred to outside of the nodes.
    """
    if _has_subgraphs(node) or any(name in graph.pinned or name in graph.annotations for name in node.output):
        return None
    operands = tuple(_kind(graph.info_of(name), is_ranked=False) if name else None for name in node.input)
    results = tuple(_kind(graph.info_of(name), is_ranked=True) if name else None for name in node.output)
    return node.op_type, node.domain, node.overload, operands, results, _attributes(graph, node)


def _has_subgraphs(node: Node) -> bool:
    lists = (value for value in node.attribute.values() if isinstance(value, list))
    return bool(node.bodies) or any(isinstance(value, GraphProto) for values in lists for value in values[:1])


def _attributes(graph: Graph, node: Node) -> Hashable:
    if node.op_type == "Constant" and not node.domain:
        tensor = graph.tensor(node.output[0])
        if tensor is not None:
            return tuple(node.attribute), tensor.key()  # a digest: constants may be large
    encoded = (encode_attribute(name, value).SerializeToString(deterministic=True) for name, value in node.attribute.items())
    return tuple(sorted(encoded))


def _kind(info: Info, *, is_ranked: bool) -> Hashable:
    """Type of a value, and the number of its axes if that counts."""
    rank = len(info.shape) if is_ranked and info.shape is not None else None
    element = None if info.element is None else _kind(info.element, is_ranked=is_ranked)
    return info.dtype, info.container, rank, element, info.type_proto
