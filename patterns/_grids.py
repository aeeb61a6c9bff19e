"""Tensors of positions, made by Range, Unsqueeze, Reshape and Expand."""

from itertools import chain
from typing import Any, NamedTuple

from xoptim.facts.shapes import Shape
from xoptim.match import GraphView, Node, PatternRewriter

from ._nodes import axis_of, is_op
from ._shapes import (
    axes_part,
    find_run,
    inserted_ones,
    measured_tensors,
    results_above,
    uniform_value,
)

Sizes = tuple[tuple[str, dict[str, Any] | None], ...]
"""Parts of a vector of sizes, each a vector or number and ``None``, or a tensor and the attributes
of a Shape that takes a part of its shape.
"""


class Grid(NamedTuple):
    """Positions that a tensor of indices lists, all of them, in order.

    Attributes:
        shape: of the tensor, but for its last axis; other axes than those below have size 1.
        axes: for each column of the indices, the axis along which it counts, rising; of size 1 for
            a column of zeros.
    """

    shape: Shape
    axes: list[int]

    @property
    def sizes(self) -> Shape:
        """Number of positions of each column."""
        return tuple(self.shape[axis] for axis in self.axes)


def columns_of(g: GraphView, name: str) -> tuple[str, ...]:
    """The tensors that are concatenated to the columns of a tensor of indices, of GatherND or
    ScatterND; itself otherwise.
    """
    node, rank = g.node_before(name), g.info(name).rank
    return (
        node.input
        if is_op(node, "Concat") and rank is not None and axis_of(g, node) == rank - 1
        else (name,)
    )


def grid_of(g: GraphView, name: str) -> Grid | None:
    """The grid whose positions a tensor of indices lists; ``None`` when it is not known to."""
    shape, columns = g.try_infer_shape(name), columns_of(g, name)
    if not shape or shape[-1] != len(columns):
        return None
    axes: list[int] = []
    for column in columns:
        axis = counted_column(g, column, shape[:-1])
        if axis is None and uniform_value(g, column) == 0:  # counts along an axis of one position
            axis = next(
                (a for a in range(axes[-1] + 1 if axes else 0, len(shape) - 1) if shape[a] == 1),
                None,
            )
        if axis is None:
            return None
        axes.append(axis)
    rest = [size for axis, size in enumerate(shape[:-1]) if axis not in axes]
    return (
        Grid(shape[:-1], axes)
        if axes == sorted(set(axes)) and all(size == 1 for size in rest)
        else None
    )


def counted_column(g: GraphView, name: str, grid: Shape) -> int | None:
    """The axis along which a column of indices over a grid counts from 0; ``None`` if none does."""
    return counted_axis(g, name, (*grid, 1)) if g.try_infer_shape(name) == (*grid, 1) else None


def counted_axis(g: GraphView, name: str, shape: Shape, depth: int = 8) -> int | None:
    """The axis along which the elements of a result are 0, 1, 2, ....

    ``None`` if there is no such axis.
    """
    node = g.node_before(name)
    if is_op(node, "Range"):
        first, step = (g.get_constant_scalar(node.input[place]) for place in (0, 2))
        return 0 if first == 0 and step == 1 else None
    source = (
        g.try_infer_shape(node.input[0])
        if is_op(node, "Unsqueeze", "Reshape", "Expand") and depth
        else None
    )
    if node is None or source is None:
        return None
    axis = counted_axis(g, node.input[0], source, depth - 1)
    if axis is None:
        return None
    if node.op_type == "Expand":
        place = axis + len(shape) - len(source)
        return place if shape[place] == source[axis] else None
    ones = inserted_ones(source, shape)
    return None if ones is None else [i for i in range(len(shape)) if i not in ones][axis]


def counted_from_end(g: GraphView, name: str) -> int | None:
    """The axis along which a result counts, from the end, where broadcasting aligns axes.

    ``None`` if there is no such axis.
    """
    shape = g.try_infer_shape(name)
    axis = None if shape is None else counted_axis(g, name, shape)
    return None if axis is None or shape is None else axis - len(shape)


def computed_sizes(g: GraphView, node: Node, wanted: Shape) -> Sizes | None:
    """Results above a node that are these sizes, together or one by one.

    ``None`` when one of them is not computed.
    """
    whole = _computed(g, node, wanted)
    if whole is not None:
        return (whole,)
    parts = [_computed(g, node, (size,)) for size in wanted]
    return (
        tuple(part for part in parts if part is not None) if parts and None not in parts else None
    )


def _computed(g: GraphView, node: Node, wanted: Shape) -> tuple[str, dict[str, Any] | None] | None:
    """A result with these elements, or a tensor and the part of its shape that has them."""
    for name in results_above(g, node):
        if g.info(name).data == wanted and g.info(name).rank in (0, 1):
            return name, None
    for name, shape in chain(g.given_tensors(wanted[:1]), measured_tensors(g, node)):
        start = find_run(shape, wanted)
        if start is not None and (len(shape) == len(wanted) or g.main_opset >= 15):
            return name, axes_part(shape, start, len(wanted))
    return None


def write_sizes(g: PatternRewriter, sizes: Sizes) -> tuple[str, list[Node]]:
    """One vector of sizes, and the nodes that make it."""
    nodes: list[Node] = []
    names = []
    for name, part in sizes:
        if part is not None:
            nodes.append(g.make_node("Shape", [name], **part))
        elif g.info(name).rank == 0:
            nodes.append(
                g.make_node_check_opset("Unsqueeze", [name], g.unique_name("size"), axes=[0])
            )
        names.append(name if part is None and g.info(name).rank else nodes[-1].output[0])
    if len(names) > 1:
        nodes.append(g.make_node("Concat", names, axis=0))
    return nodes[-1].output[0] if nodes else names[0], nodes
