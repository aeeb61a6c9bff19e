from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class SplitOnePattern(EasyPatternOptimization):
    """Split(x) into one part → x

    What: drops a Split that does not split.
    Why: it copies the whole tensor.
    Refuses when:
    1. there are other parts, even unread ones: the first one is not all of x then.
    """

    min_opset = 2

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Split(x, attributes=ANY)  # sizes may be given or not: one part takes all

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        if len(node.output) > 1 or node.attribute.get("num_outputs", 1) != 1:  # (1)
            return self.none(node, msg="there are several parts")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    _after = "agraph (float[a,4] x) => (float[a,4] y) { y = Relu(x) }"
    examples = (
        Example("agraph (float[a,4] x) => (float[a,4] y) { t = Split <axis = 1, num_outputs = 1> (x) y = Relu(t) }", _after),
        Example(
            "agraph (float[a,4] x) => (float[a,4] y) <int64[1] n = {4}> { t = Split <axis = 1> (x, n) y = Relu(t) }",
            _after,
            opset=13,
        ),
    )
