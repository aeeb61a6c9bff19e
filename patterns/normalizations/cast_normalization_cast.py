"""Normalization by the root of the mean square in 32 bits between casts."""

from typing import ClassVar

from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array, doubles, rounded
from .._kernels import runs


class _CastNormalizationCast(EasyPatternOptimization):
    """An `operator` with a scale, between casts."""

    exactness = "rounding"
    operator: ClassVar[str]

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Constant) -> Symbol:
        normalize = getattr(g.op, self.operator)
        y = normalize(g.op.Cast(x, to=TensorProto.FLOAT), scale, axis=g.capture("axis"), epsilon=g.capture("epsilon"))
        return g.op.Cast(y, to=g.capture("to"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.to != g.try_infer_type(m.x) or m.to not in (TensorProto.FLOAT16, TensorProto.BFLOAT16):  # (1)
            return self.none(m.nodes[2], msg="the types differ, or are not 16-bit floats")
        if not runs(g, self.operator, m.x):  # (2)
            return self.none(m.nodes[1], msg="no kernel for the type")
        narrow = rounded(doubles(g, m.scale), numpy_dtype(m.to))
        return m.derive(narrow=narrow) if narrow is not None else self.none(m.nodes[1], msg="the scale leaves the type")  # (3)

    def apply_pattern(self, g: PatternRewriter, x: str, narrow: Array, axis: int, epsilon: float) -> str:
        return str(getattr(g.op, self.operator)(x, narrow, axis=axis, epsilon=epsilon))


class CastRMSNormalizationCastPattern(_CastNormalizationCast):
    """Cast(RMSNormalization(Cast(x, float), scale), type of x) → RMSNormalization(x, scale)

    What: drops the casts around an operator that computes in 32 bits by itself.
    Why: each cast copies the whole tensor.
    Refuses when:
    1. the type of x is not a 16-bit float, or the second cast goes to another one.
    2. the provider has no kernel for the type.
    3. the scale leaves the range of the type.
    """

    phase = "specialize"
    operator = "RMSNormalization"
    min_opset = 23

    examples = (
        Example(
            "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}> "
            "{ w = Cast <to = 1> (x) t = RMSNormalization <epsilon = 0.001> (w, s) y = Cast <to = 10> (t) }",
            "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}> "
            "{ t = Cast <to = 10> (s) y = RMSNormalization <axis = -1, epsilon = 0.001> (x, t) }",
            opset=23,
        ),
    )


class CastSimplifiedLayerNormalizationCastPattern(_CastNormalizationCast):
    """Cast(SimplifiedLayerNormalization(Cast(x, float), scale), type of x) → SimplifiedLayerNormalization(x, scale)

    What: drops the casts around an operator that computes in 32 bits by itself, below operator set 23.
    Why: each cast copies the whole tensor.
    Refuses when:
    1. the type of x is not a 16-bit float, or the second cast goes to another one.
    2. the provider has no kernel for the type.
    3. the scale leaves the range of the type.
    """

    phase = "target"
    operator = "SimplifiedLayerNormalization"
    min_opset = 7
    max_opset = 22
    tags = ("onnxruntime",)
    unchecked = ("SimplifiedLayerNormalization",)

    examples = (
        Example(
            "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}> { w = Cast <to = 1> (x) "
            "t = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (w, s) y = Cast <to = 10> (t) }",
            "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}> "
            "{ t = Cast <to = 10> (s) y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (x, t) }",
        ),
    )
