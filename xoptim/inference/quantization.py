"""Operators that quantize, and onnxruntime's on quantized tensors: where a zero point is absent, types follow the operands."""

from onnx import TensorProto

from xoptim.facts.dims import Dim
from xoptim.facts.info import Info, Shape
from xoptim.facts.shapes import broadcast_all, normalized
from xoptim.inference.arguments import dim_of, dtype_of, fresh_shape, integer, integers, known, shape_of, shapes, text
from xoptim.inference.registry import NodeContext, Results, infers


@infers("QuantizeLinear")
def quantize_linear(ctx: NodeContext) -> Results:
    """The type of the zero point, or ``output_dtype`` (since operator set 21), or 8 bits without sign."""
    dtype = integer(ctx, "output_dtype", 0) if ctx.opset >= 21 else 0
    if not dtype and dtype is not None:
        dtype = TensorProto.UINT8 if ctx.input(2) is None else dtype_of(ctx.input(2))
    return (Info(dtype or 0, shape_of(ctx.input(0))),)


@infers("DequantizeLinear")
def dequantize_linear(ctx: NodeContext) -> Results:
    """The type of the scale (32 bits before operator set 19), or ``output_dtype`` (since 23)."""
    dtype = integer(ctx, "output_dtype", 0) if ctx.opset >= 23 else 0
    if not dtype and dtype is not None:
        dtype = TensorProto.FLOAT if ctx.opset < 19 else dtype_of(ctx.input(1))
    return (Info(dtype or 0, shape_of(ctx.input(0))),)


@infers("QuantizeLinear", domain="com.microsoft")
def quantize_linear_microsoft(ctx: NodeContext) -> Results:
    """Type of the zero point, 8 bits without a sign when there is none."""
    zero_point = ctx.input(2)
    return [Info(TensorProto.UINT8 if zero_point is None else dtype_of(zero_point), shape_of(ctx.input(0)))]


@shapes("DequantizeLinear", typed_by=(1,), domain="com.microsoft")
def dequantize_linear_microsoft(_ctx: NodeContext, x: Shape | None) -> Shape | None:
    """Type of the scale."""
    return x


@shapes("QLinearAdd", "QLinearMul", typed_by=(0, 3), operands=(0, 3), domain="com.microsoft")
@shapes("MulInteger", dtype=TensorProto.INT32, operands=(0, 2), domain="com.microsoft")
@shapes("QLinearWhere", typed_by=(1, 4), operands=(0, 1, 4), domain="com.microsoft")
def quantized_elementwise(_ctx: NodeContext, *operands: Shape | None) -> Shape | None:
    """Broadcasts; the products of MulInteger are 32-bit integers."""
    return broadcast_all(operands)


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
        return [Info(dtype, fresh_shape(ctx, rank))]
    complete = len(known_shapes) == len(shapes)
    dims[axis] = sum((shape[axis] for shape in known_shapes), 0) if complete else ctx.fresh()
    return [Info(dtype, tuple(dims))]


@shapes("QLinearReduceMean", domain="com.microsoft")
@shapes("ReduceSumInteger", typed_by=(), domain="com.microsoft")  # whether its 32-bit sums have a sign is not documented
def reduce_microsoft(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """A reduction over the axes in the attribute, all of them by default."""
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
