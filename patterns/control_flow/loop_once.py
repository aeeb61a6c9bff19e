from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from ._rounds import rounds


class LoopOncePattern(PatternOptimization):
    """Loop(1, true, ...) → the body

    What: puts the nodes of the body in the place of the Loop.
    Why: nothing can be fused or folded across the border of a subgraph.
    Refuses when:
    1. the number of rounds is not known to be 1, or the condition at the beginning not to hold.
    2. the body holds sparse initializers, which stay where they are.
    """

    anchors = ("Loop",)
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # The condition that the body returns does not matter after the only round.
        condition = node.input[1] if len(node.input) > 1 else ""
        holds = not condition or bool(g.get_constant_scalar(condition))
        if g.get_constant_scalar(node.input[0]) != 1 or not holds:  # (1)
            return self.none(node, msg="not exactly one round")
        body = node.bodies.get("body")
        if body is None or not g.can_splice(body):  # (2)
            return self.none(node, msg="the body cannot be taken out")
        return MatchResult(self, [node], partial(rounds, body, 1))

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y, float[1,a] z) <int64 n = {1}, bool c = {1}> { y, z = Loop(n, c, x) < "
        "body = round (int64 i, bool d, float[a] p) => (bool e, float[a] q, float[a] r) "
        "{ e = Identity(d) q = Relu(p) r = Exp(q) }> }",
        "<int64[1] k = {0}> { y = Relu(x) r = Exp(y) z = Unsqueeze(r, k) }",
    )
