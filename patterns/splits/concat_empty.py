from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._axes import agree_elsewhere, axis_of, size_along
from .._nodes import replaced_by


class ConcatEmptyPattern(PatternOptimization):
    """Concat(a, empty, b) → Concat(a, b), or a when nothing else is left

    What: leaves out operands of size 0 along the axis of the Concat.
    Why: the nodes that make them are not needed then; a Concat of one operand is a copy.
    Refuses when:
    1. no operand is known to have size 0 along the axis.
    2. all have: one must stay to give the result its shape.
    3. the shapes of the operands are unknown, or differ along other axes.
    """

    anchors = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        axis = axis_of(g, node)
        if axis is None or not agree_elsewhere(g, node.input, axis):  # (3)
            return self.none(node, msg="the shapes are unknown or differ")
        kept = [name for name in node.input if size_along(g, name, axis) != 0]
        if not 0 < len(kept) < len(node.input):  # (1) (2)
            return self.none(node, msg="no operand is known to be empty, or all are")
        op_type, attributes = ("Concat", node.attribute) if len(kept) > 1 else ("Identity", {})
        return MatchResult(self, [node], replaced_by(op_type, *kept, **attributes))

    examples = Example.only(
        "agraph (float[a,0,4] x, float[a,b,4] z) => (float[a,b,4] y) { c = Concat <axis = -2> (x, z) y = Neg(c) }",
        "{ y = Neg(z) }",
    )
