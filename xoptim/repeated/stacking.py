"""The pass that computes repeated operations once, together."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.graph.edit import Edit
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.match.rewrite import Example, Finding, ModelPass
from xoptim.repeated.choice import Choice
from xoptim.repeated.findings import findings
from xoptim.repeated.groups import Group, arrange, find_groups
from xoptim.repeated.writing import StackWriter


class Repeated(ModelPass):
    """Equal operations side by side → one operation on stacked operands.

    What: finds nodes of one level with equal settings (operator, attributes, types and shapes), and computes them as one node
    whose operands have a new first axis, one lane for each of them; weights are stacked ahead of time. Lanes stay stacked
    through all levels that have the same lanes, and are selected by index where the levels differ.
    Why: one kernel launch instead of k, and larger products.
    Refuses when:
    1. a shape or a type is unknown, or settings differ.
    2. it saves no nodes.
    """

    phase = "final"
    exactness = "rounding"
    min_opset = 13
    tags = ("repeated", "extra")

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Layers of one input, whose results are added; and sums of pairs of them, one of which is a result too."""
        weights = "float[2,2] u = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}, float[2,2] w = {0.5, 0.25, 0, 1}"
        products = "a = MatMul(x, u) b = MatMul(x, v) c = MatMul(x, w) d = Tanh(a) e = Tanh(b) f = Tanh(c)"
        stack = "float[3,2,2] s = {1, 2, 3, 4, 5, 6, 7, 8, 0.5, 0.25, 0, 1}"
        return (
            Example(
                f"agraph (float[n,2] x) => (float[n,2] y) <{weights}> {{ {products} y = Sum(d, e, f) }}",
                f"agraph (float[n,2] x) => (float[n,2] y) <{stack}, int64[1] o = {{0}}> "
                "{ a = MatMul(x, s) d = Tanh(a) y = ReduceSum <keepdims = 0> (d, o) }",
            ),
            Example(
                f"agraph (float[n,2] x) => (float[n,2] y, float[n,2] f) <{weights}> {{ {products} "
                "h = Erf(d) i = Erf(e) j = Erf(f) k = Mul(h, i) l = Mul(i, j) m = Mul(j, h) y = Mean(k, l, m) }",
                f"agraph (float[n,2] x) => (float[n,2] y, float[n,2] f) <{stack}, int64[1] o = {{0}}, "
                "int64 two = {2}, int64[3] p = {1, 2, 0}> { a = MatMul(x, s) d = Tanh(a) f = Gather(d, two) h = Erf(d) "
                "i = Gather(h, p) k = Mul(h, i) y = ReduceMean <keepdims = 0> (k, o) }",
            ),
        )

    def run(self, model: Model) -> int:
        """Stack the groups of all graphs; returns the number of stacks."""
        return sum(stack(graph) for graph in list(model.graphs()))

    def findings(self, model: Model) -> list[Finding]:
        """All groups, and why nodes of one operator and level are in several of them."""
        return [finding for graph in model.graphs() for finding in findings(graph)]


def stack(graph: Graph) -> int:
    """Replace groups of nodes by stacks; returns their number."""
    groups = find_groups(graph)
    if not groups:
        return 0
    arrange(groups)
    choice = Choice(graph, groups)
    choice.prune()
    return sum(_write(graph, region) for region in choice.regions())


def _write(graph: Graph, region: Sequence[Group]) -> int:
    removed = {node: None for group in region for node in group.nodes}
    with Edit(graph) as edit:
        writer = StackWriter(graph, edit)
        for group in region:
            writer.write(group)
            # Groups of higher levels may read what is made of these lanes, so all of that comes first.
            readers = {reader: None for name in group.lane for reader in graph.consumers(name)}
            removed.update((reader, None) for reader in readers if reader not in removed and writer.join(reader))
            for name in group.lane:
                if graph.is_output(name) or graph.is_captured(name) or any(n not in removed for n in graph.consumers(name)):
                    writer.alone(name)
        added = [node for node in edit.created if node.op_type != "Identity"]
        if len(added) >= len(removed):  # (2)
            return 0
        edit.commit(list(removed), edit.created)
    return len(region)
