"""Reductions over axes, and cumulative sums along an axis."""

import functools
import math
from collections.abc import Callable
from typing import Final

from onnx import TensorProto

from xoptim.facts.attributes import ARG_REDUCTIONS, REDUCTIONS
from xoptim.facts.dims import Dim, bounds, dim_max, dim_min, opaque, product
from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.operators.axes import Axes, AxesView, Shapes, axes_mixed, axis_of, reduced_axes
from xoptim.operators.costs import CostKind, one_per_operand_element
from xoptim.operators.inference.arguments import (
    fresh_shape,
    infers_tensor,
    integer,
    integers,
    is_given,
    listed,
    listed_count,
    place_of,
    shapes,
)
from xoptim.operators.inference.shared import like_first_operand, scalar_result
from xoptim.operators.inference.values import INTEGERS, RANGES, Values, valued, values
from xoptim.operators.protocols import NodeContext, NodeView, Results
from xoptim.operators.registry import (
    Trait,
    carries,
    costs,
    counts,
    describes,
    infers,
    register,
    takes,
)

register(Trait.REDUCES, *REDUCTIONS)
register(Trait.ARG_REDUCES, *ARG_REDUCTIONS)
register(Trait.SAME_SHAPE, "CumSum")
register(
    Trait.TAKES_EMPTY,
    *("CumSum", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"),
    "ReduceProd",
)
register(Trait.KEEPS_FLOAT16, "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum")
register(Trait.KEEPS_NUMBER, "ReduceMax", "ReduceMean", "ReduceMin")
register(Trait.HAS_BODY, "ReduceL1", "ReduceLogSum")
register(Trait.TIES, *ARG_REDUCTIONS)
takes({1: "axes"}, *REDUCTIONS)
takes({1: "zero"}, "CumSum", "CumProd")
carries("ReduceMax", "ReduceMin")
register(Trait.ROUNDS, *(name for name in REDUCTIONS if name not in ("ReduceMax", "ReduceMin")))
costs(CostKind.REDUCED, *REDUCTIONS)
counts(*REDUCTIONS, *ARG_REDUCTIONS, "CumSum")(one_per_operand_element)

_RULES: Final[dict[str, Callable[[Values], Dim]]] = {
    "ReduceMax": lambda data: dim_max(*data),
    "ReduceMin": lambda data: dim_min(*data),
    "ReduceProd": product,
    "ReduceSum": lambda data: functools.reduce(lambda a, b: a + b, data),
}


@infers_tensor(*REDUCTIONS)
def reduction(ctx: NodeContext, x: Info) -> Results:
    """Without axes, all are reduced, or none with ``noop_with_empty_axes``, which exists since the
    axes are an operand.
    """
    keep = integer(ctx, "keepdims", 1)
    axes, count = (
        (listed(ctx, "axes"), listed_count(ctx, "axes")) if is_given(ctx, "axes") else ([], 0)
    )
    if count == 0 and place_of(ctx, "axes") is not None:
        noop = integer(ctx, "noop_with_empty_axes", 0)
        if noop != 0:
            return (Info(x.dtype, x.shape if noop == 1 else None),)
    shape = None if keep is None else _reduced(ctx, x.shape, axes, count, bool(keep))
    return (valued(x.dtype, shape, None if count is None else _reduced_values(ctx, x)),)


@shapes("QLinearReduceMean", domain="com.microsoft")
# whether its 32-bit sums are signed is not documented
@shapes("ReduceSumInteger", typed_by=(), domain="com.microsoft")
def reduce_microsoft(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """A reduction over the axes in the attribute, all of them by default."""
    keep, axes = (
        integer(ctx, "keepdims", 1),
        [] if ctx.attribute("axes") is None else integers(ctx, "axes"),
    )
    return (
        None if keep is None or axes is None else _reduced(ctx, shape, axes, len(axes), bool(keep))
    )


def _reduced(
    ctx: NodeContext, shape: Shape | None, axes: list[int] | None, count: int | None, keep: bool
) -> Shape | None:
    if count == 0 and not keep:
        return ()
    if shape is None:
        return None
    rank = len(shape)
    if count == 0:
        return (1,) * rank
    if axes is None:
        if keep:
            return fresh_shape(ctx, rank)
        # several unknown axes may be equal, so their number does not give the rank
        return fresh_shape(ctx, rank - 1) if count == 1 and rank else None
    dropped = {normalized(axis, rank) for axis in axes}
    if None in dropped:  # an axis is out of range
        return None
    if keep:
        return tuple(1 if axis in dropped else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


def _reduced_values(ctx: NodeContext, x: Info) -> list[Dim] | None:
    """The value of a reduced vector or scalar, which has one axis at most to reduce."""
    rule = _RULES.get(ctx.op_type)
    data = values(ctx, 0) if rule is not None and x.data else None
    if rule is None or not data:
        return None
    if ctx.op_type in ("ReduceProd", "ReduceSum") and not _is_exact(ctx.op_type, x.dtype, data):
        # Inexact, so the sum of the polynomials may be wrong; the same operands still give the same
        # result.
        symbolic = not all(type(value) is int for value in data)
        return [opaque(f"{ctx.op_type}{x.dtype}", data, RANGES[x.dtype])] if symbolic else None
    return [rule(data)]


def _is_exact(op_type: str, dtype: int, data: Values) -> bool:
    """Whether a double and the type itself represent all partial results, which are integers.

    onnxruntime reduces integers in double precision, in an order of its own. Floating-point numbers
    are never exact here: partial results may be inexact although the total is small.
    """
    sizes: list[int] = []
    for low, high in map(bounds, data):
        if low is None or high is None:
            return False
        sizes.append(max(abs(low), abs(high)))
    limit = sum(sizes) if op_type == "ReduceSum" else math.prod(max(size, 1) for size in sizes)
    return dtype in INTEGERS and limit < min(2**53, RANGES[dtype][1])


infers("CumProd", "CumSum")(like_first_operand)
shapes("IsAllFinite", dtype=TensorProto.BOOL, operands=(), domain="com.microsoft")(scalar_result)


@describes(*REDUCTIONS)
def reduction_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """All axes are reduced by default."""
    reduced = reduced_axes(g, node)
    axes = None if reduced is None else tuple(sorted(reduced))
    names = {"axes": frozenset(axes)} if axes else {}
    return axes_mixed(node, shapes, axes, names, drops=node.get_attribute("keepdims") == 0)


@describes(*ARG_REDUCTIONS)
def arg_reduction_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """One axis is reduced."""
    axis = axis_of(g, node)
    if axis is None:
        return None
    drops = node.get_attribute("keepdims") == 0
    return axes_mixed(node, shapes, (axis,), {"axis": axis}, drops)
