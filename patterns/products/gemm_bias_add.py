from typing import Any

from xoptim.facts.dtypes import FLOATS
from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import Array, constant, doubles, rounded
from ._products import contracts


class GemmBiasAddPattern(EasyPatternOptimization):
    """Add(Gemm(a, b, c), d) → Gemm(a, b, beta · c + d)

    What: adds two constants in advance.
    Why: saves one pass over the result.
    Refuses when:
    1. a constant is not the same for all rows, or would change the shape of the product.
    2. the sums cancel, or leave the range of their type.
    3. ``beta`` is not 1, and the sum may have no terms: onnxruntime leaves ``beta`` out then.
    4. the numbers are integers, which may be multiplied by a fraction.
    """

    phase = "specialize"
    priority = 2
    exactness = "rounding"
    min_opset = 7
    operand_types = {"d": FLOATS}  # (4)

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Constant, d: Constant) -> Symbol:
        return g.op.Add(g.op.Gemm(a, b, c, attributes=g.capture("attributes")), d)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        product, added = g.try_infer_shape(m.nodes[0].output[0]), constant(g, m.d)
        rows = [array.shape[:-1] for array in (constant(g, m.c), added)]
        same = all(shape in ((), (1,)) for shape in rows) and added.shape[-1:] in ((), (1,), (product or ())[-1:])
        if product is None or not same:  # (1)
            return self.none(m.nodes[1], msg="a bias differs by row, or changes the shape")
        beta, shift = m.attributes.get("beta", 1.0), doubles(g, m.d)
        given = doubles(g, m.c) * beta
        bias = rounded(given + shift, added.dtype, terms=(given, shift))
        if bias is None:  # (2)
            return self.none(m.nodes[1], msg="the sum cancels or overflows")
        if beta != 1 and not contracts(g, m.a, m.b, m.attributes):  # (3)
            return self.none(m.nodes[0], msg="nothing may be summed")
        return m.derive(bias=bias)

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, bias: Array, attributes: dict[str, Any]) -> str:
        # ``beta`` is 1 for the new bias.
        return g.op.Gemm(a, b, bias, **{name: value for name, value in attributes.items() if name != "beta"})

    examples = (
        Example(
            "agraph (float[n,4] x, float[4,2] w) => (float[n,2] y) <float[2] c = {2, 4}, float[2] d = {5, 6}> "
            "{ t = Gemm <beta = 0.5> (x, w, c) y = Add(t, d) }",
            "agraph (float[n,4] x, float[4,2] w) => (float[n,2] y) <float[2] c = {6, 8}> { y = Gemm(x, w, c) }",
        ),
    )
