"""A pattern whose subgraph has no fixed form, so that it is matched by hand.

python examples/write_a_pattern_by_hand.py
"""

import xoptim
from xoptim import (
    Example,
    GraphBuilderPatternOptimization,
    MatchResult,
    Node,
    PatternOptimization,
    PatternRewriter,
)
from xoptim.doc import pretty_onnx
from xoptim.testing import check_pattern, parse


class RoundingChainPattern(PatternOptimization):
    """Round(... Ceil(Floor(x))) → Floor(x).

    What: keeps the first node of a chain of Ceil, Floor and Round.
    Why: its result is an integer already.
    Refuses when:
    1. nothing is rounded before.
    """

    anchors = ("Ceil", "Floor", "Round")

    def match(
        self, g: GraphBuilderPatternOptimization, node: Node, matched: list[MatchResult]
    ) -> MatchResult | None:
        """Walk back to the first of them."""
        first, before = node, g.node_before(node.input[0])
        while before is not None and before.op_type in self.anchors and not before.domain:
            first, before = before, g.node_before(before.input[0])
        if first is node:
            return self.none(node, msg="nothing is rounded before")  # (1)
        return MatchResult(self, [first, node], self.apply, insert_at=node)

    def apply(self, g: PatternRewriter, first: Node, last: Node) -> list[Node]:
        """The first stays; the cleaning removes the others, which are not read any more."""
        return [first, g.make_node("Identity", [first.output[0]], [last.output[0]])]

    examples = (
        Example(
            "agraph (float[a] x) => (float[a] y) { s = Floor(x) t = Ceil(s) u = Round(t) "
            "y = Neg(u) }",
            "agraph (float[a] x) => (float[a] y) { s = Floor(x) y = Neg(s) }",
        ),
    )


def main() -> None:
    """Test the pattern, then use it."""
    print(f"near misses: {check_pattern(RoundingChainPattern)['tried']}")
    model = parse(
        "agraph (float[n] x) => (float[n] y, float[n] z) { t = Ceil(x) z = Floor(t) u = Round(z) "
        "y = Exp(u) }"
    )
    print(pretty_onnx(xoptim.optimize(model, patterns=[RoundingChainPattern])))


if __name__ == "__main__":
    main()
