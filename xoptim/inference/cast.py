"""Cast, CastLike, BitCast."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import Dim, is_nonzero
from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import valued, values, wrapped


@infers("Cast")
def cast(ctx: NodeContext) -> Results:
    """The attribute is the number of an element type; before operator set 6 it is its name."""
    to = ctx.attribute("to", 0)
    if isinstance(to, str):
        to = TensorProto.DataType.Value(to) if to in TensorProto.DataType.keys() else 0  # noqa: SIM118
    return (_converted(ctx, to if type(to) is int else 0),)


@infers("CastLike")
def cast_like(ctx: NodeContext) -> Results:
    """The type of the second input."""
    return (_converted(ctx, dtype_of(ctx.input(1))),)


@infers("BitCast")
def bit_cast(ctx: NodeContext) -> Results:
    """The same bits as another type of the same width."""
    to = ctx.attribute("to", 0)
    return (Info(to if type(to) is int else 0, shape_of(ctx.input(0))),)


def _converted(ctx: NodeContext, dtype: int) -> Info:
    x = ctx.input(0)
    if x is None or x.container:
        return Info(dtype)
    if x.data is None:
        return x if dtype == x.dtype else Info(dtype, x.shape)
    data = values(ctx, 0)
    if data is not None and dtype == TensorProto.BOOL:
        return valued(dtype, x.shape, [_truth(value) for value in data])
    return valued(dtype, x.shape, None if data is None else [wrapped(dtype, value) for value in data])


def _truth(value: Dim) -> Dim | None:
    return int(value != 0) if type(value) is int else 1 if is_nonzero(value) else None
