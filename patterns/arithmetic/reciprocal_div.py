from xoptim.facts.dtypes import FLOATS
from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class ReciprocalDivPattern(EasyPatternOptimization):
    """x / Reciprocal(z) or x / (1 / z) → x · z

    What: multiplies.
    Why: measured 2 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. z is an integer: 1 / z is 0 or 1 then.
    """

    interior = "keep"
    exactness = "rounding"
    min_opset = 7
    operand_types = {"z": FLOATS}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return g.op.Div(x, g.op.Reciprocal(z) if g.option("reciprocal") else g.op.Div(1.0, z))

    def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
        return g.op.Mul(x, z)

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Reciprocal(z) y = Div(x, t) }",
        "{ y = Mul(x, z) }",
        ranges=(("z", 0.5, 2.0),),
    )
