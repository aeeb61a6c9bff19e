"""Concat."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import integer
from xoptim.inference.broadcasting import agree
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import DATA_LIMIT, INTEGERS, valued, values


@infers("Concat")
def concat(ctx: NodeContext) -> Results:
    """Sizes along ``axis`` (1 by default before operator set 4) add up, the others are equal."""
    parts = [info for info in ctx.inputs if info is not None and not info.container]
    if not parts or len(parts) != len(ctx.inputs):
        return ()
    dtype = next((info.dtype for info in parts if info.dtype), 0)
    if len(parts) == 1:
        return (parts[0],)
    shape = _joined(ctx, [info.shape for info in parts], integer(ctx, "axis", 1 if ctx.opset < 4 else None))
    if shape is None or len(shape) != 1 or dtype not in INTEGERS:
        return (Info(dtype, shape),)
    return (valued(dtype, shape, _elements(ctx, parts)),)


def _joined(ctx: NodeContext, shapes: Sequence[Shape | None], axis: int | None) -> Shape | None:
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
