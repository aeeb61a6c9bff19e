"""Operators that repeat or add elements along axes: Expand, Tile and Pad."""

from math import prod

import numpy as np

from xoptim.facts.dims import Dim, broadcast
from xoptim.facts.shapes import Info, Shape, all_normalized, broadcast_shapes
from xoptim.operators.axes import (
    Axes,
    AxesView,
    Numbers,
    Shapes,
    axes_mixed,
    axes_of_first,
    named_axes,
)
from xoptim.operators.costs import no_operations
from xoptim.operators.evaluate.kernel_table import LARGEST_RESULT, ints, kernel, required
from xoptim.operators.inference.arguments import (
    dim_of,
    fresh_shape,
    infers_tensor,
    integers,
    is_given,
    listed,
    listed_count,
    listed_dims,
    vector,
)
from xoptim.operators.inference.values import DATA_LIMIT, Values, dimension, valued
from xoptim.operators.protocols import Array, EvaluationNode, NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, carries, counts, describes, register, steers, takes

register(Trait.MOVES, "Expand", "Tile")
register(Trait.TAKES_EMPTY, "Expand", "Tile")
register(Trait.KEEPS_FINITE, "Expand", "Tile")
counts("Expand", "Tile", "Pad")(no_operations)
register(Trait.KEEPS_FLOAT16, "Expand", "Pad", "Tile")
register(Trait.KEEPS_NUMBER, "Expand", "Tile")
takes({1: "one"}, "Expand", "Tile")
takes({1: "one", 3: "axes"}, "Pad")
takes({1: "one"}, "Pad", domain="com.microsoft")
carries("Expand", "Pad", "Tile")
carries("Pad", domain="com.microsoft")
steers(1, "Expand", "Pad", "Tile")
steers(1, "Pad", domain="com.microsoft")


@infers_tensor("Expand")
def expand(ctx: NodeContext, x: Info) -> Results:
    """The input broadcast against a shape, in both directions: a 1 in the shape keeps the dimension
    of the input.
    """
    target = vector(ctx, 1)
    if target is None:
        return (Info(x.dtype, _unknown_target(ctx, x.shape, dim_of(ctx.input(1), 0, 1))),)
    shape = broadcast_shapes(x.shape, tuple([dimension(ctx, size) for size in target]))
    if shape is x.shape and x.data is None:
        return (x,)
    return (valued(x.dtype, shape, _repeated(x.data, shape)),)


def _unknown_target(ctx: NodeContext, shape: Shape | None, count: Dim | None) -> Shape | None:
    """Shape for a target of known length: it may stretch dimensions of size 1."""
    if shape is None or type(count) is not int:
        return None
    lead = len(shape) - count
    padded = (1,) * -lead + shape if lead < 0 else shape
    return tuple(
        [dim if axis < lead else broadcast(dim, ctx.fresh()) for axis, dim in enumerate(padded)]
    )


def _repeated(data: Values | None, shape: Shape | None) -> Values | None:
    if data is None or shape is None or len(data) != 1 or len(shape) != 1:
        return data
    size = shape[0]
    return data * size if type(size) is int and size <= DATA_LIMIT else None


@infers_tensor("Tile")
def tile(ctx: NodeContext, x: Info) -> Results:
    """``repeats`` has one number per axis; before operator set 6 there were a count and an axis."""
    shape = x.shape
    if ctx.opset < 6:
        return (Info(x.dtype, None if shape is None else fresh_shape(ctx, len(shape))),)
    repeats = vector(ctx, 1)
    if repeats is None:
        count = dim_of(ctx.input(1), 0, 1) if shape is None else len(shape)
        return (Info(x.dtype, fresh_shape(ctx, count) if type(count) is int else None),)
    if shape is None:
        return (Info(x.dtype, fresh_shape(ctx, len(repeats))),)
    if len(shape) != len(repeats):
        return (Info(x.dtype),)
    tiled = tuple(
        [
            dim if times == 1 else dimension(ctx, dim * times)
            for dim, times in zip(shape, repeats, strict=True)
        ]
    )
    return (valued(x.dtype, tiled, _tiled(x.data, tiled)),)


def _tiled(data: Values | None, shape: Shape) -> Values | None:
    size = shape[0] if len(shape) == 1 else len(data or ())
    if not data or type(size) is not int or size > DATA_LIMIT:
        return data if data == () else None
    return data * (size // len(data))


@infers_tensor("Pad")
def pad(ctx: NodeContext, x: Info) -> Results:
    """``pads`` has all begins, then all ends; negative ones crop."""
    pads = listed_dims(ctx, "pads") if ctx.opset >= 2 else integers(ctx, "paddings")
    has_axes = is_given(ctx, "axes")
    if x.shape is None:
        # two for each axis
        count = None if has_axes else len(pads) if pads is not None else listed_count(ctx, "pads")
        return (Info(x.dtype, None if count is None else fresh_shape(ctx, count // 2)),)
    rank = len(x.shape)
    axes = all_normalized(listed(ctx, "axes"), rank) if has_axes else list(range(rank))
    if axes is None or (pads is not None and len(pads) != 2 * len(axes)):
        return (Info(x.dtype, fresh_shape(ctx, rank)),)
    dims = list(x.shape)
    for index, axis in enumerate(axes):
        dims[axis] = dimension(
            ctx, None if pads is None else dims[axis] + pads[index] + pads[index + len(axes)]
        )
    return (Info(x.dtype, tuple(dims)),)


@describes("Pad")
def padded_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """``pads`` has two numbers for each axis, or for each one in ``axes``."""
    pads, rank = g.get_argument(node, "pads"), len(shapes[0])
    if g.get_argument(node, "axes") is not None:
        axes = named_axes(g, node, rank)
        return axes_mixed(node, shapes, axes, {"axes": axes} if axes else {})
    if not isinstance(pads, list) or len(pads) != 2 * rank:
        return None
    sides = dict(enumerate(zip(pads[:rank], pads[rank:], strict=True)))
    padded = (axis for axis, side in sides.items() if side != (0, 0))
    return axes_of_first(node, shapes, whole=padded, numbers={"pads": Numbers(sides, (0, 0))})


@describes("Expand", "Tile")
def sized_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """Expand, unless it adds axes, and Tile: the second operand has a number for each axis."""
    sizes, rank, result = (
        g.get_ints(node.input[1]),
        len(shapes[0]),
        g.try_infer_shape(node.output[0]),
    )
    if sizes is None or len(sizes) > rank or result is None or len(result) != rank:
        return None
    sizes = [1] * (rank - len(sizes)) + sizes
    grown = (axis for axis, (a, b) in enumerate(zip(shapes[0], result, strict=True)) if a != b)
    return axes_of_first(node, shapes, whole=grown, numbers={1: Numbers(dict(enumerate(sizes)), 1)})


@kernel("Expand")
def expand_kernel(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The data broadcast with a shape."""
    data = required(inputs, 0)
    dims = np.broadcast_shapes(data.shape, tuple(ints(required(inputs, 1))))
    if prod(dims) > max(LARGEST_RESULT, data.size):
        return None
    return [np.broadcast_to(data, dims).copy()]
