"""Settings of a node: nodes with equal settings may stand in the same place of a block that repeats."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, TypeAlias

from onnx import GraphProto

from xoptim.facts.attributes import encode_attribute
from xoptim.facts.info import Info, Shape
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node

_UNKNOWN_SIZE: Final = -1
_OfShape: TypeAlias = Callable[[Shape], Hashable]


def settings(graph: Graph, node: Node, *, sized: bool = False) -> Hashable | None:
    """Operator, attributes, and which operands and results are present, with their types; for results the number of axes too.

    A local function has no shapes, so that layers of other widths, or weights that are stored as rows, are equal.

    Args:
        graph: the graph.
        node: the node.
        sized: whether the shapes of operands and results count: a Scan has them. A size that is not an expression of the
            model's dimensions is equal to any other such size.

    Returns:
        ``None`` for a node that cannot be part of a block: one with subgraphs, which may read values of the block by name, and
        one with a result that is referred to outside of the nodes.
    """
    if _has_subgraphs(node) or any(name in graph.pinned or name in graph.annotations for name in node.output):
        return None
    of_operands, of_results = (_sizes, _sizes) if sized else (_nothing, len)
    operands = tuple(_kind(graph.info_of(name), of_operands) if name else None for name in node.input)
    results = tuple(_kind(graph.info_of(name), of_results) if name else None for name in node.output)
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


def _kind(info: Info, of_shape: _OfShape) -> Hashable:
    """Type of a value, and its shape as far as that counts."""
    shape = None if info.shape is None else of_shape(info.shape)
    element = None if info.element is None else _kind(info.element, of_shape)
    return info.dtype, info.container, shape, element, info.type_proto


def _nothing(_: Shape) -> None:
    """A shape that does not count."""


def _sizes(shape: Shape) -> Hashable:
    return tuple(_UNKNOWN_SIZE if getattr(size, "is_anonymous", False) else size for size in shape)
