"""Where, Max, Min, Sum, Mean and Clip, and what all broadcasting operators share: sizes and facts of operands."""

from collections.abc import Callable
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, SymbolicDim, dim_max, dim_min
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_all
from xoptim.inference.arguments import place_of, shapes
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import Values, pairwise, valued, values


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


@shapes("StringConcat", dtype=TensorProto.STRING, operands=(0, 1))
@shapes("ComplexMul", "ComplexMulConj", operands=(0, 1), domain="com.microsoft")  # pairs of numbers on the last axis
@shapes("QLinearAdd", "QLinearMul", typed_by=(0, 3), operands=(0, 3), domain="com.microsoft")
@shapes("MulInteger", dtype=TensorProto.INT32, operands=(0, 2), domain="com.microsoft")
@shapes("QLinearWhere", typed_by=(1, 4), operands=(0, 1, 4), domain="com.microsoft")
def stretched(_ctx: NodeContext, *operands: Shape | None) -> Shape | None:
    """Operands broadcast, and values are not followed."""
    return broadcast_all(operands)


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
    if rule is None:
        return None
    result = values(ctx, 0)
    for index in range(1, count):
        found = pairwise(rule, result, values(ctx, index))
        result = None if found is None else tuple(value for value in found if value is not None)
    return result


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
            data = None if data is None else pairwise(rule, tuple(v for v in data if v is not None), values(ctx, place))
    return (valued(x.dtype, x.shape, data),)
