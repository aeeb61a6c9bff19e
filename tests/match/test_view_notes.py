"""The notes that patterns keep between nodes, while the graph is unchanged."""

import xoptim
from tests.support import parse
from xoptim.match import GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

CHAIN = (
    "agraph (float[n] x) => (float[n] y, float[n] z) { a = Neg(x) b = Neg(a) y = Exp(b) c = Neg(y) "
    "d = Neg(c) z = Exp(d) }"
)


class Counting(PatternOptimization):
    """Neg(Neg(x)) → Identity(x), counting the nodes that it saw since the last change"""

    anchors = ("Neg", "Exp")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        assert g.notes is not None
        before = g.node_before(node.input[0])
        self.seen.append(len(g.notes))
        g.notes[node] = True
        if before is None or before.op_type != "Neg" or node.op_type != "Neg":
            return None
        return MatchResult(self, [before, node], self.write)

    def write(self, g: PatternRewriter, before: Node, node: Node) -> list[Node]:
        return [g.make_node("Identity", before.input[:1], node.output)]


def test_notes_last_until_the_graph_changes() -> None:
    pattern = Counting()
    xoptim.optimize(parse(CHAIN), patterns=[pattern])
    assert pattern.seen[:6] == [0, 1, 0, 1, 2, 0], "the second and the fifth node were rewritten"
    assert 0 in pattern.seen[6:], "a new round begins without notes"


def test_nobody_empties_the_notes_of_other_views() -> None:
    builder = xoptim.GraphBuilder(parse(CHAIN))
    assert xoptim.GraphBuilderPatternOptimization(builder.graph).notes is None
