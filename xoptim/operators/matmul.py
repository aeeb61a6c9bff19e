"""Matrix multiplications, onnxruntime's included, and Einsum."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from onnx import TensorProto

from xoptim.facts.dims import Dim, broadcast
from xoptim.facts.shapes import Info, Shape, broadcast_shapes
from xoptim.operators.axes import Axes, AxesView, AxisOperand, Shapes, label_range
from xoptim.operators.costs import CostKind, KnownShapes
from xoptim.operators.inference.arguments import dtype_of, integer, known, shape_of, shapes, text
from xoptim.operators.inference.shared import like_first
from xoptim.operators.protocols import NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, costs, counts, describes, infers, register

register(Trait.SUMS_PRODUCTS, "Einsum", "Gemm", "MatMul")
register(
    Trait.SUMS_PRODUCTS,
    *("FusedGemm", "FusedMatMul", "FusedMatMulActivation", "GemmFastGelu", "GemmFloat8"),
    *("MatMulBnb4", "MatMulFpQ4", "MatMulNBits", "MoE", "QMoE", "SparseToDenseMatMul"),
    "TransposeMatMul",
    domain="com.microsoft",
)
register(Trait.ROUNDS, "Einsum", "Gemm", "MatMul")
register(Trait.ROUNDS, "FusedMatMul", "MatMulNBits", domain="com.microsoft")
costs(CostKind.MATMUL, "Gemm", "MatMul")


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


@shapes("MatMul", typed_by=(0, 1), operands=(0, 1))
@shapes("MatMulInteger", dtype=TensorProto.INT32, operands=(0, 1))
@shapes("QLinearMatMul", typed_by=(7,), operands=(0, 3))  # 7 is the zero point of the result
@shapes("GemmFastGelu", "DynamicQuantizeMatMul", operands=(0, 1), domain="com.microsoft")
# 2 and 3 are the scales
@shapes("MatMulIntegerToFloat", typed_by=(2, 3), operands=(0, 1), domain="com.microsoft")
def matmul(_ctx: NodeContext, a: Shape | None, b: Shape | None) -> Shape | None:
    """Batch dimensions broadcast."""
    return matmul_shape(a, b)


@shapes(
    "FusedMatMul",
    "TransposeMatMul",
    "FusedMatMulActivation",
    operands=(0, 1),
    domain="com.microsoft",
)
def fused_matmul(ctx: NodeContext, a: Shape | None, b: Shape | None) -> Shape | None:
    """Inputs A, B, transposed according to the attributes."""
    return matmul_shape(_transposed(ctx, a, "A"), _transposed(ctx, b, "B"))


def _transposed(ctx: NodeContext, shape: Shape | None, suffix: str) -> Shape | None:
    """Shape of an operand of FusedMatMul as a stack of matrices.

    ``transBatch`` moves the first axis after the batch axes, ``trans`` swaps the last two after
    that. A vector stays.
    """
    if shape is None or len(shape) < 2:
        return shape
    batch, swap = integer(ctx, f"transBatch{suffix}", 0), integer(ctx, f"trans{suffix}", 0)
    if batch is None or swap is None:
        return None
    if batch:
        shape = (*shape[1:-1], shape[0], shape[-1])
    return (*shape[:-2], shape[-1], shape[-2]) if swap else shape


def _projected(ctx: NodeContext, name: str) -> Info:
    """Facts about A, with the number of features in an attribute."""
    a = ctx.input(0)
    shape = shape_of(a)
    return Info(dtype_of(a), (*shape[:-1], known(ctx, integer(ctx, name))) if shape else None)


@infers("MatMulNBits", "MatMulNBitsMlp", domain="com.microsoft")
def matmul_nbits(ctx: NodeContext) -> Results:
    """A (..., K) times packed weights gives (..., N).

    The second output of Mlp is the sum of A and its skip connection.
    """
    a, result = ctx.input(0), _projected(ctx, "N")
    return [result] if ctx.op_type == "MatMulNBits" else [result, Info(dtype_of(a), shape_of(a))]


@shapes("Gemm", typed_by=(0, 1), operands=(0, 1))
def gemm(ctx: NodeContext, a: Shape | None, b: Shape | None) -> Shape | None:
    """A is (M, K) or, transposed, (K, M); B is (K, N) or (N, K); the result is (M, N)."""
    rows = _free_axis(ctx, a, integer(ctx, "transA", 0), 0)
    columns = _free_axis(ctx, b, integer(ctx, "transB", 0), 1)
    return None if rows is None or columns is None else (rows, columns)


def _free_axis(
    ctx: NodeContext, shape: Shape | None, transposed: int | None, axis: int
) -> Dim | None:
    """The dimension of an operand that the result keeps; ``None`` if it is not a matrix."""
    if shape is not None and len(shape) != 2:
        return None
    return (
        ctx.fresh()
        if shape is None or transposed is None
        else shape[1 - axis if transposed else axis]
    )


@infers("FusedGemm", "GemmFloat8", "QGemm", domain="com.microsoft")
def gemm_microsoft(ctx: NodeContext) -> Results:
    """As Gemm; B of QGemm is input 3.

    The result of GemmFloat8 has the type in attribute ``dtype``, the result of QGemm the type of
    its zero point (8), float32 without one.
    """
    dtype, b = dtype_of(ctx.input(0)), 1
    if ctx.op_type == "GemmFloat8":
        dtype = integer(ctx, "dtype", TensorProto.FLOAT) or 0
    elif ctx.op_type == "QGemm":
        b, zero_point = 3, ctx.input(8)
        dtype = TensorProto.FLOAT if zero_point is None else dtype_of(zero_point)
    return [Info(dtype, gemm(ctx, shape_of(ctx.input(0)), shape_of(ctx.input(b))))]


_TERM: Final = re.compile(r"[A-Za-z]*(?:\.\.\.[A-Za-z]*)?")


@infers("Einsum")
def einsum(ctx: NodeContext) -> Results:
    """One term of letters per operand, an ellipsis for axes that broadcast.

    The result term may be omitted.
    """
    operands, arrow, result = (text(ctx, "equation", "") or "").replace(" ", "").partition("->")
    terms = operands.split(",")
    dtype = next((dtype_of(info) for info in ctx.inputs if dtype_of(info)), 0)
    if len(terms) != len(ctx.inputs) or not all(_TERM.fullmatch(term) for term in (*terms, result)):
        return (Info(dtype),)
    if not arrow:
        letters = Counter(operands.replace(",", "").replace(".", ""))
        result = "..." * ("..." in operands) + "".join(
            sorted(c for c, count in letters.items() if count == 1)
        )
    return (Info(dtype, _contracted(ctx, terms, [shape_of(info) for info in ctx.inputs], result)),)


def _contracted(
    ctx: NodeContext, terms: Sequence[str], shapes: Sequence[Shape | None], result: str
) -> Shape | None:
    """Shape of the result; ``None`` where an ellipsis covers an unknown number of axes."""
    sizes: dict[str, Dim] = {}
    ellipsis: Shape | None = ()
    for term, shape in zip(terms, shapes, strict=True):
        head, dots, tail = term.partition("...")
        letter_count = len(head) + len(tail)
        if shape is None:
            ellipsis = None if dots else ellipsis
            continue
        if len(shape) < letter_count or (len(shape) > letter_count and not dots):
            return None
        stop = len(shape) - len(tail)
        for letter, dim in zip(head + tail, shape[: len(head)] + shape[stop:], strict=True):
            sizes[letter] = broadcast(sizes[letter], dim) if letter in sizes else dim
        if dots:
            ellipsis = broadcast_shapes(ellipsis, shape[len(head) : stop])
    before, dots, after = result.partition("...")
    if dots and ellipsis is None:
        return None
    letters = [[sizes[c] if c in sizes else ctx.fresh() for c in text] for text in (before, after)]
    return (*letters[0], *((ellipsis or ()) if dots else ()), *letters[1])


infers("Inverse", "MoE", "QMoE", domain="com.microsoft")(like_first)


@describes("MatMul")
def matmul_axes(_g: AxesView, _node: NodeView, shapes: Shapes) -> Axes | None:
    """Rows come from the first operand, columns from the second one.

    If the second operand is a single matrix, it works along the last axis only.
    """
    left, right = map(len, shapes)
    rank = max(left, right)
    if min(left, right) < 2:
        return None
    first = AxisOperand(label_range(left, rank), frozenset((rank - 1,)), broadcasts=True)
    second = AxisOperand(label_range(right, rank), frozenset((rank - 2,)), broadcasts=True)
    if right == 2 < left:
        second = AxisOperand((rank, rank - 1), frozenset((rank,)), broadcasts=True, is_apart=True)
    return Axes(
        (first, second),
        (label_range(rank),),
        last=1 if second.is_apart else 2,
        swaps=not second.is_apart,
    )


@describes("Gemm")
def gemm_axes(_g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """As MatMul of two matrices, which may be transposed, and a bias."""
    a, b = ((1, 0) if node.get_attribute(name) else (0, 1) for name in ("transA", "transB"))
    if any(len(shape) > 2 for shape in shapes[2:]):
        return None
    bias = (AxisOperand(label_range(len(shape), 2), is_apart=True) for shape in shapes[2:])
    first, second = (
        AxisOperand(a, frozenset((1,)), is_apart=True),
        AxisOperand(b, frozenset((0,)), is_apart=True),
    )
    return Axes((first, second, *bias), ((0, 1),), last=2)


@counts("Gemm", "MatMul", "MatMulInteger")
@counts("FusedMatMul", "MatMulNBits", domain="com.microsoft")
def matmul_operations(node: NodeView, operands: KnownShapes, results: KnownShapes) -> int:
    """A sum of products for each element, and the bias."""
    transposed = bool(node.attribute.get("transA"))
    if node.op_type == "Gemm":
        return math.prod(results[0]) * (
            2 * operands[0][0 if transposed else 1] + (len(operands) > 2)
        )
    return 2 * math.prod(results[0]) * (operands[0][-2 if transposed else -1] if operands[0] else 1)
