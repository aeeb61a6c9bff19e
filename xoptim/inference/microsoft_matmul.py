"""onnxruntime's matrix products."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.info import Info, Shape
from xoptim.inference.arguments import dtype_of, integer, known, shape_of
from xoptim.inference.matmul import matmul_shape
from xoptim.inference.registry import NodeContext, Results, infers


def _operand(ctx: NodeContext, index: int, suffix: str) -> Shape | None:
    """Shape of an operand of FusedMatMul as a stack of matrices.

    ``transBatch`` moves the first axis behind the batch axes, ``trans`` swaps the last two after that. A vector stays.
    """
    shape = shape_of(ctx.input(index))
    if shape is None or len(shape) < 2:
        return shape
    batch, swap = integer(ctx, f"transBatch{suffix}", 0), integer(ctx, f"trans{suffix}", 0)
    if batch is None or swap is None:
        return None
    if batch:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


@infers("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain="com.microsoft")
def fused_matmul(ctx: NodeContext) -> Results:
    """Inputs A, B, transposed according to the attributes."""
    return [Info(dtype_of(ctx.input(0)), matmul_shape(_operand(ctx, 0, "A"), _operand(ctx, 1, "B")))]


def _plain(ctx: NodeContext, b: int) -> Shape | None:
    return matmul_shape(shape_of(ctx.input(0)), shape_of(ctx.input(b)))


@infers("GemmFastGelu", "DynamicQuantizeMatMul", domain="com.microsoft")
def plain_matmul(ctx: NodeContext) -> Results:
    """Inputs A, B; the result has the type of A."""
    return [Info(dtype_of(ctx.input(0)), _plain(ctx, 1))]


@infers("MatMulIntegerToFloat", domain="com.microsoft")
def matmul_integer_to_float(ctx: NodeContext) -> Results:
    """Inputs A, B, a_scale, b_scale; the result has the type of the scales."""
    return [Info(dtype_of(ctx.input(2)) or dtype_of(ctx.input(3)), _plain(ctx, 1))]


@infers("MatMulInteger16", domain="com.microsoft")
def matmul_integer16(ctx: NodeContext) -> Results:
    """Unsigned only where both operands are."""
    kinds = {dtype_of(ctx.input(0)), dtype_of(ctx.input(1))}
    dtype = 0 if 0 in kinds else TensorProto.UINT32 if kinds == {TensorProto.UINT16} else TensorProto.INT32
    return [Info(dtype, _plain(ctx, 1))]


def _projected(ctx: NodeContext, name: str) -> Info:
    """A with the number of features in an attribute."""
    a = ctx.input(0)
    shape = shape_of(a)
    return Info(dtype_of(a), (*shape[:-1], known(ctx, integer(ctx, name))) if shape else None)


@infers("MatMulNBits", domain="com.microsoft")
def matmul_nbits(ctx: NodeContext) -> Results:
    """A (..., K) times packed weights gives (..., N)."""
    return [_projected(ctx, "N")]


@infers("MatMulBnb4", domain="com.microsoft")
def matmul_bnb4(ctx: NodeContext) -> Results:
    """A (..., K) gives (..., N), without ``transB`` the other way round."""
    transposed = integer(ctx, "transB", 1)
    if transposed is None:
        return []
    return [_projected(ctx, "N" if transposed else "K")]


@infers("MatMulNBitsMlp", domain="com.microsoft")
def matmul_nbits_mlp(ctx: NodeContext) -> Results:
    """The product and, if it is an output, the sum of A and its skip connection."""
    a = ctx.input(0)
    return [_projected(ctx, "N"), Info(dtype_of(a), shape_of(a))]


@infers("MatMulNBitsQkv", domain="com.microsoft")
def matmul_nbits_qkv(ctx: NodeContext) -> Results:
    """Three projections and, if it is an output, the sum of A and its skip connection."""
    a, keys = ctx.input(0), _projected(ctx, "Nkv")
    values = _projected(ctx, "Nkv") if integer(ctx, "Nkv") is None else keys
    return [_projected(ctx, "Nq"), keys, values, Info(dtype_of(a), shape_of(a))]
