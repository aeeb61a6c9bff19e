"""An If of which only one branch gives what its reader accepts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, Graph, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._ranks import inferred_rank, required_ranks


class IfRequiredPattern(PatternOptimization):
    """LSTM(If(the axis is 1, Squeeze(x), x)) → LSTM(Squeeze(x)), and so for other readers that fix the rank

    What: puts the nodes of a branch in the place of the If, where the rank of the other branch is one that a reader refuses.
    Why: exporters write Squeeze in this way where they do not know the length of the axis; nothing can be fused or folded
        across the border of a subgraph, and the rank is not known behind it.
        Runtimes that compute 16-bit floats in 32 bits round at the border, so the last bit may differ.
    Refuses when:
    1. no reader fixes the rank: the recurrent operators (3), Transpose (the length of its permutation) and Conv (the rank of
       its weight), in the same graph, directly or behind elementwise operators.
    2. the rank of the other branch is not known from its operators alone.
    3. the branch has sparse initializers.
    """

    anchors = ("If",)
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """The reader runs whenever the If does."""
        branches = [node.bodies.get(name) for name in ("then_branch", "else_branch")]
        for place, name in enumerate(node.output):
            ranks = required_ranks(g, name) if name else set()
            for taken, other in (branches, branches[::-1]):
                if taken is None or other is None or not g.can_splice(taken):  # (3)
                    continue
                given = inferred_rank(g, other, other.outputs[place])
                if given is not None and any(given != rank for rank in ranks):  # (1) (2)
                    return MatchResult(self, [node], partial(self._take, taken))
        return self.none(node, msg="no reader decides which branch is taken")

    def _take(self, branch: Graph, g: PatternRewriter, node: Node) -> list[Node]:
        return g.splice(branch, {}, node.output)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """The height of an image that is 1, as torch exports a text recognizer."""
        start = "agraph (float[b,3,1,w] x, float[1,8,3] k, float[1,8,2] r, bool c) => (float[w,1,b,2] y) <int64[1] two = {2}> {"
        rest = "t = Transpose <perm = [2, 0, 1]> (s) y = LSTM <hidden_size = 2> (t, k, r) }"
        return (
            Example(
                f"{start} s = If(c) < then_branch = yes () => (float[b,3,w] p) {{ p = Squeeze(x, two) }}, "
                f"else_branch = no () => (float[b,3,1,w] q) {{ q = Identity(x) }}> {rest}",
                f"{start} s = Squeeze(x, two) {rest}",
                ranges=(("c", 1, 1),),
            ),
        )
