from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Constant

from .._folding import constant


class ReshapeAllowzeroPattern(EasyPatternOptimization):
    """Reshape(x, constant without 0, allowzero=1) → Reshape(x, constant)

    What: drops an attribute that says what a 0 among the sizes means.
    Why: torch writes it at every Reshape; patterns that end at one see the plain form.
    Refuses when:
    1. a size is 0.
    """

    min_opset = 14

    def match_pattern(self, g: PatternBuilder, x: Symbol, sizes: Constant) -> Symbol:
        return g.op.Reshape(x, sizes, allowzero=1)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return bool(constant(g, m.sizes).all()) or self.none(m.nodes[0], msg="a size is 0")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, sizes: str) -> str:
        return g.op.Reshape(x, sizes)

    _start = "agraph (float[n,6] x) => (float[n,2,3] y) <int64[3] t = {-1, 2, 3}>"
    examples = Example.only(
        _start + " { y = Reshape <allowzero = 1> (x, t) }",
        _start + " { y = Reshape(x, t) }",
        opset=14,
    )
