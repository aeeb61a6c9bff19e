from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class ReshapeAllowzeroPattern(EasyPatternOptimization):
    """Reshape(x, constant without 0, allowzero=1) → Reshape(x, constant)

    What: drops an attribute that only matters for sizes of 0.
    Why: torch writes it at every Reshape. Patterns then need to match one form of Reshape only.
    Refuses when:
    1. a size is 0.
    """

    min_opset = 14

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Reshape(x, g.constant("sizes", lambda sizes: sizes.all()), allowzero=1)  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, sizes: str) -> str:
        return g.op.Reshape(x, sizes)

    _start = "agraph (float[n,6] x) => (float[n,2,3] y) <int64[3] t = {-1, 2, 3}>"
    examples = Example.only(
        _start + " { y = Reshape <allowzero = 1> (x, t) }",
        _start + " { y = Reshape(x, t) }",
        opset=14,
    )
