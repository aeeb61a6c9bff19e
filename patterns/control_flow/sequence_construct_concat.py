from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._axes import agree_elsewhere
from .._nodes import is_op, replaced_by


class SequenceConstructConcatPattern(PatternOptimization):
    """ConcatFromSequence(SequenceConstruct(a, b)) → Concat(a, b)

    What: concatenates the tensors themselves.
    Why: the sequence copies each of them; and nothing can be fused through it.
    Refuses when:
    1. the tensors are stacked along a new axis: an Unsqueeze for each would be more nodes.
    2. the shapes of the tensors are unknown, or differ along other axes.
    """

    anchors = ("ConcatFromSequence",)
    near = ("SequenceConstruct",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # The sequence is removed when nothing else reads it.
        construct = g.node_before(node.input[0])
        if not is_op(construct, "SequenceConstruct") or node.get_attribute("new_axis"):  # (1)
            return self.none(node, msg="the sequence is not constructed here, or stacked")
        axis, rank = node.attribute["axis"], g.info(construct.input[0]).rank
        if not rank or not agree_elsewhere(g, construct.input, axis % rank):  # (2)
            return self.none(construct, msg="the shapes are unknown or differ")
        return MatchResult(self, [node], replaced_by("Concat", *construct.input, axis=axis))

    examples = Example.only(
        "agraph (float[a,2] x, float[a,3] z) => (float[a,5] y) "
        "{ s = SequenceConstruct(x, z) y = ConcatFromSequence <axis = 1> (s) }",
        "{ y = Concat <axis = 1> (x, z) }",
    )
