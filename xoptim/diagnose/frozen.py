"""Sizes that an export took from its example input although they depend on the data.

Tracing exporters write them for Python loops over the values of a tensor.
"""

from collections.abc import Iterator
from typing import Final

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.view import GraphView

_DATA_DEPENDENT: Final = frozenset(("Compress", "NonMaxSuppression", "NonZero", "Unique"))
"""Operators whose output length depends on the values of their operands."""
_KEEP_LENGTHS: Final = frozenset(("Cast", "Identity", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators that keep lengths."""
_RESIZING_OPERATORS: Final = ("Expand", "Reshape", "Split")
"""Operators that read the sizes of their results from an operand or attribute."""
_MAX_STEPS: Final = 8
"""Maximum number of `_KEEP_LENGTHS` operators in a row."""


def frozen_sizes(graph: Graph) -> list[str]:
    """A warning for each node, in all subgraphs, that gives constant sizes to a tensor of
    data-dependent length.
    """
    return [text for part in graph.all_graphs() for text in _frozen(GraphView(part))]


def _frozen(g: GraphView) -> Iterator[str]:
    for node in g.iter_nodes():
        if node.domain or node.op_type not in _RESIZING_OPERATORS:
            continue
        source = _length_source(g, node.input[0])
        if source is None:
            continue
        if _splits(g, node) or _reshapes(g, node) or _expands(g, node):
            yield (
                f"the sizes of {node.op_type} at {node.name or node.output[0]!r} come from the "
                f"example input of the export, but {source.op_type} decides them by the data: the "
                "model fails, or computes something else, for other inputs; export it again "
                "without loops over values"
            )


def _length_source(g: GraphView, name: str) -> Node | None:
    """The node of data-dependent output length that decides the length of a tensor."""
    node = g.node_before(name)
    for _ in range(_MAX_STEPS):
        if node is None or node.domain or node.op_type not in _KEEP_LENGTHS:
            break
        node = g.node_before(node.input[0])
    if node is None or node.domain or node.op_type not in _DATA_DEPENDENT:
        return None
    return node


def _splits(g: GraphView, node: Node) -> bool:
    """Whether a Split divides an axis of unknown length into parts of constant sizes."""
    shape = g.try_infer_shape(node.input[0])
    if node.op_type != "Split" or shape is None:
        return False
    axis = node.attribute.get("axis", 0)
    if not -len(shape) <= axis < len(shape) or isinstance(shape[axis], int):
        return False
    sizes = g.get_argument(node, "split")
    return isinstance(sizes, list) and len(sizes) > 1


def _reshapes(g: GraphView, node: Node) -> bool:
    """Whether a Reshape has a constant shape without an axis that is inferred or copied."""
    if node.op_type != "Reshape":
        return False
    shape, sizes = g.try_infer_shape(node.input[0]), g.get_ints(node.input[1])
    if shape is None or all(isinstance(size, int) for size in shape) or not sizes:
        return False
    return all(size > 0 for size in sizes)


def _expands(g: GraphView, node: Node) -> bool:
    """Whether an Expand has a constant size above 1 for an axis of unknown length."""
    if node.op_type != "Expand":
        return False
    shape, sizes = g.try_infer_shape(node.input[0]), g.get_ints(node.input[1])
    if shape is None or not sizes:
        return False
    pairs = zip(reversed(shape), reversed(sizes), strict=False)
    return any(size > 1 and not isinstance(length, int) for length, size in pairs)
