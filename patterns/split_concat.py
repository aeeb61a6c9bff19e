"""The pieces of a Split put together again."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from ._axes import agree_elsewhere, axis_of
from ._nodes import is_op


class SplitConcatPattern(PatternOptimization):
    """Concat(..., a, b, c, ...) of (a, b, c) = Split(x) → Concat(..., x, ...), or x

    What: takes the whole instead of its pieces where they stand side by side in order.
    Why: each of the two copies the tensor.
    Refuses when:
    1. a piece is missing or out of order.
    2. the axes differ, or that cannot be told, or the shapes of the other operands are unknown or differ elsewhere.
    """

    anchors = ("Concat",)
    near = ("Split",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Look for the first piece of a Split whose others follow."""
        for position, name in enumerate(node.input):
            split = g.node_before(name)
            if not is_op(split, "Split") or node.input[position : position + len(split.output)] != split.output:  # (1)
                continue
            axis, whole = axis_of(g, node), len(node.input) == len(split.output)
            if axis is not None and axis == axis_of(g, split) and (whole or agree_elsewhere(g, node.input, axis)):  # (2)
                return MatchResult(self, [split, node], self.apply)
        return self.none(node, msg="the pieces of no Split stand side by side")

    def apply(self, g: PatternRewriter, split: Node, node: Node) -> list[Node]:
        """The Split stays if its pieces are read elsewhere."""
        position = node.input.index(split.output[0])
        inputs = [*node.input[:position], split.input[0], *node.input[position + len(split.output) :]]
        unread = all(g.is_used_only_by(name, node) and name not in inputs for name in split.output)
        joined = g.make_node("Concat", inputs, node.output, **node.attribute)
        return [*([] if unread else [split]), joined if len(inputs) > 1 else g.make_node("Identity", inputs, node.output)]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """All pieces, with the axis left at its default, and pieces beside something else."""
        return (
            Example(
                "agraph (float[6,a] x) => (float[6,a] y) <int64[2] n = {2, 4}> "
                "{ p, q = Split(x, n) c = Concat <axis = 0> (p, q) y = Relu(c) }",
                "agraph (float[6,a] x) => (float[6,a] y) { y = Relu(x) }",
            ),
            Example(
                "agraph (float[4,6] x, float[4,b] z) => (float[4,c] y) <int64[2] n = {2, 4}> "
                "{ p, q = Split <axis = 1> (x, n) y = Concat <axis = -1> (z, p, q) }",
                "agraph (float[4,6] x, float[4,b] z) => (float[4,c] y) { y = Concat <axis = -1> (z, x) }",
            ),
        )
