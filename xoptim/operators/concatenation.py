"""Operators that join tensors along an axis and split them: Concat and Split."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from xoptim.facts.dims import Dim, ceil_div, exact_quotient, floor_div
from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.operators.axes import Axes, AxesView, Shapes, mixed_along_axis
from xoptim.operators.costs import CostKind, no_operations
from xoptim.operators.evaluate.kernel_table import checked_axis, ints_of, kernel, required
from xoptim.operators.inference.arguments import (
    agree,
    fresh_shape,
    infers_tensor,
    integer,
    is_given,
    listed_dims,
)
from xoptim.operators.inference.values import (
    DATA_LIMIT,
    INTEGERS,
    Values,
    dimension,
    valued,
    values,
)
from xoptim.operators.protocols import Array, EvaluationNode, NodeContext, NodeView, Results
from xoptim.operators.registry import (
    ALL_OPERANDS,
    Trait,
    carries,
    costs,
    counts,
    describes,
    infers,
    register,
)

register(Trait.MOVES, "Split")
register(Trait.TAKES_EMPTY, "Split")
register(Trait.VARIADIC, "Concat", "Split")
register(Trait.KEEPS_FINITE, "Concat", "Split")
register(Trait.KEEPS_FLOAT16, "Concat", "Split")
carries("Concat", operands=ALL_OPERANDS)
carries("Split")
costs(CostKind.COPIED, "Concat", "Split")
counts("Concat", "Split")(no_operations)


@infers("Concat")
def concat(ctx: NodeContext) -> Results:
    """Sizes along ``axis`` (1 by default before operator set 4) add up, other sizes are equal."""
    operands = [info for info in ctx.inputs if info is not None and not info.container]
    if not operands or len(operands) != len(ctx.inputs):
        return ()
    dtype = next((info.dtype for info in operands if info.dtype), 0)
    if len(operands) == 1:
        return (operands[0],)
    shape = joined(
        ctx, [info.shape for info in operands], integer(ctx, "axis", 1 if ctx.opset < 4 else None)
    )
    if shape is None or len(shape) != 1 or dtype not in INTEGERS:
        return (Info(dtype, shape),)
    return (valued(dtype, shape, _elements(ctx, operands)),)


def joined(ctx: NodeContext, shapes: Sequence[Shape | None], axis: int | None) -> Shape | None:
    """The shape of a concatenation along an axis.

    ``None`` when no rank is known, or ranks or axis do not fit.
    """
    known_shapes = [shape for shape in shapes if shape is not None]
    rank = len(known_shapes[0]) if known_shapes else 0
    place = normalized(axis, rank)
    if place is None or any(len(shape) != rank for shape in known_shapes):
        return None
    dims = list(known_shapes[0])
    total: Dim = dims[place]
    for shape in known_shapes[1:]:
        for index in range(rank):
            if index != place and dims[index] is not shape[index]:
                dims[index] = agree(dims[index], shape[index])
        total = shape[place] + total
    # The other axes follow from any operand, the axis of the concatenation only from all of them.
    dims[place] = total if len(known_shapes) == len(shapes) else ctx.fresh()
    return tuple(dims)


def _elements(ctx: NodeContext, operands: Sequence[Info]) -> list[Dim] | None:
    """Values of joined vectors; an unknown element gets a symbol if some elements are known."""
    if not any(info.data for info in operands):
        return None
    elements: list[Dim] = []
    for index, info in enumerate(operands):
        data = values(ctx, index)
        if data is None:
            size = info.shape[0] if info.shape else None
            if type(size) is not int or size > DATA_LIMIT:
                return None
            data = tuple([ctx.fresh(nonnegative=False) for _ in range(size)])
        elements += data
    return elements


@infers_tensor("Split")
def split(ctx: NodeContext, x: Info) -> Results:
    """Without ``split``, the outputs have equal sizes.

    Since operator set 18, ``num_outputs`` rounds their size up, and the last one gets the rest.
    """
    count = ctx.num_outputs
    if x.shape is None:
        return (Info(x.dtype),) * count
    rank = len(x.shape)
    axis = normalized(integer(ctx, "axis", 0), rank)
    if axis is None:
        return tuple([Info(x.dtype, fresh_shape(ctx, rank)) for _ in range(count)])
    sizes = _sizes(ctx, x.shape[axis], count)
    head, tail = x.shape[:axis], x.shape[axis + 1 :]
    if sizes is None or len(sizes) < count:  # a symbol for each: their sizes may differ
        return tuple([Info(x.dtype, (*head, ctx.fresh(), *tail)) for _ in range(count)])
    if x.data is None:
        return tuple(
            [Info(x.dtype, (*head, dimension(ctx, size), *tail)) for size in sizes[:count]]
        )
    pieces = _pieces(x.data, sizes)
    return tuple(
        [
            valued(x.dtype, (dimension(ctx, sizes[i]),), None if pieces is None else pieces[i])
            for i in range(count)
        ]
    )


def _sizes(ctx: NodeContext, total: Dim, count: int) -> Sequence[Dim] | None:
    # in operator set 1, the sizes may be an attribute or an operand
    if is_given(ctx, "split") or ctx.input(1) is not None or not count:
        return listed_dims(ctx, "split")
    if ctx.opset < 18:
        return _equal_parts(total, count)
    parts = integer(ctx, "num_outputs")
    return _rounded_parts(total, parts) if parts is not None and 0 < parts <= 1 << 16 else None


def _equal_parts(total: Dim, count: int) -> list[Dim] | None:
    """Equal sizes; ``None`` for a number that is not divisible, since the model is invalid."""
    if type(total) is int and total % count:
        return None
    return [floor_div(total, count)] * count


def _rounded_parts(total: Dim, count: int) -> list[Dim] | None:
    exact = exact_quotient(total, count)
    if exact is not None:
        return [exact] * count
    size = ceil_div(total, count)
    last = total - size * (count - 1)
    return None if type(last) is int and last < 0 else [size] * (count - 1) + [last]


def _pieces(data: Values, sizes: Sequence[Dim]) -> list[Values] | None:
    pieces: list[Values] = []
    start = 0
    for size in sizes:
        if type(size) is not int or size < 0:
            return None
        pieces.append(data[start : start + size])
        start += size
    return pieces if start == len(data) else None


describes("Split")(mixed_along_axis)


@describes("Concat")
def concat_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """All operands have the same axes."""
    axes = mixed_along_axis(g, node, shapes)
    if axes is None or len({*map(len, shapes)}) > 1:
        return None
    return replace(axes, operands=axes.operands[:1] * len(shapes))


@kernel("Concat")
def concat_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Tensors of one dtype, concatenated."""
    axis = node.attribute("axis", 1 if node.opset < 4 else None)
    values = [value for value in inputs if value is not None]
    if (
        axis is None
        or len(values) != len(inputs)
        or any(v.dtype != values[0].dtype for v in values)
    ):
        return None
    return [np.concatenate(values, axis=checked_axis(axis, values[0].ndim))]


@kernel("Split")
def split_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Consecutive slices of one axis: of lengths in ``split``, or equal, the last one shorter."""
    data = required(inputs, 0)
    axis = checked_axis(node.attribute("axis", 0), data.ndim)
    lengths = split_lengths(node, inputs, data.shape[axis])
    return (
        None
        if lengths is None
        else [part.copy() for part in np.split(data, list(accumulate(lengths))[:-1], axis=axis)]
    )


def split_lengths(
    node: EvaluationNode, inputs: list[Array | None], length: int
) -> list[int] | None:
    """The lengths of a Split's outputs, ``None`` when they do not fit an axis of this length."""
    lengths = ints_of(node, "split", inputs)
    if lengths is None:
        lengths = _equal_lengths(length, node)
    return (
        lengths
        if sum(lengths) == length and min(lengths) >= 0 and len(lengths) == node.num_outputs
        else None
    )


def _equal_lengths(length: int, node: EvaluationNode) -> list[int]:
    count = node.attribute("num_outputs", node.num_outputs)
    part = -(-length // count)
    if count > length if node.opset >= 18 else length % count:
        raise ValueError(f"{length} does not divide into {count}")
    return [part] * (count - 1) + [length - part * (count - 1)]
