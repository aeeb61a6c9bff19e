from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by


class SequenceConstructAtPattern(PatternOptimization):
    """SequenceAt(SequenceConstruct(a, b, ...), 1) → b

    What: reads the tensor instead of the element of the sequence.
    Why: a sequence copies its tensors. It is removed with its last consumer.
    Refuses when:
    1. the index is not constant, or out of range.
    """

    anchors = ("SequenceAt",)
    near = ("SequenceConstruct",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        # A negative index counts from the end.
        construct = g.node_before(node.input[0])
        place = g.get_ints(node.input[1])
        if not is_op(construct, "SequenceConstruct"):
            return self.none(node, msg="the sequence is not the result of a SequenceConstruct")
        if not place or not -len(construct.input) <= place[0] < len(construct.input):  # (1)
            return self.none(node, msg="the index is unknown or out of range")
        return MatchResult(self, [node], replaced_by("Identity", construct.input[place[0]]))

    _start = "agraph (float[a] x, float[b] z) => (float[b] y)"
    _nodes = "{ s = SequenceConstruct(x, z) p = SequenceAt(s, i) y = Neg(p) }"
    examples = Example.pairs(
        f"{_start} <int64 i = {{1}}> {_nodes}",
        "{ y = Neg(z) }",
        f"{_start} <int64 i = {{-1}}> {_nodes}",
        "{ y = Neg(z) }",
    )
