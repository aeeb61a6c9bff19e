from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._axes import agree_elsewhere, axis_of, size_along
from .._nodes import is_op


class ConcatSplitPattern(PatternOptimization):
    """Split(Concat(a, b), sizes of a and b) → a, b

    What: replaces the pieces by the operands of the Concat.
    Why: each of the two copies the tensor.
    Refuses when:
    1. the axes differ, or the shapes of the operands are unknown or differ elsewhere.
    2. there are more or fewer pieces than operands, or a piece is not known to be as long as its operand.
    """

    anchors = ("Split",)
    near = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        concat = g.node_before(node.input[0])
        if not is_op(concat, "Concat"):
            return self.none(node, msg="it does not split a Concat")
        axis = axis_of(g, node)
        if axis is None or axis != axis_of(g, concat) or not agree_elsewhere(g, concat.input, axis):  # (1)
            return self.none(node, msg="the axes differ, or the operands have unknown or other shapes")
        pairs = list(zip(concat.input, node.output, strict=False))
        lengths = [(size_along(g, a, axis), size_along(g, b, axis)) for a, b in pairs]
        if len(concat.input) != len(node.output) or any(a is None or a != b for a, b in lengths):  # (2)
            return self.none(node, msg="the pieces are not the operands")
        return MatchResult(self, [node], partial(self._read, pairs))

    def _read(self, pairs: Sequence[tuple[str, str]], g: PatternRewriter, node: Node) -> list[Node]:
        """Redirect the readers of the pieces to the operands."""
        return [g.make_node("Identity", [a], [b]) for a, b in pairs if b]

    examples = Example.only(
        "agraph (float[a,2] x, float[a,3] z) => (float[a,2] y, float[a,3] w) <int64[2] n = {2, 3}> "
        "{ c = Concat <axis = -1> (x, z) p, q = Split <axis = 1> (c, n) y = Neg(p) w = Relu(q) }",
        "{ y = Neg(x) w = Relu(z) }",
    )
