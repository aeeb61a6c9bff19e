"""Split."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim, ceil_div, exact_quotient, floor_div
from xoptim.facts.info import Info
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import fresh_shape, integer, is_given, listed_dims
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import Values, dimension, valued


@infers("Split")
def split(ctx: NodeContext) -> Results:
    """Without sizes the parts are equal.

    Since operator set 18 ``num_outputs`` gives parts of the size rounded up, and the rest to the last one.
    """
    x = ctx.input(0)
    if x is None or x.container:
        return ()
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
        return tuple([Info(x.dtype, (*head, dimension(ctx, size), *tail)) for size in sizes[:count]])
    pieces = _pieces(x.data, sizes)
    return tuple([valued(x.dtype, (dimension(ctx, sizes[i]),), None if pieces is None else pieces[i]) for i in range(count)])


def _sizes(ctx: NodeContext, total: Dim, count: int) -> Sequence[Dim] | None:
    if is_given(ctx, "split") or ctx.input(1) is not None or not count:  # the first operator set has either
        return listed_dims(ctx, "split")
    if ctx.opset < 18:
        return _equal_parts(total, count)
    parts = integer(ctx, "num_outputs")
    return _rounded_parts(total, parts) if parts is not None and 0 < parts <= 1 << 16 else None


def _equal_parts(total: Dim, count: int) -> list[Dim] | None:
    """Sizes of equal parts; ``None`` for a number that is not divisible, since the model is invalid."""
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
