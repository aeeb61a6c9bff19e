"""Settings of a node: nodes with equal settings may stand in the same place of a block that repeats."""

from __future__ import annotations

from collections.abc import Hashable

from onnx import GraphProto

from xoptim.facts.attributes import encode_attribute
from xoptim.facts.info import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_UNKNOWN_SIZE = -1


def settings(graph: Graph, node: Node) -> Hashable | None:
    """Operator, attributes, and which operands and results are present, with their types and shapes.

    A size that is not an expression of the model's dimensions is equal to any other such size: the body of a block has no
    shapes.

    Returns:
        ``None`` for a node that cannot be part of a block: one with subgraphs, which may read values of the block by name, and
        one with a result that is referred to outside of the nodes.
    """
    if _has_subgraphs(node) or any(name in graph.pinned or name in graph.annotations for name in node.output):
        return None
    kinds = tuple(_kind(graph.info_of(name)) if name else None for name in (*node.input, *node.output))
    return node.op_type, node.domain, node.overload, len(node.input), kinds, _attributes(graph, node)


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


def _kind(info: Info) -> Hashable:
    """Type and shape of a value."""
    sizes = None if info.shape is None else tuple(_UNKNOWN_SIZE if _is_unknown(size) else size for size in info.shape)
    element = None if info.element is None else _kind(info.element)
    return info.dtype, info.container, sizes, element, info.type_proto


def _is_unknown(size: object) -> bool:
    return bool(getattr(size, "is_anonymous", False))
