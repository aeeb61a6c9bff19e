"""Random numbers, and matrices that follow from a shape alone."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, integer, integers, shape_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import dimension


@infers("RandomNormal", "RandomUniform")
def random(ctx: NodeContext) -> Results:
    """The shape is an attribute."""
    shape = integers(ctx, "shape")
    valid = shape is not None and min(shape, default=0) >= 0
    return (Info(integer(ctx, "dtype", TensorProto.FLOAT) or 0, tuple(shape) if shape is not None and valid else None),)


@infers("RandomNormalLike", "RandomUniformLike", "Bernoulli", "EyeLike")
def random_like(ctx: NodeContext) -> Results:
    """The shape of the input, and its type unless ``dtype`` is given."""
    x = ctx.input(0)
    return (Info(integer(ctx, "dtype", dtype_of(x)) or 0, shape_of(x)),)


@infers("Multinomial")
def multinomial(ctx: NodeContext) -> Results:
    """``sample_size`` draws per row."""
    shape, samples = shape_of(ctx.input(0), 2), integer(ctx, "sample_size", 1)
    rows = ctx.fresh() if shape is None else shape[0]
    return (Info(integer(ctx, "dtype", TensorProto.INT32) or 0, (rows, dimension(ctx, samples))),)
