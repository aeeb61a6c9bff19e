"""TopK."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info
from xoptim.facts.shapes import normalized
from xoptim.inference.arguments import fresh_shape, integer, place_of, scalar
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import dimension


@infers("TopK")
def top_k(ctx: NodeContext) -> Results:
    """Values and positions."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
    if x.shape is None:
        return (Info(x.dtype), Info(TensorProto.INT64))
    rank = len(x.shape)
    axis = normalized(integer(ctx, "axis", -1), rank)
    place = place_of(ctx, "k")
    k: Dim | None = integer(ctx, "k") if place is None else scalar(ctx, place)
    if axis is None:
        return (Info(x.dtype, shape := fresh_shape(ctx, rank)), Info(TensorProto.INT64, shape))
    shape = (*x.shape[:axis], dimension(ctx, k), *x.shape[axis + 1 :])
    return (Info(x.dtype, shape), Info(TensorProto.INT64, shape))
