from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter


class LoopNeverPattern(PatternOptimization):
    """Loop(0, ..., x) → x

    What: replaces the results by the initial values.
    Why: there is nothing to run.
    Refuses when:
    1. neither the number of rounds is known to be 0 nor the condition known not to hold at the beginning.
    2. the loop stacks a result: it would be empty, of a shape that depends on the body.
    """

    anchors = ("Loop",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Either end is enough.
        rounds = g.get_constant_scalar(node.input[0]) if node.input[0] else None
        condition = g.get_constant_scalar(node.input[1]) if len(node.input) > 1 and node.input[1] else None
        if not (rounds is not None and rounds <= 0) and (condition is None or condition):  # (1)
            return self.none(node, msg="there may be rounds")
        if len(node.output) > len(node.input) - 2:  # (2)
            return self.none(node, msg="something is stacked")
        return MatchResult(self, [node], self.apply)

    def apply(self, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [a], [b]) for a, b in zip(node.input[2:], node.output, strict=False) if b]

    examples = Example.only(
        "agraph (float[a] x, int64 n) => (float[a] y) <bool c = {0}> { t = Loop(n, c, x) "
        "< body = round (int64 i, bool d, float[a] p) => (bool e, float[a] q) { e = Identity(d) q = Relu(p) }> y = Neg(t) }",
        "{ y = Neg(x) }",
    )
