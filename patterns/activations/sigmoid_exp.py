from onnx import TensorProto

from xoptim.facts.dtypes import FLOATS
from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class SigmoidExpPattern(EasyPatternOptimization):
    """1 / (1 + Exp(-x)) → Sigmoid(x)

    What: one operator instead of four.
    Why: measured 1.8 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the exponential would overflow where the result is not yet negligible (16-bit floats).
    2. the provider has no kernel of Sigmoid for the type.

    Approximate: onnxruntime's Sigmoid is wrong by about 1e-7, and 0 below -18: a logarithm or a division then differs.
    """

    phase = "specialize"
    exactness = "approximate"
    min_opset = 7
    operand_types = {"x": FLOATS - {TensorProto.FLOAT16}}  # (1)
    kernels = {"Sigmoid": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        shifted = g.op.Add(g.op.Exp(g.op.Neg(x)), 1.0)
        return g.op.Div(1.0, shifted) if g.option("division") else g.op.Reciprocal(shifted)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Sigmoid(x)

    _after = "agraph (float[n] x) => (float[n] y) { y = Sigmoid(x) }"
    examples = (
        Example(
            "agraph (float[n] x) => (float[n] y) <float one = {1}> { n = Neg(x) e = Exp(n) s = Add(one, e) y = Div(one, s) }",
            _after,
        ),
        Example(
            "agraph (float[n] x) => (float[n] y) <float o = {1}> { n = Neg(x) e = Exp(n) s = Add(e, o) y = Reciprocal(s) }",
            _after,
        ),
    )
