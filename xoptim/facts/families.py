"""Operators of the standard domain that treat the shapes of their operands alike."""

from typing import Final

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
