"""Where, and what all broadcasting operators share: dimensions that a valid model makes equal, facts that an operand shares."""

from __future__ import annotations

from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_all
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import Values, valued, values


def agree(a: Dim, b: Dim) -> Dim:
    """The dimension to keep of two that a valid model makes equal: a number, else the one without anonymous part."""
    if not isinstance(a, SymbolicDim) or a is b:
        return a
    if not isinstance(b, SymbolicDim):
        return b
    return b if a.is_anonymous and not b.is_anonymous else a


def elementwise(dtype: int, shape: Shape | None, a: Info, b: Info) -> Info:
    """Facts about a result; the object of an operand's facts where these are equal."""
    if shape is a.shape and dtype == a.dtype and a.data is None:
        return a
    if shape is b.shape and dtype == b.dtype and b.data is None:
        return b
    return Info(dtype, shape)


@infers("Where")
def where(ctx: NodeContext) -> Results:
    """Condition, X and Y broadcast together; values are known where the condition is known or does not matter."""
    condition, x, y = ctx.input(0), ctx.input(1), ctx.input(2)
    if condition is None or x is None or y is None:
        return ()
    dtype = x.dtype or y.dtype
    shape = broadcast_all((x.shape, y.shape, condition.shape))
    if condition.data is None and x.data is None and y.data is None:
        return (elementwise(dtype, shape, x, y),)
    size = shape[0] if shape else 1
    if shape is None or len(shape) > 1 or type(size) is not int:
        return (elementwise(dtype, shape, x, y),)
    return (valued(dtype, shape, _choose(size, values(ctx, 0), values(ctx, 1), values(ctx, 2))),)


def _choose(size: int, condition: Values | None, x: Values | None, y: Values | None) -> list[Dim | None]:
    chosen: list[Dim | None] = []
    for index in range(size):
        test, yes, no = (_element(operand, index) for operand in (condition, x, y))
        chosen.append(yes if test == 1 or yes == no else no if test == 0 else None)
    return chosen


def _element(operand: Values | None, index: int) -> Dim | None:
    if not operand:
        return None
    return operand[0] if len(operand) == 1 else operand[index] if index < len(operand) else None
