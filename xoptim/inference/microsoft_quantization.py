"""onnxruntime's operators on quantized tensors. A zero point may be absent, so types follow the operands."""

from __future__ import annotations

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_all, broadcast_shapes, normalized
from xoptim.inference.arguments import dim_of, dtype_of, integer, integers, known, shape_of, text
from xoptim.inference.registry import NodeContext, Results, infers


@infers("QuantizeLinear", domain="com.microsoft")
def quantize_linear_microsoft(ctx: NodeContext) -> Results:
    """Type of the zero point, 8 bits without a sign when there is none."""
    zero_point = ctx.input(2)
    return [Info(TensorProto.UINT8 if zero_point is None else dtype_of(zero_point), shape_of(ctx.input(0)))]


@infers("DequantizeLinear", domain="com.microsoft")
def dequantize_linear_microsoft(ctx: NodeContext) -> Results:
    """Type of the scale."""
    return [Info(dtype_of(ctx.input(1)), shape_of(ctx.input(0)))]


@infers("QLinearAdd", "QLinearMul", domain="com.microsoft")
def qlinear_binary(ctx: NodeContext) -> Results:
    """Operands at 0 and 3, with broadcasting."""
    a, b = ctx.input(0), ctx.input(3)
    return [Info(dtype_of(a) or dtype_of(b), broadcast_shapes(shape_of(a), shape_of(b)))]


@infers("MulInteger", domain="com.microsoft")
def mul_integer(ctx: NodeContext) -> Results:
    """Operands at 0 and 2; the products are 32-bit integers."""
    return [Info(TensorProto.INT32, broadcast_shapes(shape_of(ctx.input(0)), shape_of(ctx.input(2))))]


@infers("QLinearWhere", domain="com.microsoft")
def qlinear_where(ctx: NodeContext) -> Results:
    """Condition, X and Y at 0, 1 and 4, with broadcasting."""
    shape = broadcast_all(shape_of(ctx.input(i)) for i in (0, 1, 4))
    return [Info(dtype_of(ctx.input(1)) or dtype_of(ctx.input(4)), shape)]


@infers("QLinearConcat", domain="com.microsoft")
def qlinear_concat(ctx: NodeContext) -> Results:
    """After scale and zero point of the result: for each operand a tensor, its scale and its zero point."""
    dtype = dtype_of(ctx.input(1))
    shapes = [shape_of(ctx.input(i)) for i in range(2, len(ctx.inputs), 3)]
    known_shapes = [shape for shape in shapes if shape is not None]
    if not known_shapes or len({len(shape) for shape in known_shapes}) > 1:
        return [Info(dtype)]
    rank = len(known_shapes[0])
    axis = normalized(integer(ctx, "axis"), rank)
    dims: list[Dim] = [known(ctx, *(shape[i] for shape in known_shapes)) for i in range(rank)]
    if axis is None:
        return [Info(dtype, tuple(ctx.fresh() for _ in dims))]
    complete = len(known_shapes) == len(shapes)
    dims[axis] = sum((shape[axis] for shape in known_shapes), 0) if complete else ctx.fresh()
    return [Info(dtype, tuple(dims))]


def _reduced(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """Shape after a reduction over the axes in the attribute, all of them by default."""
    keep = integer(ctx, "keepdims", 1)
    if shape is None or keep is None:
        return None
    rank = len(shape)
    given = integers(ctx, "axes")
    if given is None and ctx.attribute("axes") is not None:
        return None
    axes = {normalized(axis, rank) for axis in given or range(rank)}
    if None in axes:
        return None
    if keep:
        return tuple(1 if i in axes else dim for i, dim in enumerate(shape))
    return tuple(dim for i, dim in enumerate(shape) if i not in axes)


@infers("QLinearReduceMean", domain="com.microsoft")
def qlinear_reduce_mean(ctx: NodeContext) -> Results:
    """Axes and ``keepdims`` are attributes."""
    x = ctx.input(0)
    return [Info(dtype_of(x), _reduced(ctx, shape_of(x)))]


@infers("ReduceSumInteger", domain="com.microsoft")
def reduce_sum_integer(ctx: NodeContext) -> Results:
    """32-bit sums; whether they have a sign is not documented."""
    return [Info(0, _reduced(ctx, shape_of(ctx.input(0))))]


@infers("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantize_lstm(ctx: NodeContext) -> Results:
    """As LSTM; W is (directions, features, 4 * hidden), R (directions, hidden, 4 * hidden)."""
    x, w, r = ctx.input(0), ctx.input(1), ctx.input(2)
    steps, batch = known(ctx, dim_of(x, 0, 3)), known(ctx, dim_of(x, 1, 3))
    bidirectional = {"forward": 1, "reverse": 1, "bidirectional": 2}.get(text(ctx, "direction", "forward") or "")
    directions = known(ctx, bidirectional, dim_of(w, 0, 3), dim_of(r, 0, 3))
    hidden = known(ctx, integer(ctx, "hidden_size"), dim_of(r, 1, 3))
    last = Info(dtype_of(x), (directions, batch, hidden))
    return [Info(dtype_of(x), (steps, directions, batch, hidden)), last, last]
