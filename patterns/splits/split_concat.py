from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._axes import agree_elsewhere, axis_of
from .._nodes import is_op


class SplitConcatPattern(PatternOptimization):
    """Concat(..., a, b, c, ...) of (a, b, c) = Split(x) → Concat(..., x, ...), or x

    What: takes the whole instead of its pieces where they are side by side in order.
    Why: each of the two copies the tensor.
    Refuses when:
    1. a piece is missing or out of order.
    2. the axes differ or cannot be compared, or the shapes of the other operands are unknown or differ elsewhere.
    """

    anchors = ("Concat",)
    near = ("Split",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        axis = axis_of(g, node)
        inputs: list[str] = []
        splits: list[Node] = []
        place = 0
        while axis is not None and place < len(node.input):
            split = self._split_at(g, node.input, place, axis)
            inputs.append(node.input[place] if split is None else split.input[0])
            place += 1 if split is None else len(split.output)
            splits += [] if split is None else [split]
        if not splits:
            return self.none(node, msg="no operands side by side are the pieces of a Split")
        if len(inputs) > 1 and not agree_elsewhere(g, node.input, axis or 0):  # (2)
            return self.none(node, msg="the operands have unknown or other shapes")
        return MatchResult(self, [*dict.fromkeys(splits), node], partial(self._joined, inputs))

    def _split_at(self, g: GraphView, names: Sequence[str], place: int, axis: int) -> Node | None:
        """The Split along an axis whose pieces begin at one place."""
        split = g.node_before(names[place])
        if not is_op(split, "Split") or split.output[0] != names[place]:
            return None
        fits = tuple(names[place : place + len(split.output)]) == tuple(split.output)  # (1)
        return split if fits and axis_of(g, split) == axis else None  # (2)

    def _joined(self, inputs: list[str], g: PatternRewriter, *nodes: Node) -> list[Node]:
        """A Split stays where another piece of it is read."""
        *splits, node = nodes
        left = set(inputs)
        kept = [s for s in splits if not all(g.is_used_only_by(name, node) and name not in left for name in s.output)]
        joined = g.make_node("Concat", inputs, node.output, **node.attribute)
        return [*kept, joined if len(inputs) > 1 else g.make_node("Identity", inputs, node.output)]

    examples = (
        Example(
            "agraph (float[6,a] x) => (float[6,a] y) <int64[2] n = {2, 4}> "
            "{ p, q = Split(x, n) c = Concat <axis = 0> (p, q) y = Relu(c) }",
            "{ y = Relu(x) }",
        ),
        Example(
            "agraph (float[4,6] x, float[4,b] z) => (float[4,c] y) <int64[2] n = {2, 4}> "
            "{ p, q = Split <axis = 1> (x, n) y = Concat <axis = -1> (z, p, q) }",
            "{ y = Concat <axis = -1> (z, x) }",
        ),
    )
