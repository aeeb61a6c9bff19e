"""Arithmetic on axes and shapes, for all operators, and operators that treat shapes alike."""

from collections.abc import Collection, Iterable
from typing import Final

from xoptim.facts.dims import broadcast
from xoptim.facts.info import Shape

BROADCASTING: Final = (
    *("Add", "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "Where", "And", "Or", "Xor", "Equal", "Greater"),
    *("GreaterOrEqual", "Less", "LessOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"),
)
"""All operands broadcast to the shape of the result (since operator set 8)."""

STRETCHING: Final = frozenset((*BROADCASTING, "PRelu"))
"""At least one operand is broadcast to the shape of the result: the slopes of PRelu are, its first operand is not."""

ELEMENTWISE: Final = frozenset(
    (
        *("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Cast", "Ceil", "Celu", "Clip", "Cos"),
        *("Cosh", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu", "Log"),
        *("Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh"),
        *("Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu"),
    )
)
"""The result has the shape of the first operand, each element comes from the one in its place; bounds are numbers."""

POSITIONAL: Final = frozenset(("Acos", "Asin", "Atan", "Cos", "Log", "Mish", "Sin", "Softplus"))
"""Elementwise operators that onnxruntime rounds differently at the end of a tensor, which vector instructions do not reach."""

SHAPE_KEEPING: Final = ELEMENTWISE | {
    *("BatchNormalization", "CastLike", "CumSum", "Dropout", "GroupNormalization", "Hardmax", "InstanceNormalization"),
    *("LayerNormalization", "LogSoftmax", "LpNormalization", "LRN", "MeanVarianceNormalization", "PRelu", "RMSNormalization"),
    *("DequantizeLinear", "QuantizeLinear", "ReverseSequence", "ScatterElements", "ScatterND", "Softmax", "Trilu"),
}
"""The first result has the shape of the first operand."""

REDUCTIONS: Final = (
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"),
    *("ReduceSum", "ReduceSumSquare"),
)
"""Some axes of the first operand are reduced to one number each; the axes are an attribute or the second operand."""

MOVING: Final = frozenset(
    ("Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze")
)
"""The elements of the results are elements of the first operand."""


def normalized(axis: int | None, rank: int) -> int | None:
    """A non-negative axis, ``None`` when unknown or out of range."""
    if axis is None or not -rank <= axis < rank:
        return None
    return axis % rank


def all_normalized(axes: Collection[int] | None, rank: int) -> list[int] | None:
    """Non-negative axes, ``None`` when they are unknown, or when one is out of range or occurs twice."""
    found = [axis % rank for axis in axes or () if -rank <= axis < rank]
    return found if axes is not None and len(set(found)) == len(axes) else None


def broadcast_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Shape of an elementwise result over operands of two shapes, ``None`` when one of them is unknown.

    Returns ``a`` or ``b`` itself where the result is equal to it.
    """
    if a is None or b is None:
        return None
    if a is b or a == b:
        return a
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    dims = [x if x is y or y == 1 else broadcast(x, y) for x, y in zip(longer[lead:], shorter, strict=True)]
    shape = (*longer[:lead], *dims)
    return a if shape == a else b if shape == b else shape


def broadcast_all(shapes: Iterable[Shape | None]) -> Shape | None:
    """Shape of an elementwise result over one or more operands, ``None`` when one of them is unknown."""
    result: Shape | None = ()
    for shape in shapes:
        result = broadcast_shapes(result, shape)
    return result
