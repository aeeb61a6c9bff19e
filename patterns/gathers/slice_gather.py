import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import axis_of, replaced_by
from .._selections import slice_of


class SliceGatherPattern(PatternOptimization):
    """Gather(Slice(x, a:b), i) → Gather(x, a + i)

    What: shifts constant indices by the start of the Slice.
    Why: saves the copy that the Slice makes.
    Refuses when:
    1. the bounds or the indices are not constant, the axes differ, or several axes are sliced.
    2. an index is out of range.
    3. the Slice has other consumers: nothing would be saved.
    """

    anchors = ("Gather",)
    near = ("Slice",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        part = slice_of(g, g.node_before(node.input[0]))
        indices = g.get_computed_constant(node.input[1])
        if part is None or indices is None or part.axis != axis_of(g, node):  # (1)
            return self.none(
                node, msg="the indices are not constant, or not along a Slice with constant bounds"
            )
        length = part.end - part.start
        if ((indices < -length) | (indices >= length)).any():  # (2)
            return self.none(node, msg="an index is out of range")
        if not g.is_exclusive(node.input[0]):  # (3)
            return self.none(part.node, msg="the Slice is read elsewhere")
        new_indices = np.asarray(indices % length + part.start, dtype=indices.dtype)
        return MatchResult(
            self,
            [part.node, node],
            replaced_by("Gather", part.source, new_indices, **node.attribute),
        )

    examples = Example.only(
        "agraph (float[a,5] x) => (float[a] y) <int64[1] s = {1}, int64[1] e = {4}, "
        "int64[1] k = {1}, int64 i = {-1}> { t = Slice(x, s, e, k) y = Gather <axis = 1> (t, i) }",
        "<int64 i = {3}> { y = Gather <axis = 1> (x, i) }",
    )
