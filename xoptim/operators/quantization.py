"""QuantizeLinear, DequantizeLinear, and onnxruntime's operators on quantized tensors."""

from dataclasses import replace

from onnx import TensorProto

from xoptim.facts.shapes import Info
from xoptim.operators.axes import Axes, AxesView, AxisOperand, Shapes, axes_of_first, axis_within
from xoptim.operators.concatenation import joined
from xoptim.operators.definitions import defines
from xoptim.operators.inference.arguments import dtype_of, integer, shape_of, shapes
from xoptim.operators.inference.shared import broadcast_operands, like_first
from xoptim.operators.protocols import NodeContext, NodeView, Results
from xoptim.operators.registry import Trait, describes, infers, register, takes

register(Trait.SAME_SHAPE, "DequantizeLinear", "QuantizeLinear")
register(Trait.INTEGER_KERNEL, "ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul")
register(
    Trait.INTEGER_KERNEL,
    *("DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulIntegerToFloat", "MatMulNBits"),
    *("QAttention", "QGemm", "QLinearAdd", "QLinearAveragePool", "QLinearConcat"),
    *("QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearMul", "QLinearSigmoid"),
    *("QLinearSoftmax", "QLinearWhere"),
    domain="com.microsoft",
)
takes({1: "positive"}, "DequantizeLinear", "QuantizeLinear")
register(Trait.ROUNDS, "DequantizeLinear")
register(Trait.ROUNDS, "DequantizeLinear", domain="com.microsoft")
defines("""
    DynamicQuantizeLinear (x) => (y, scale, zero_point)
    {
        zero = Constant <value_float = 0.0> ()
        one = Constant <value_float = 1.0> ()
        steps = Constant <value_float = 255.0> ()
        zero_of_x = CastLike (zero, x)
        one_of_x = CastLike (one, x)
        max = ReduceMax <keepdims = 0> (x)
        highest = Max (max, zero)
        min = ReduceMin <keepdims = 0> (x)
        lowest = Min (min, zero)
        span = Sub (highest, lowest)
        is_zero = Equal (span, zero)
        step = Div (span, steps)
        scale = Where (is_zero, one_of_x, step)
        offset = Div (lowest, scale)
        place = Sub (zero_of_x, offset)
        clipped = Clip <min = 0.0, max = 255.0> (place)
        rounded = Round (clipped)
        zero_point = Cast <to = 2> (rounded)
        y = QuantizeLinear (x, scale, zero_point)
    }
""")


@infers("QuantizeLinear")
@infers("QuantizeLinear", domain="com.microsoft")
def quantize_linear(ctx: NodeContext) -> Results:
    """The type is ``output_dtype`` (since operator set 21), that of the zero point, or uint8."""
    dtype = integer(ctx, "output_dtype", 0) if ctx.opset >= 21 else 0
    if not dtype and dtype is not None:
        dtype = TensorProto.UINT8 if ctx.input(2) is None else dtype_of(ctx.input(2))
    return (Info(dtype or 0, shape_of(ctx.input(0))),)


@infers("DequantizeLinear")
@infers("DequantizeLinear", domain="com.microsoft")
def dequantize_linear(ctx: NodeContext) -> Results:
    """The type is ``output_dtype`` (since operator set 23), or that of the scale, which is float32
    before operator set 19 of the standard.
    """
    dtype = integer(ctx, "output_dtype", 0) if ctx.opset >= 23 else 0
    if not dtype and dtype is not None:
        dtype = TensorProto.FLOAT if ctx.opset < 19 and not ctx.domain else dtype_of(ctx.input(1))
    return (Info(dtype or 0, shape_of(ctx.input(0))),)


@infers("QLinearConcat", domain="com.microsoft")
def qlinear_concat(ctx: NodeContext) -> Results:
    """Inputs: scale and zero point of the result, then each tensor, its scale and zero point."""
    shapes = [shape_of(ctx.input(i)) for i in range(2, len(ctx.inputs), 3)]
    return [Info(dtype_of(ctx.input(1)), joined(ctx, shapes, integer(ctx, "axis")))]


shapes("QLinearAdd", "QLinearMul", typed_by=(0, 3), operands=(0, 3), domain="com.microsoft")(
    broadcast_operands
)
shapes("QLinearWhere", typed_by=(1, 4), operands=(0, 1, 4), domain="com.microsoft")(
    broadcast_operands
)
infers(
    "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QOrderedGelu", domain="com.microsoft"
)(like_first)


@describes("DequantizeLinear", "QuantizeLinear")
def quantized_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """Per-tensor and per-axis quantization; block-wise quantization is not described."""
    axis, shape = axis_within(g, node, len(shapes[0])), shapes[1]
    if len(shape) > 1 or node.attribute.get("block_size"):
        return None
    if not shape or node.opset < 13 or axis is None:
        return axes_of_first(node, shapes) if shape in ((), (1,)) else None
    axes = axes_of_first(node, shapes, names={"axis": axis})
    scale = None if shape == (1,) else AxisOperand((axis,), is_apart=True)
    return replace(axes, operands=(axes.operands[0], *[scale] * (len(shapes) - 1)))
