from typing import Any

from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class GemmAddPattern(EasyPatternOptimization):
    """Add(Gemm(a, b), c) → Gemm(a, b, c); Sum of two operands likewise

    What: adds the bias while the product is computed.
    Why: saves one pass over the result.
    Refuses when:
    1. Gemm has a bias already.
    2. c would have to be broadcast otherwise than to the shape of the product.
    """

    phase = "specialize"
    priority = 2
    exactness = "rounding"
    min_opset = 11

    def match_pattern(self, g: PatternBuilder, a: Symbol, b: Symbol, c: Symbol) -> Symbol:
        y = g.op.Gemm(a, b, None, attributes=g.capture("attributes"))
        return g.op.Sum(y, c) if g.option("several") else g.op.Add(y, c)  # (1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        product, bias = g.try_infer_shape(m.nodes[0].output[0]), g.try_infer_shape(m.c)
        if product is None or bias is None or len(bias) > 2:  # (2)
            return self.none(m.nodes[1], msg="the shape of the bias is unknown, or it has too many axes")
        if any(d not in (1, axis) for d, axis in zip(bias[::-1], product[::-1], strict=False)):
            return self.none(m.nodes[1], msg="the bias does not broadcast to the product")
        return True

    def apply_pattern(self, g: PatternRewriter, a: str, b: str, c: str, attributes: dict[str, Any]) -> str:
        # ``beta`` is 1: its former value had no effect without a bias.
        return g.op.Gemm(a, b, c, **{name: value for name, value in attributes.items() if name != "beta"})

    examples = (
        Example(
            "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y) "
            "{ t = Gemm <transB = 1, beta = 0.5> (x, w) y = Add(b, t) }",
            "agraph (float[n,4] x, float[3,4] w, float[3] b) => (float[n,3] y) { y = Gemm <transB = 1> (x, w, b) }",
        ),
        Example(
            "agraph (float[n,4] x, float[4,3] w, float[n,3] z) => (float[n,3] y) { t = Gemm(x, w) y = Sum(t, z) }",
            "agraph (float[n,4] x, float[4,3] w, float[n,3] z) => (float[n,3] y) { y = Gemm(x, w, z) }",
        ),
    )
