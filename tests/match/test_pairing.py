# mypy: disable-error-code="no-any-return"
"""The pairs of a partial match: none contradicts another one, and those of a choice are taken back
before the next.
"""

from typing import Any

from tests.support import load, node_of
from xoptim.graph.graph import Graph
from xoptim.match import EasyPatternOptimization
from xoptim.match.easy import compiled
from xoptim.match.pairing import Pairing
from xoptim.match.trace import PatternBuilder, Symbol
from xoptim.match.view import GraphView

TEXT = """agraph (float[3] x, float[3] z) => (float[3] p, float[3] q) {
  a = LeakyRelu <alpha = 0.5> (x)
  b = LeakyRelu <alpha = 0.25> (z)
  p = Sub(a, a)
  q = Sub(a, b)
}"""


class Difference(EasyPatternOptimization):
    """Sub(LeakyRelu(x), LeakyRelu(y)), with the same constant → Neg(x)"""

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol) -> Symbol:
        return g.op.Sub(
            g.op.LeakyRelu(x, alpha=g.capture("c")), g.op.LeakyRelu(y, alpha=g.capture("c"))
        )


def started() -> tuple[Graph, Pairing]:
    (program,) = compiled(Difference())
    graph = load(TEXT).graph
    return graph, Pairing(program, GraphView(graph))


def state(pairing: Pairing) -> Any:
    return list(pairing.names), list(pairing.nodes), list(pairing.extra), dict(pairing.attributes)


def test_a_node_is_paired_once() -> None:
    graph, pairing = started()
    left, right, _ = pairing.program.trace.nodes
    a = node_of(graph, "LeakyRelu")
    assert pairing.bind(left, a)
    assert pairing.node_of(left) is a
    assert pairing.bound == [a]
    assert not pairing.bind(right, a)


def test_a_capture_has_one_value() -> None:
    graph, pairing = started()
    left, right, _ = pairing.program.trace.nodes
    a, b = graph.of_type("LeakyRelu")
    assert pairing.bind(left, a)
    assert pairing.attributes == {"c": 0.5}
    assert not pairing.bind(right, b)


def test_a_result_has_one_name() -> None:
    for producer, fits in ((0, True), (1, False)):
        graph, pairing = started()
        left, _, root = pairing.program.trace.nodes
        assert pairing.bind(root, graph.of_type("Sub")[1])
        assert pairing.operands(root, (0, 1))
        assert pairing.bind(left, graph.of_type("LeakyRelu")[producer]) is fits


def test_pairs_of_a_choice_are_taken_back() -> None:
    graph, pairing = started()
    left, _, root = pairing.program.trace.nodes
    p, q = graph.of_type("Sub")
    before = state(pairing)
    seen = []
    for _ in pairing.alternatives(root, [p, graph.of_type("LeakyRelu")[0], q], pairing.bind):
        assert pairing.attributes == {}, "those made after the choice before are gone"
        seen.append(pairing.node_of(root))
        assert pairing.operands(root, (0, 1))
        assert pairing.bind(left, graph.of_type("LeakyRelu")[0])
        assert pairing.attributes == {"c": 0.5}
    assert seen == [p, q], "a choice that does not fit is passed over"
    assert state(pairing) == before
