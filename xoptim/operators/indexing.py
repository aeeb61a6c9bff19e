"""Operators that select or write by value or position: Gather, Scatter, NonZero, Unique, Compress,
OneHot, TopK.
"""

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import Dim, SymbolicDim, content, lower_bound, product
from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.operators.axes import Axes, AxesView, AxisOperand, Shapes, axis_within, label_range
from xoptim.operators.costs import CostKind, no_operations
from xoptim.operators.evaluate.kernel_table import checked_axis, kernel, required
from xoptim.operators.inference.arguments import (
    dtype_of,
    fresh_shape,
    infers_tensor,
    integer,
    place_of,
    scalar,
    shape_of,
    shapes,
    vector,
)
from xoptim.operators.inference.shared import like, same_shape
from xoptim.operators.inference.values import dimension, valued, values
from xoptim.operators.protocols import (
    Array,
    EvaluationNode,
    Indices,
    NodeContext,
    NodeView,
    Results,
)
from xoptim.operators.registry import (
    Trait,
    carries,
    costs,
    counts,
    describes,
    infers,
    kinks,
    register,
    steers,
    takes,
)

register(Trait.MOVES, "Gather")
register(Trait.TAKES_EMPTY, "Gather")
register(Trait.KEEPS_FINITE, "Gather")
register(Trait.INDEXES, "Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND")
register(Trait.SAME_SHAPE, "ScatterElements", "ScatterND")
costs(CostKind.COPIED, "Gather", "GatherND")
counts("Gather", "GatherND", "GatherElements", "ScatterND", "ScatterElements")(no_operations)
counts("NonZero", "OneHot")(no_operations)
register(Trait.KEEPS_FLOAT16, "Gather", "GatherElements", "GatherND")
register(Trait.KEEPS_NUMBER, "TopK")
register(Trait.BOUNDS, "OneHot", "TopK")
register(Trait.TIES, "TopK", "Unique")
kinks("TopK", "k")
takes({1: Indices(0, "axis")}, "Gather", "GatherElements", "ScatterElements", "Scatter")
takes({1: Indices(0, "all")}, "GatherND", "ScatterND")
takes({1: Indices(0, "all")}, "GatherND", domain="com.microsoft")
takes({1: Indices(0, "gather_axis")}, "GatherBlockQuantized", domain="com.microsoft")
takes({0: "index", 1: "count"}, "OneHot")
takes({1: "mask"}, "Compress")
takes({1: "one"}, "TopK")
carries("Compress", "Gather", "GatherElements", "GatherND")
carries("GatherND", domain="com.microsoft")
carries("ScatterElements", "ScatterND", operands=(0, 2))
steers(1, "OneHot", "TopK")


@shapes("GatherBlockQuantized", typed_by=(2,), operands=(0, 1), domain="com.microsoft")
def gather_block_quantized(
    ctx: NodeContext, data: Shape | None, indices: Shape | None
) -> Shape | None:
    """As Gather, with the type of the scales.

    8-bit data holds 8 / ``bits`` numbers per element of the last axis.
    """
    if not data or indices is None:
        return None
    axis, kind = normalized(integer(ctx, "gather_axis", 0), len(data)), dtype_of(ctx.input(0))
    bits = integer(ctx, "bits", 4)
    if axis is None or bits not in (2, 4, 8) or not kind:
        return fresh_shape(ctx, len(data) + len(indices) - 1)
    dims = (*data[:-1], data[-1] * (8 // bits if kind == TensorProto.UINT8 else 1))
    return (*dims[:axis], *indices, *dims[axis + 1 :])


@infers("Gather")
def gather(ctx: NodeContext) -> Results:
    """The shape of the indices replaces one axis."""
    x = ctx.input(0)
    shape, indices = shape_of(x), shape_of(ctx.input(1))
    axis = None if shape is None else normalized(integer(ctx, "axis", 0), len(shape))
    if x is None or shape is None or indices is None or axis is None:
        return (Info(dtype_of(x)),)
    result = shape[:axis] + indices + shape[axis + 1 :]
    if x.data is None or len(result) > 1:
        return (Info(x.dtype, result),)
    return (valued(x.dtype, result, _picked(x.data, vector(ctx, 1))),)


def _picked(data: Sequence[Dim], indices: Sequence[Dim] | None) -> list[Dim | None] | None:
    if indices is None:
        return None
    size = len(data)
    return [data[i] if type(i) is int and -size <= i < size else None for i in indices]


@infers("NonZero")
def non_zero(ctx: NodeContext) -> Results:
    """One row per axis. For a scalar, the specification has no row, and onnxruntime has one row."""
    shape = shape_of(ctx.input(0))
    return (Info(TensorProto.INT64, (len(shape) if shape else ctx.fresh(), ctx.fresh())),)


@infers("Unique")
def unique(ctx: NodeContext) -> Results:
    """Distinct elements, or slices along ``axis``; then the first positions, the inverse indices
    and the counts.
    """
    x = ctx.input(0)
    shape, count = shape_of(x), ctx.fresh()
    counts = Info(TensorProto.INT64, (count,))
    if ctx.attribute("axis") is None:
        total = ctx.fresh() if shape is None else product(shape)
        return (Info(dtype_of(x), (count,)), counts, Info(TensorProto.INT64, (total,)), counts)
    axis = None if shape is None else normalized(integer(ctx, "axis"), len(shape))
    if shape is None or axis is None:
        return (Info(dtype_of(x)), counts, Info(TensorProto.INT64, (ctx.fresh(),)), counts)
    dims = (*shape[:axis], count, *shape[axis + 1 :])
    return (Info(dtype_of(x), dims), counts, Info(TensorProto.INT64, (shape[axis],)), counts)


@shapes("Compress")
def compress(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """The selected slices along ``axis``, or elements of the flattened input."""
    if ctx.attribute("axis") is None:
        return (_selected(ctx, None if shape is None else product(shape)),)
    if shape is None:
        return None
    axis = normalized(integer(ctx, "axis"), len(shape))
    if axis is None:
        return fresh_shape(ctx, len(shape))
    return (*shape[:axis], _selected(ctx, shape[axis]), *shape[axis + 1 :])


def _selected(ctx: NodeContext, length: Dim | None) -> Dim:
    """Number of positions that a Compress selects from ``length`` positions.

    onnxruntime ignores the end of a condition that is longer.
    """
    condition = ctx.constant(1)
    if condition is None or length is None:
        return ctx.fresh()
    flags, least = condition.ravel(), lower_bound(length) or 0
    if isinstance(length, SymbolicDim):
        if ctx.assumes("nonempty") and _is_product(length):  # 3 * n is at least 3
            least = max(least, content(length))
        if flags[least:].any():
            return ctx.fresh()
    return int(np.count_nonzero(flags[:least]))


def _is_product(dim: SymbolicDim) -> bool:
    """Whether a dimension is a product of a number and dimensions of inputs."""
    is_one_term = len(dim.terms) == 1 and not dim.constant
    return is_one_term and dim.is_polynomial and not dim.is_anonymous


@shapes("OneHot", typed_by=(2,))
def one_hot(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """A new axis, last by default, with the length in the second input, which may be of any numeric
    type.
    """
    axis = None if shape is None else normalized(integer(ctx, "axis", -1), len(shape) + 1)
    return None if shape is None or axis is None else (*shape[:axis], _depth(ctx), *shape[axis:])


def _depth(ctx: NodeContext) -> Dim:
    data = values(ctx, 1) or ctx.ints(1)
    return dimension(ctx, data[0] if data is not None and len(data) == 1 else None)


@infers_tensor("TopK")
def top_k(ctx: NodeContext, x: Info) -> Results:
    """Values and positions."""
    if x.shape is None:
        return (Info(x.dtype), Info(TensorProto.INT64))
    rank = len(x.shape)
    axis = normalized(integer(ctx, "axis", -1), rank)
    place = place_of(ctx, "k")
    k: Dim | None = integer(ctx, "k") if place is None else scalar(ctx, place)
    if axis is None:
        return (Info(x.dtype, shape := fresh_shape(ctx, rank)), Info(TensorProto.INT64, shape))
    shape = (*x.shape[:axis], dimension(ctx, k), *x.shape[axis + 1 :])
    return (Info(x.dtype, shape), Info(TensorProto.INT64, shape))


@infers("Scatter", "ScatterElements", "ScatterND")
def scatter(ctx: NodeContext) -> Results:
    """Type and shape of the data, and the elements of a vector, such as a changed shape."""
    x = ctx.input(0)
    if x is None or x.data is None or x.shape is None:
        return (x,)
    return (valued(x.dtype, x.shape, _written(ctx, list(x.data))),)


def _written(ctx: NodeContext, data: list[Dim]) -> list[Dim] | None:
    """The elements afterwards; ``None`` if an index is unknown, or written twice."""
    indices, values = ctx.ints(1), vector(ctx, 2)
    is_plain = ctx.op_type != "ScatterND" and ctx.attribute("reduction", "none") == "none"
    if indices is None or values is None or len(indices) != len(values) or not is_plain:
        return None
    if not all(-len(data) <= index < len(data) for index in indices):
        return None
    updates = {index % len(data): value for index, value in zip(indices, values, strict=True)}
    return (
        [updates.get(index, value) for index, value in enumerate(data)]
        if len(updates) == len(indices)
        else None
    )


shapes("GatherElements", operands=(1,))(same_shape)  # one element per index
infers("NGramRepeatBlock", domain="com.microsoft")(like(1))  # scores, some of them replaced


@describes("Gather")
def gather_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """The axes of the indices replace one of the first operand."""
    labels, rank = label_range(len(shapes[0])), len(shapes[0])
    axis, index_labels = axis_within(g, node, rank), tuple(range(rank, rank + len(shapes[1])))
    if axis is None:
        return None
    operands = AxisOperand(labels, frozenset((axis,))), AxisOperand(index_labels, is_apart=True)
    return Axes(
        operands,
        ((*labels[:axis], *index_labels, *labels[axis + 1 :]),),
        blocks={axis: index_labels},
        names={"axis": axis},
    )


@kernel("Gather")
def gather_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Entries of one axis, picked by position; negative positions count from the end."""
    data, positions = required(inputs, 0), required(inputs, 1)
    axis = checked_axis(node.attribute("axis", 0), data.ndim)
    if not _within(positions, data.shape[axis]):
        return None
    return [np.asarray(np.take(data, positions, axis=axis))]


def _within(positions: Array, length: int) -> bool:
    """Whether all positions are integers of an axis of that length, counted from either end."""
    if positions.dtype.kind not in "iu":
        return False
    return positions.size == 0 or bool(positions.min() >= -length and positions.max() < length)
