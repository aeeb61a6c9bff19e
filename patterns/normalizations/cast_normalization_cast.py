"""Normalizations in float32 between Casts."""

from typing import ClassVar

from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array, doubles, rounded


class _CastNormalizationCast(EasyPatternOptimization):
    """An `operator` with a scale, between Casts.

    What: drops the Casts around an operator whose kernel computes in float32 anyway.
    Why: each Cast copies the tensor.
    Refuses when:
    1. x is neither float16 nor bfloat16, or the second Cast is to another type.
    2. the provider has no kernel for the type.
    3. the scale leaves the range of the type.
    """

    exactness = "rounding"
    operand_types = {"x": {TensorProto.FLOAT16, TensorProto.BFLOAT16}}  # (1)
    operator: ClassVar[str]
    derives = ("parameters",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Constant) -> Symbol:
        return self.between_casts(g, x, scale)

    def between_casts(
        self, g: PatternBuilder, x: Symbol, *parameters: Symbol | Constant | Optional
    ) -> Symbol:
        """The operator in float32, between the two Casts."""
        normalize = getattr(g.op, self.operator)
        y = normalize(
            g.op.Cast(x, to=TensorProto.FLOAT),
            *parameters,
            axis=g.capture("axis"),
            epsilon=g.capture("epsilon"),
        )
        return g.op.Cast(y, to=g.capture("to"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.to != g.try_infer_type(m.x):  # (1)
            return self.none(m.nodes[2], msg="the types differ")
        dtype = numpy_dtype(m.to)
        parameters = [rounded(doubles(g, m.scale), dtype)]  # (3)
        if m.get("bias"):
            parameters.append(rounded(doubles(g, m.bias), dtype, terms=()))  # (3)
        return m.derive(parameters=parameters)

    def apply_pattern(
        self, g: PatternRewriter, x: str, parameters: list[Array], axis: int, epsilon: float
    ) -> str:
        return str(getattr(g.op, self.operator)(x, *parameters, axis=axis, epsilon=epsilon))


class CastLayerNormalizationCastPattern(_CastNormalizationCast):
    """Cast(LayerNormalization(Cast(x, float), scale, bias), type of x) → LayerNormalization(x,
    scale, bias)

    Refuses when:
    1. x is neither float16 nor bfloat16, or the second Cast is to another type.
    2. the provider has no kernel for the type.
    3. the scale or the bias leaves the range of the type.
    4. the scale or the bias is not constant.
    """

    phase = "specialize"
    operator = "LayerNormalization"
    min_opset = 7
    constant_operands = ("bias",)  # (4)
    kernels = {"LayerNormalization": "x"}  # (2)

    def match_pattern(  # type: ignore[override]
        self, g: PatternBuilder, x: Symbol, scale: Constant, bias: Optional
    ) -> Symbol:
        return self.between_casts(g, x, scale, bias)

    examples = Example.only(
        "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}, float[2] b = {1, 0}> { "
        "w = Cast <to = 1> (x) t = LayerNormalization <epsilon = 0.001> (w, s, b) "
        "y = Cast <to = 10> (t) }",
        "<float[2] s = {2, 3}, float[2] b = {1, 0}> { t = Cast <to = 10> (s) "
        "u = Cast <to = 10> (b) y = LayerNormalization <axis = -1, epsilon = 0.001> (x, t, u) }",
    )


class CastRMSNormalizationCastPattern(_CastNormalizationCast):
    """Cast(RMSNormalization(Cast(x, float), scale), type of x) → RMSNormalization(x, scale)"""

    phase = "specialize"
    operator = "RMSNormalization"
    kernels = {"RMSNormalization": "x"}  # (2)
    min_opset = 23

    examples = Example.only(
        "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}> { "
        "w = Cast <to = 1> (x) t = RMSNormalization <epsilon = 0.001> (w, s) "
        "y = Cast <to = 10> (t) }",
        "<float[2] s = {2, 3}> { t = Cast <to = 10> (s) "
        "y = RMSNormalization <axis = -1, epsilon = 0.001> (x, t) }",
        opset=23,
    )


class CastSimplifiedLayerNormalizationCastPattern(_CastNormalizationCast):
    """Cast(SimplifiedLayerNormalization(Cast(x, float), scale), type of x) →
    SimplifiedLayerNormalization(x, scale)

    What: drops the Casts around an operator whose kernel computes in float32 anyway. From operator
    set 23 on, RMSNormalization takes its place.
    """

    phase = "target"
    operator = "SimplifiedLayerNormalization"
    kernels = {"SimplifiedLayerNormalization": "x"}  # (2)
    min_opset = 7
    max_opset = 22
    tags = ("onnxruntime",)
    unchecked = ("SimplifiedLayerNormalization",)

    examples = Example.only(
        "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}> { "
        "w = Cast <to = 1> (x) t = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (w, "
        "s) y = Cast <to = 10> (t) }",
        "<float[2] s = {2, 3}> { t = Cast <to = 10> (s) "
        "y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (x, t) }",
    )
