from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class CastPattern(EasyPatternOptimization):
    """Cast(x, to=type of x) → x

    What: drops a cast that changes nothing.
    Why: it copies the whole tensor.
    Refuses when:
    1. the type of x is unknown or another one.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Cast(x, to=g.capture("to"), attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return True if g.try_infer_type(m.x) == m.to else self.none(m.nodes[0], msg="the types differ or are unknown")  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only("agraph (float[a] x) => (float[a] y) { t = Cast <to = 1> (x) y = Relu(t) }", "{ y = Relu(x) }")
