from xoptim.facts.shapes import normalized
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import replaced_by


class ConcatConcatPattern(PatternOptimization):
    """Concat(..., Concat(a, b), ...) → Concat(..., a, b, ...)

    What: concatenates all operands at once.
    Why: the parts of the inner one are copied once instead of twice.
    Refuses when:
    1. the inner one joins along another axis, or the two are of different signs while the rank is unknown.
    2. something else reads the inner result, or the outer one reads it twice: it is needed anyway then.
    """

    anchors = ("Concat",)
    near = ("Concat",)
    radius = 2

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        inner = [producer for name in node.input if (producer := g.node_before(name)) is not None]
        inner = [p for p in inner if p.op_type == "Concat" and not p.domain and self._fits(g, p, node)]
        if not inner:
            return self.none(node, msg="no inner one along the same axis that nothing else reads")
        parts = {producer.output[0]: producer.input for producer in inner}
        inputs = [part for name in node.input for part in parts.get(name, (name,))]
        return MatchResult(self, [*inner, node], replaced_by("Concat", *inputs, axis=g.get_attribute(node, "axis")))

    def _fits(self, g: GraphView, inner: Node, outer: Node) -> bool:
        a, b = (g.get_attribute(node, "axis") for node in (inner, outer))
        if not isinstance(a, int) or not isinstance(b, int):
            return False
        rank = g.info(inner.output[0]).rank or g.info(outer.output[0]).rank or 0
        same = a == b or (bool(rank) and normalized(a, rank) == normalized(b, rank) is not None)  # (1)
        return same and g.is_exclusive(inner.output[0])  # (2)

    examples = Example.only(
        "agraph (float[2,b] x, float[2,c] z) => (float[2,d] y) "
        "{ t = Concat <axis = -1> (z, x) y = Concat <axis = 1> (x, t, z) }",
        "{ y = Concat <axis = 1> (x, z, x, z) }",
    )
