"""A condition that always holds, beside another one of a smaller shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._shapes import same_dims, uniform_value


class UniformLogicPattern(PatternOptimization):
    """And(true, x) → Expand(x), Or(false, x) → Expand(x), for a tensor of one value that gives the result its shape

    What: writes the operator as the repetition that it is; a comparison of positions (Range) with a number below all of
    them holds everywhere.
    Why: other patterns carry Expand down to the sum of mask and scores, so that the masks of encoders that torch exports hold
    one row instead of a matrix. The sum takes longer with a row: measured 1.03 times the time of a RoBERTa of 128 tokens, so it
    is in no preset (`--patterns default+UniformLogic`).
    Refuses when:
    1. no operand is known to hold the neutral value everywhere, or it is a constant.
    2. the other operand has the shape of the result (UniformBroadcast takes this), or a shape is unknown.
    """

    anchors = ("And", "Or")
    near = (
        "GreaterOrEqual",
        "Greater",
        "Less",
        "LessOrEqual",
        "ConstantOfShape",
        "Expand",
        "Not",
        "Cast",
        "Unsqueeze",
        "Reshape",
    )
    min_opset = 8
    tags = ("extra",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Either operand."""
        result = g.try_infer_shape(node.output[0])
        for name, other in (node.input, node.input[::-1]):
            value = None if g.is_constant(name) else uniform_value(g, name)
            if value is not None and bool(value) == (node.op_type == "And"):  # (1)
                shape = g.try_infer_shape(other)
                if result is None or shape is None or same_dims(shape, result):  # (2)
                    return self.none(node, msg="the shape of the result is that of the other operand, or unknown")
                return MatchResult(self, [node], partial(self._repeat, name, other))
        return self.none(node, msg="no operand is known to be neutral everywhere")

    def _repeat(self, name: str, other: str, g: PatternRewriter, node: Node) -> list[Node]:
        shape = g.make_node("Shape", [name])
        return [shape, g.make_node("Expand", [other, shape.output[0]], node.output)]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Rows that are at least 0; a condition that is false everywhere."""
        return (
            Example(
                "agraph (bool[1,b] m, float[a] x) => (bool[a,b] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> "
                "{ n = Size(x) r = Range(o, n, e) u = Unsqueeze(r, k) t = GreaterOrEqual(u, o) y = And(t, m) }",
                "agraph (bool[1,b] m, float[a] x) => (bool[a,b] y) <int64 o = {0}, int64 e = {1}, int64[1] k = {1}> "
                "{ n = Size(x) r = Range(o, n, e) u = Unsqueeze(r, k) t = GreaterOrEqual(u, o) s = Shape(t) y = Expand(m, s) }",
            ),
            Example(
                "agraph (bool[b] m, float[a,1] x) => (bool[a,b] y) { t = Shape(x) "
                "c = ConstantOfShape <value = bool[1] {0}> (t) y = Or(m, c) }",
                "agraph (bool[b] m, float[a,1] x) => (bool[a,b] y) { t = Shape(x) "
                "c = ConstantOfShape <value = bool[1] {0}> (t) s = Shape(c) y = Expand(m, s) }",
            ),
        )
