from xoptim.facts.dtypes import is_float
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


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

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return g.op.Div(x, g.op.Reciprocal(z) if g.option("reciprocal") else g.op.Div(1.0, z))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return is_float(g.try_infer_type(m.z)) or self.none(m.nodes[0], msg="the numbers are not floating-point")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
        return g.op.Mul(x, z)

    examples = (
        Example(
            "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Reciprocal(z) y = Div(x, t) }",
            "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { y = Mul(x, z) }",
            ranges=(("z", 0.5, 2.0),),
        ),
    )
