from xoptim.match import EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class IdentityTransposePattern(EasyPatternOptimization):
    """Transpose(x), every axis in its place → x

    What: drops a Transpose that moves nothing.
    Why: it copies the whole tensor.
    Refuses when:
    1. an axis moves, or the permutation is not written and the rank is unknown, so that its default is unknown.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Transpose(x, perm=lambda perm: perm is not None and perm == list(range(len(perm))))  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = (
        Example(
            "agraph (float[a,b,c] x) => (float[a,b,c] y) { t = Transpose <perm = [0, 1, 2]> (x) y = Relu(t) }",
            "agraph (float[a,b,c] x) => (float[a,b,c] y) { y = Relu(x) }",
        ),
        Example(
            "agraph (float[a] x) => (float[a] y) { t = Transpose(x) y = Relu(t) }",
            "agraph (float[a] x) => (float[a] y) { y = Relu(x) }",
        ),
    )
