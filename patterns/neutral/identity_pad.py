from xoptim.match import ANY, EasyPatternOptimization, Example, PatternBuilder, PatternRewriter, Symbol


class IdentityPadPattern(EasyPatternOptimization):
    """Pad(x, zeros) → x

    What: drops a Pad by nothing, in any mode.
    Why: it copies the whole tensor.
    Refuses when:
    1. an amount is not 0 or not constant. (One that is taken away at one end and added at the other keeps the shape, too.)
    """

    min_opset = 2

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Pad(x, pads=lambda pads: pads is not None and not any(pads), attributes=ANY)  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <int64[4] p = {0, 0, 0, 0}> { t = Pad(x, p) y = Relu(t) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
        ),
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <int64[2] p = {0, 0}, float v = {1.5}, int64[1] axes = {-1}> "
            '{ t = Pad <mode = "reflect"> (x, p, v, axes) y = Relu(t) }',
            "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
        ),
    )
