from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import ANY, Optional, Symbol


class DropoutPattern(EasyPatternOptimization):
    """Dropout(x) outside of training → x

    What: removes a Dropout that drops nothing.
    Why: it copies the whole tensor.
    Refuses when:
    1. it trains, or may: the mode is an operand that is neither absent nor constantly false, and the ratio is not 0.
    2. the mask is read (the engine refuses a result that would be missing).
    """

    min_opset = 7

    def match_pattern(self, g: PatternBuilder, x: Symbol, ratio: Optional, training: Optional) -> Symbol:
        # The pattern does not return the mask (2); before operator set 12 there was no mode.
        return g.op.Dropout(x, ratio, training, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        is_off = not m.training or g.get_constant_scalar(m.training) is False or g.get_constant_scalar(m.ratio) == 0
        return is_off or self.none(m.nodes[0], msg="it may be in training mode")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    _after = "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }"
    examples = (
        Example("agraph (float[a,b] x) => (float[a,b] y) { t = Dropout <ratio = 0.3> (x) y = Relu(t) }", _after, opset=10),
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <float r = {0.5}, bool m = {0}> { t = Dropout(x, r, m) y = Relu(t) }",
            _after,
        ),
        Example(
            "agraph (float[a,b] x, bool mode) => (float[a,b] y) <float r = {0}> { t = Dropout(x, r, mode) y = Relu(t) }",
            "agraph (float[a,b] x, bool mode) => (float[a,b] y) { y = Relu(x) }",
        ),
    )
