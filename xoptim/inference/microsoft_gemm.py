"""onnxruntime's variants of Gemm."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dim_of, dtype_of, integer, known
from xoptim.inference.registry import NodeContext, Results, infers


def _shape(ctx: NodeContext, b: int = 1) -> Shape:
    """(M, N) of the product of the first input and input ``b``, each transposed where its attribute says so."""
    trans_a, trans_b = integer(ctx, "transA", 0), integer(ctx, "transB", 0)
    rows = None if trans_a is None else dim_of(ctx.input(0), 1 if trans_a else 0, 2)
    columns = None if trans_b is None else dim_of(ctx.input(b), 0 if trans_b else 1, 2)
    return (known(ctx, rows), known(ctx, columns))


@infers("FusedGemm", domain="com.microsoft")
def fused_gemm(ctx: NodeContext) -> Results:
    """Inputs A, B, C."""
    return [Info(dtype_of(ctx.input(0)), _shape(ctx))]


@infers("GemmFloat8", domain="com.microsoft")
def gemm_float8(ctx: NodeContext) -> Results:
    """The result has the type in attribute ``dtype``."""
    return [Info(integer(ctx, "dtype", TensorProto.FLOAT) or 0, _shape(ctx))]


@infers("QGemm", domain="com.microsoft")
def qgemm(ctx: NodeContext) -> Results:
    """Inputs A, B at 0 and 3; quantized like the zero point of the result (8), floats without one."""
    zero_point = ctx.input(8)
    return [Info(TensorProto.FLOAT if zero_point is None else dtype_of(zero_point), _shape(ctx, 3))]
