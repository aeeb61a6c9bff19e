from collections.abc import Sequence
from functools import partial

from xoptim.facts.dims import is_nonnegative
from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import agree_elsewhere, axis_of, bounds_of, is_op
from .._selections import span_of


class ConcatSlicePattern(PatternOptimization):
    """Slice(Concat(a, b, c), part of b) → Slice(b, part), or b if the part is all of b

    What: reads only the operands from which the Slice takes elements: one operand, a part of one,
    or a Concat of fewer operands.
    Why: both nodes copy, and the Concat often becomes unused.
    Refuses when:
    1. the bounds are not known, even as symbols, several axes are sliced, or steps are not 1.
    2. the axes differ, or the shapes of the operands are unknown or differ along other axes.
    3. the Slice takes elements from all operands, or operands or indices are unknown.
    4. the Slice takes a part of several operands, and the Concat has other consumers. There would
       be a second Concat.
    """

    anchors = ("Slice",)
    near = ("Concat",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Find the operands from which the Slice takes elements.

        The first is the last operand that begins at or before the start of the Slice. The last is
        the first operand that ends at or after its end.
        """
        concat, span = g.node_before(node.input[0]), span_of(g, node)
        if not is_op(concat, "Concat") or span is None:  # (1)
            return self.none(node, msg="the operand is not a Concat, or the bounds are unknown")
        axis, start, end = span[0], span[1].start, span[1].end
        if axis != axis_of(g, concat) or not agree_elsewhere(g, concat.input, axis):  # (2)
            return self.none(
                node, msg="the axes differ, or the operands' shapes are unknown or do not match"
            )
        bounds = bounds_of(g, concat.input, axis)
        first = max(i for i, bound in enumerate(bounds) if i == 0 or is_nonnegative(start - bound))
        last = next((i for i, bound in enumerate(bounds) if is_nonnegative(bound - end)), 0)
        names = concat.input[first:last]
        inside = (start - bounds[first], end - bounds[first])
        is_whole = bool(names) and inside == (0, bounds[last] - bounds[first])
        numbers = [position for position in inside if isinstance(position, int) and position >= 0]
        # (3)
        if not names or len(names) == len(concat.input) or (len(numbers) < 2 and not is_whole):
            return self.none(
                node, msg="the Slice takes from all operands, or it is unknown from which"
            )
        if len(names) > 1 and not is_whole and not g.is_exclusive(node.input[0]):  # (4)
            return self.none(concat, msg="the Concat has other consumers")
        return MatchResult(
            self, [node], partial(self._part, names, axis, [] if is_whole else numbers)
        )

    def _part(
        self, names: Sequence[str], axis: int, numbers: list[int], g: PatternRewriter, node: Node
    ) -> list[Node]:
        name = names[0] if len(names) == 1 else g.op.Concat(*names, axis=axis)
        if numbers:
            name = g.op.Slice(name, starts=numbers[:1], ends=numbers[1:], axes=[axis])
        return [*g.created, g.make_node("Identity", [name], node.output)]

    examples = Example.pairs(
        "agraph (float[a,2] x, float[a,3] z) "
        "=> (float[a,3] y) <int64[1] s = {2}, int64[1] e = {5}, int64[1] k = {1}> { "
        "c = Concat <axis = -1> (x, z) p = Slice(c, s, e, k) y = Neg(p) }",
        "{ y = Neg(z) }",
        "agraph (float[3,b] x, float[3,c] z, float[b] w) "
        "=> (float[3,b] y) <int64[1] s = {0}, int64[1] k = {1}> { c = Concat <axis = 1> (x, z) "
        "n = Size(w) e = Unsqueeze(n, s) p = Slice(c, s, e, k) y = Neg(p) }",
        "{ y = Neg(x) }",
        "agraph (float[a,2] x, float[a,3] z) "
        "=> (float[a,1] y) <int64[1] s = {3}, int64[1] e = {4}, int64[1] k = {1}> { "
        "c = Concat <axis = 1> (x, z) y = Slice(c, s, e, k) }",
        "<int64[1] s = {1}, int64[1] e = {2}, int64[1] k = {1}> { y = Slice(z, s, e, k) }",
        "agraph (float[a,b] x, float[a,c] z, float[a,4] w) "
        "=> (float[a,d] y) <int64[1] s = {0}, int64[1] e = {-4}, int64[1] k = {1}> { "
        "c = Concat <axis = 1> (x, z, w) y = Slice(c, s, e, k) }",
        "{ y = Concat <axis = 1> (x, z) }",
    )
