"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers("QuantizeLinear")
def quantize_linear(ctx: NodeContext) -> Results:
    """The type is that of the zero point, or ``output_dtype`` (since operator set 21), or 8 bits without sign."""
    dtype = integer(ctx, "output_dtype", 0) if ctx.opset >= 21 else 0
    if not dtype and dtype is not None:
        dtype = TensorProto.UINT8 if ctx.input(2) is None else dtype_of(ctx.input(2))
    return (Info(dtype or 0, shape_of(ctx.input(0))),)


@infers("DequantizeLinear")
def dequantize_linear(ctx: NodeContext) -> Results:
    """The type is that of the scale (32 bits before operator set 19), or ``output_dtype`` (since 23)."""
    dtype = integer(ctx, "output_dtype", 0) if ctx.opset >= 23 else 0
    if not dtype and dtype is not None:
        dtype = TensorProto.FLOAT if ctx.opset < 19 else dtype_of(ctx.input(1))
    return (Info(dtype or 0, shape_of(ctx.input(0))),)


@infers("DynamicQuantizeLinear")
def dynamic_quantize_linear(ctx: NodeContext) -> Results:
    """The quantized tensor, its scale and its zero point, both scalars."""
    return (
        Info(TensorProto.UINT8, shape_of(ctx.input(0))),
        Info(TensorProto.FLOAT, ()),
        Info(TensorProto.UINT8, ()),
    )
