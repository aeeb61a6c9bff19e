from xoptim.facts.dtypes import FLOATS
from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape


class ReciprocalMulPattern(EasyPatternOptimization):
    """x · Reciprocal(z) or x · (1 / z) → x / z

    What: divides.
    Why: measured 1.5 times faster on onnxruntime's CPU provider where z is as large as the result, 1.4 times slower where it
    is broadcast: divisions are slower than products.
    Refuses when:
    1. z is smaller than the result, or that is unknown.
    2. something else reads the reciprocal.
    3. z is an integer: 1 / z is 0 or 1 then.
    """

    exactness = "rounding"
    min_opset = 7
    operand_types = {"z": FLOATS}  # (3)

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return g.op.Mul(x, g.op.Reciprocal(z) if g.option("reciprocal") else g.op.Div(1.0, z))  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        product = m.nodes[-1]
        return keeps_shape(g, product, m.z) or self.none(product, msg="the divisor may be broadcast")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
        return g.op.Div(x, z)

    _ranges = (("z", 0.5, 2.0),)
    examples = (
        Example(
            "agraph (float[a,b] x, float[a,b] z) => (float[a,b] y) { t = Reciprocal(z) y = Mul(t, x) }",
            "{ y = Div(x, z) }",
            ranges=_ranges,
        ),
        Example(
            "agraph (float[a,b] x, float[a,b] z) => (float[a,b] y) <float one = {1}> { t = Div(one, z) y = Mul(x, t) }",
            "{ y = Div(x, z) }",
            ranges=_ranges,
        ),
    )
