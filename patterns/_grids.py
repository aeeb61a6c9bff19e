"""Tensors of indices that Range, Unsqueeze, Reshape and Expand compute, such as meshgrids."""

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
"""Parts of a vector of sizes, as pairs: a vector or scalar with ``None``, or a tensor with the
attributes of the Shape that reads the sizes from it.
"""


class Grid(NamedTuple):
    """A tensor of indices that lists all positions of a grid, in order.

    Attributes:
        shape: the shape of the tensor, without its last axis. Axes that are not in ``axes`` have
            size 1.
        axes: for each column of the indices, the axis along which it counts, in ascending order. It
            has size 1 for a column of zeros.
    """

    shape: Shape
    axes: list[int]

    @property
    def sizes(self) -> Shape:
        """Number of positions of each column."""
        return tuple(self.shape[axis] for axis in self.axes)


def columns_of(g: GraphView, name: str) -> tuple[str, ...]:
    """The columns of a tensor of indices of GatherND or ScatterND, if a Concat joins them.

    Otherwise the tensor itself, as a single column.
    """
    node, rank = g.node_before(name), g.info(name).rank
    return (
        node.input
        if is_op(node, "Concat") and rank is not None and axis_of(g, node) == rank - 1
        else (name,)
    )


def grid_of(g: GraphView, name: str) -> Grid | None:
    """The grid whose positions a tensor of indices lists; ``None`` if it is not known to be one."""
    shape, columns = g.try_infer_shape(name), columns_of(g, name)
    if not shape or shape[-1] != len(columns):
        return None
    axes: list[int] = []
    for column in columns:
        axis = counted_column(g, column, shape[:-1])
        # A column of zeros counts along an axis of size 1.
        if axis is None and uniform_value(g, column) == 0:
            axis = next(
                (a for a in range(axes[-1] + 1 if axes else 0, len(shape) - 1) if shape[a] == 1),
                None,
            )
        if axis is None:
            return None
        axes.append(axis)
    other_sizes = [size for axis, size in enumerate(shape[:-1]) if axis not in axes]
    return (
        Grid(shape[:-1], axes)
        if axes == sorted(set(axes)) and all(size == 1 for size in other_sizes)
        else None
    )


def counted_column(g: GraphView, name: str, grid: Shape) -> int | None:
    """The axis of a grid along which a column of indices counts from 0, or ``None``."""
    return counted_axis(g, name, (*grid, 1)) if g.try_infer_shape(name) == (*grid, 1) else None


def counted_axis(g: GraphView, name: str, shape: Shape, depth: int = 8) -> int | None:
    """The axis along which the elements of a result are 0, 1, 2, ....

    ``None`` if there is no such axis.
    """
    node = g.node_before(name)
    if is_op(node, "Range"):
        first, step = (g.get_constant_scalar(node.input[index]) for index in (0, 2))
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
        result_axis = axis + len(shape) - len(source)
        return result_axis if shape[result_axis] == source[axis] else None
    ones = inserted_ones(source, shape)
    return None if ones is None else [i for i in range(len(shape)) if i not in ones][axis]


def counted_from_end(g: GraphView, name: str, result: str) -> int | None:
    """The axis along which a tensor counts from 0, as a negative number, or ``None``.

    Broadcasting aligns the last axes of tensors, so that negative axes can be compared. ``None``
    also if broadcasting to the shape of ``result`` may stretch the axis, which then does not count.
    """
    shape, broadcast = g.try_infer_shape(name), g.try_infer_shape(result)
    axis = None if shape is None else counted_axis(g, name, shape)
    if axis is None or shape is None or broadcast is None or len(shape) > len(broadcast):
        return None
    axis -= len(shape)
    return axis if shape[axis] == broadcast[axis] else None


def computed_sizes(g: GraphView, node: Node, sizes: Shape) -> Sizes | None:
    """Tensors before a node from which a vector of these sizes can be made.

    ``None`` if a size is not computed before the node.
    """
    joint_part = _computed(g, node, sizes)
    if joint_part is not None:
        return (joint_part,)
    parts = [_computed(g, node, (size,)) for size in sizes]
    return (
        tuple(part for part in parts if part is not None) if parts and None not in parts else None
    )


def _computed(g: GraphView, node: Node, sizes: Shape) -> tuple[str, dict[str, Any] | None] | None:
    """A tensor with these elements, or a tensor whose Shape, with attributes, returns them."""
    for name in results_above(g, node):
        if g.info(name).data == sizes and g.info(name).rank in (0, 1):
            return name, None
    for name, shape in chain(g.given_tensors(sizes[:1]), measured_tensors(g, node)):
        start = find_run(shape, sizes)
        if start is not None and (len(shape) == len(sizes) or g.main_opset >= 15):
            return name, axes_part(shape, start, len(sizes))
    return None


def write_sizes(g: PatternRewriter, sizes: Sizes) -> tuple[str, list[Node]]:
    """The name of a vector of sizes, and the nodes that compute it."""
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
