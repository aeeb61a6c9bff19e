"""Max, Min, Sum, Mean of any number of operands, and Clip."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xoptim.facts.dims import Dim, dim_max, dim_min
from xoptim.facts.info import Shape
from xoptim.facts.shapes import broadcast_all
from xoptim.inference.arguments import place_of
from xoptim.inference.broadcasting import elementwise
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import Values, pairwise, valued, values

EXTREMES: Final[dict[str, Callable[[Dim, Dim], Dim]]] = {"Max": lambda a, b: dim_max(a, b), "Min": lambda a, b: dim_min(a, b)}
"""The larger and the smaller one of two values."""


@infers("Max", "Min", "Sum", "Mean")
def variadic(ctx: NodeContext) -> Results:
    """Operands broadcast since operator set 8; before, they all have one shape."""
    operands = [info for info in ctx.inputs if info is not None and not info.container]
    if not operands or len(operands) != len(ctx.inputs):
        return ()
    first, last = operands[0], operands[-1]
    dtype = next((info.dtype for info in operands if info.dtype), 0)
    shape: Shape | None
    if ctx.opset >= 8:
        shape = broadcast_all(info.shape for info in operands)
    else:
        shape = next((info.shape for info in operands if info.shape is not None), None)
    if all(info.data is None for info in operands):
        return (elementwise(dtype, shape, first, last),)
    # A partial sum of floating-point numbers may be inexact although the total is small; there is no Sum of integers.
    return (valued(dtype, shape, _fold(ctx, EXTREMES.get(ctx.op_type), len(operands))),)


def _fold(ctx: NodeContext, rule: Callable[[Dim, Dim], Dim] | None, count: int) -> Values | None:
    result = values(ctx, 0)
    for index in range(1, count):
        found = None if rule is None else pairwise(rule, result, values(ctx, index))
        known = [] if found is None else [value for value in found if value is not None]
        result = None if found is None else tuple(known)
    return result if rule is not None else None


@infers("Clip")
def clip(ctx: NodeContext) -> Results:
    """Limits are scalars; values are followed where they are operands."""
    x = ctx.input(0)
    if x is None or x.data is None:
        return (x,)
    data: list[Dim | None] | None = list(x.data)
    for name, rule in (("min", dim_max), ("max", dim_min)):
        place = place_of(ctx, name)
        if place is None:
            data = None
        elif ctx.input(place) is not None:
            limit = values(ctx, place)
            data = None if data is None else pairwise(rule, tuple(v for v in data if v is not None), limit)
    return (valued(x.dtype, x.shape, data),)
