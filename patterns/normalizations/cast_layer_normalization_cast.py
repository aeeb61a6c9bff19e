from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Constant, Optional, Symbol

from .._folding import Array, doubles, rounded
from .._kernels import runs


class CastLayerNormalizationCastPattern(EasyPatternOptimization):
    """Cast(LayerNormalization(Cast(x, float), scale, bias), type of x) → LayerNormalization(x, scale, bias)

    What: drops the casts around an operator that computes in 32 bits by itself.
    Why: each cast copies the whole tensor.
    Refuses when:
    1. the type of x is not a 16-bit float, or the second cast goes to another one.
    2. the scale or the bias is not constant.
    3. the provider has no kernel for the type.
    4. the scale or the bias leaves the range of the type.
    """

    phase = "specialize"
    priority = 2
    exactness = "rounding"
    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Constant, bias: Optional) -> Symbol:
        wide = g.op.Cast(x, to=TensorProto.FLOAT)
        y = g.op.LayerNormalization(wide, scale, bias, axis=g.capture("axis"), epsilon=g.capture("epsilon"))
        return g.op.Cast(y, to=g.capture("to"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.to != g.try_infer_type(m.x) or m.to not in (TensorProto.FLOAT16, TensorProto.BFLOAT16):  # (1)
            return self.none(m.nodes[2], msg="the types differ, or are not 16-bit floats")
        if m.bias and not g.is_constant(m.bias):  # (2)
            return self.none(m.nodes[1], msg="the bias is not constant")
        if not runs(g, "LayerNormalization", m.x):  # (3)
            return self.none(m.nodes[1], msg="no kernel for the type")
        dtype = numpy_dtype(m.to)
        factors = rounded(doubles(g, m.scale), dtype)
        shift = rounded(doubles(g, m.bias), dtype, terms=()) if m.bias else None
        if factors is None or (m.bias and shift is None):  # (4)
            return self.none(m.nodes[1], msg="the scale or the bias leaves the range of the type")
        return m.derive(factors=factors, shift=shift)

    def apply_pattern(self, g: PatternRewriter, x: str, factors: Array, shift: Array | None, axis: int, epsilon: float) -> str:
        return g.op.LayerNormalization(x, factors, shift, axis=axis, epsilon=epsilon)

    examples = (
        Example(
            "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}, float[2] b = {1, 0}> "
            "{ w = Cast <to = 1> (x) t = LayerNormalization <epsilon = 0.001> (w, s, b) y = Cast <to = 10> (t) }",
            "agraph (float16[a,2] x) => (float16[a,2] y) <float[2] s = {2, 3}, float[2] b = {1, 0}> "
            "{ t = Cast <to = 10> (s) u = Cast <to = 10> (b) "
            "y = LayerNormalization <axis = -1, epsilon = 0.001> (x, t, u) }",
        ),
    )
