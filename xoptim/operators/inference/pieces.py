"""Operators that join, cut, stretch and pad along axes: Concat, Split, Expand, Tile and Pad."""

from collections.abc import Sequence

from xoptim.facts.dims import Dim, broadcast, ceil_div, exact_quotient, floor_div
from xoptim.facts.shapes import Info, Shape, all_normalized, broadcast_shapes, normalized
from xoptim.operators.inference.arguments import (
    dim_of,
    fresh_shape,
    infers_tensor,
    integer,
    integers,
    is_given,
    listed,
    listed_count,
    listed_dims,
    vector,
)
from xoptim.operators.inference.binary import agree
from xoptim.operators.inference.values import (
    DATA_LIMIT,
    INTEGERS,
    Values,
    dimension,
    valued,
    values,
)
from xoptim.operators.protocols import NodeContext, Results
from xoptim.operators.registry import infers


@infers("Concat")
def concat(ctx: NodeContext) -> Results:
    """Sizes along ``axis`` (1 by default before operator set 4) add up, the others are equal."""
    parts = [info for info in ctx.inputs if info is not None and not info.container]
    if not parts or len(parts) != len(ctx.inputs):
        return ()
    dtype = next((info.dtype for info in parts if info.dtype), 0)
    if len(parts) == 1:
        return (parts[0],)
    shape = joined(
        ctx, [info.shape for info in parts], integer(ctx, "axis", 1 if ctx.opset < 4 else None)
    )
    if shape is None or len(shape) != 1 or dtype not in INTEGERS:
        return (Info(dtype, shape),)
    return (valued(dtype, shape, _elements(ctx, parts)),)


def joined(ctx: NodeContext, shapes: Sequence[Shape | None], axis: int | None) -> Shape | None:
    """The shape of tensors along an axis, one after the other.

    ``None`` when no rank is known, or ranks or axis do not fit.
    """
    known = [shape for shape in shapes if shape is not None]
    rank = len(known[0]) if known else 0
    place = normalized(axis, rank)
    if place is None or any(len(shape) != rank for shape in known):
        return None
    dims = list(known[0])
    total: Dim = dims[place]
    for shape in known[1:]:
        for index in range(rank):
            if index != place and dims[index] is not shape[index]:
                dims[index] = agree(dims[index], shape[index])
        total = shape[place] + total
    # The other axes follow from any operand, the axis of the concatenation only from all of them.
    dims[place] = total if len(known) == len(shapes) else ctx.fresh()
    return tuple(dims)


def _elements(ctx: NodeContext, parts: Sequence[Info]) -> list[Dim] | None:
    """Values of joined vectors; an unknown element gets a symbol where others are known."""
    if not any(info.data for info in parts):
        return None
    elements: list[Dim] = []
    for index, info in enumerate(parts):
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
    """Without sizes the parts are equal.

    Since operator set 18 ``num_outputs`` gives parts of the size rounded up, and the rest to the
    last one.
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
    if sizes is None or len(sizes) < count:  # a symbol for each part: their sizes may differ
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
    # the first operator set has either
    if is_given(ctx, "split") or ctx.input(1) is not None or not count:
        return listed_dims(ctx, "split")
    if ctx.opset < 18:
        return _equal_parts(total, count)
    parts = integer(ctx, "num_outputs")
    return _rounded_parts(total, parts) if parts is not None and 0 < parts <= 1 << 16 else None


def _equal_parts(total: Dim, count: int) -> list[Dim] | None:
    """Sizes of equal parts.

    ``None`` for a number that is not divisible, since the model is invalid.
    """
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
    """Result for a shape whose length alone is known: it may stretch axes of size 1 only."""
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
    """``repeats`` has one number per axis; before operator set 6 a count and an axis were given."""
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
    """Amounts are all begins, then all ends; negative ones crop."""
    pads = listed_dims(ctx, "pads") if ctx.opset >= 2 else integers(ctx, "paddings")
    some_axes = is_given(ctx, "axes")
    if x.shape is None:
        # two for each axis
        count = None if some_axes else len(pads) if pads is not None else listed_count(ctx, "pads")
        return (Info(x.dtype, None if count is None else fresh_shape(ctx, count // 2)),)
    rank = len(x.shape)
    axes = all_normalized(listed(ctx, "axes"), rank) if some_axes else list(range(rank))
    if axes is None or (pads is not None and len(pads) != 2 * len(axes)):
        return (Info(x.dtype, fresh_shape(ctx, rank)),)
    dims = list(x.shape)
    for index, axis in enumerate(axes):
        dims[axis] = dimension(
            ctx, None if pads is None else dims[axis] + pads[index] + pads[index + len(axes)]
        )
    return (Info(x.dtype, tuple(dims)),)
