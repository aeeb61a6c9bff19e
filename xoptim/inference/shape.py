"""Shape and Size."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import product
from xoptim.facts.info import Info
from xoptim.inference.arguments import integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import valued


@infers("Shape")
def shape(ctx: NodeContext) -> Results:
    """Dimensions ``start`` to ``end`` (since operator set 15), negative ones counted from the end, both clamped."""
    dims = shape_of(ctx.input(0))
    start, end = integer(ctx, "start", 0), integer(ctx, "end", len(dims or ()))
    if dims is None or start is None or end is None:
        return (Info(TensorProto.INT64, (ctx.fresh(),)),)
    part = dims[start:end]
    return (valued(TensorProto.INT64, (len(part),), part),)


@infers("Size")
def size(ctx: NodeContext) -> Results:
    """Number of elements."""
    dims = shape_of(ctx.input(0))
    return (valued(TensorProto.INT64, (), None if dims is None else (product(dims),)),)
