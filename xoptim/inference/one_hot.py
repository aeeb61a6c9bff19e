"""OneHot."""

from __future__ import annotations

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import dtype_of, integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import dimension, values


@infers("OneHot")
def one_hot(ctx: NodeContext) -> Results:
    """A new axis, last by default, with the length in the second input, which may be of any numeric type."""
    dtype, shape = dtype_of(ctx.input(2)), shape_of(ctx.input(0))
    if shape is None:
        return (Info(dtype),)
    axis = normalized(integer(ctx, "axis", -1), len(shape) + 1)
    if axis is None:
        return (Info(dtype),)
    return (Info(dtype, (*shape[:axis], _depth(ctx), *shape[axis:])),)


def _depth(ctx: NodeContext) -> Dim:
    data = values(ctx, 1) or ctx.ints(1)
    return dimension(ctx, data[0] if data is not None and len(data) == 1 else None)
