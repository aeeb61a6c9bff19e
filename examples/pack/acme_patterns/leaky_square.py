from typing import Any

from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class LeakySquarePattern(EasyPatternOptimization):
    """Mul(LeakyRelu(x), LeakyRelu(x)) → acme.LeakySquare(x).

    What: one operator of Acme's runtime computes both.
    Why: one pass less over the tensor.
    Refuses when: never.
    """

    phase = "target"
    produces = ("acme",)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        y = g.op.LeakyRelu(x, alpha=g.capture("slope"))
        return g.op.Mul(y, y)

    def apply_pattern(self, g: PatternRewriter, x: str, slope: float) -> Any:
        return g.op.LeakySquare(x, slope=slope, domain="acme")

    examples = (
        Example(
            "agraph (float[a] x) => (float[a] y) { t = LeakyRelu(x) y = Mul(t, t) }",
            "agraph (float[a] x) => (float[a] y) { y = acme.LeakySquare <slope = 0.01> (x) }",
            domains=(("acme", 1),),
        ),
    )
