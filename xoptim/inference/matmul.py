"""Matrix products."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_shapes
from xoptim.inference.arguments import dtype_of, integer, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


def matmul_shape(a: Shape | None, b: Shape | None) -> Shape | None:
    """Shape of ``numpy.matmul`` for operands of two shapes, ``None`` when unknown."""
    if not a or not b:
        return None
    if len(a) == 1:
        return b[:-2] + b[-1:] if len(b) > 1 else ()
    if len(b) == 1:
        return a[:-1]
    batch = broadcast_shapes(a[:-2], b[:-2])
    return None if batch is None else (*batch, a[-2], b[-1])


@infers("MatMul")
def matmul(ctx: NodeContext) -> Results:
    """Operands of one type, stacked matrices broadcast."""
    a, b = ctx.input(0), ctx.input(1)
    return (Info(dtype_of(a) or dtype_of(b), matmul_shape(shape_of(a), shape_of(b))),)


@infers("MatMulInteger")
def matmul_integer(ctx: NodeContext) -> Results:
    """8-bit operands; the sums are 32-bit integers."""
    return (Info(TensorProto.INT32, matmul_shape(shape_of(ctx.input(0)), shape_of(ctx.input(1)))),)


@infers("QLinearMatMul")
def qlinear_matmul(ctx: NodeContext) -> Results:
    """Inputs a and b at 0 and 3; the zero point of the result (7) has its type."""
    return (Info(dtype_of(ctx.input(7)), matmul_shape(shape_of(ctx.input(0)), shape_of(ctx.input(3)))),)


@infers("Gemm")
def gemm(ctx: NodeContext) -> Results:
    """A is (M, K) or, transposed, (K, M); B is (K, N) or (N, K); the result is (M, N)."""
    a, b = ctx.input(0), ctx.input(1)
    rows = _free_axis(ctx, shape_of(a), integer(ctx, "transA", 0), 0)
    columns = _free_axis(ctx, shape_of(b), integer(ctx, "transB", 0), 1)
    shape = None if rows is None or columns is None else (rows, columns)
    return (Info(dtype_of(a) or dtype_of(b), shape),)


def _free_axis(ctx: NodeContext, shape: Shape | None, transposed: int | None, axis: int) -> Dim | None:
    """The dimension of a factor that the result keeps; ``None`` for a shape that is not a matrix."""
    if shape is not None and len(shape) != 2:
        return None
    return ctx.fresh() if shape is None or transposed is None else shape[1 - axis if transposed else axis]
