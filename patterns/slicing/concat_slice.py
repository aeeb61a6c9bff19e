"""A Slice that takes one operand out of a Concat."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._axes import agree_elsewhere, axis_of, size_along
from .._nodes import is_op, read_instead
from .._slices import span_of


class ConcatSlicePattern(PatternOptimization):
    """Slice(Concat(a, b, c), where b stands) → b

    What: replaces the result of the Slice by the operand itself.
    Why: each of the two copies; the Concat is often removed too.
    Refuses when:
    1. the bounds are not known, even as symbols, several axes are sliced, or steps are not 1.
    2. the axes differ, or the shapes of the operands are unknown or differ elsewhere.
    3. no operand begins and ends where the Slice does.
    """

    anchors = ("Slice",)
    near = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Add up the sizes of the operands until the bounds are met."""
        concat, span = g.node_before(node.input[0]), span_of(g, node)
        if not is_op(concat, "Concat") or span is None:  # (1)
            return self.none(node, msg="not a Slice of a Concat, or the bounds are unknown")
        axis, start, end = span
        sizes = [size_along(g, name, axis) for name in concat.input]
        if axis != axis_of(g, concat) or not agree_elsewhere(g, concat.input, axis):  # (2)
            return self.none(node, msg="the axes differ, or the operands have unknown or other shapes")
        offset: Dim = 0
        for name, size in zip(concat.input, sizes, strict=True):
            following = offset + size if size is not None else offset
            if offset == start and following == end:
                return MatchResult(self, [node], read_instead(name))
            offset = following
        return self.none(node, msg="the bounds are not those of an operand")  # (3)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """The last operand, by numbers, and the first one, by its own size."""
        return (
            Example(
                "agraph (float[a,2] x, float[a,3] z) => (float[a,3] y) <int64[1] s = {2}, int64[1] e = {5}, int64[1] k = {1}> "
                "{ c = Concat <axis = -1> (x, z) p = Slice(c, s, e, k) y = Neg(p) }",
                "agraph (float[a,2] x, float[a,3] z) => (float[a,3] y) { y = Neg(z) }",
            ),
            Example(
                "agraph (float[3,b] x, float[3,c] z, float[b] w) => (float[3,b] y) <int64[1] s = {0}, int64[1] k = {1}> "
                "{ c = Concat <axis = 1> (x, z) n = Size(w) e = Unsqueeze(n, s) p = Slice(c, s, e, k) y = Neg(p) }",
                "agraph (float[3,b] x, float[3,c] z, float[b] w) => (float[3,b] y) { y = Neg(x) }",
            ),
        )
