from itertools import islice

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import replaced_by
from .._selections import Selected, slice_of

_MAX_CUTS = 8
"""Maximum number of Slices that begin at the start of an axis for which the pattern is tried."""


class SlicesSplitPattern(PatternOptimization):
    """Slice(x, 0:a), Slice(x, a:b), Slice(x, b:) → Split(x)

    What: one node for all slices.
    Why: fewer nodes to dispatch. Rotary embeddings of traced models halve every head this way. The
    pattern runs last, because patterns that match rotary embeddings look for the Slices.
    Refuses when:
    1. a Slice has bounds that are not constant, more than one axis, or steps other than 1, or the
       axis is dynamic.
    2. the slices leave a gap or overlap, or a slice is empty.
    3. eight other Slices that begin at the start of the axis precede this Slice.
    """

    anchors = ("Slice",)
    phase = "target"
    priority = 9
    min_opset = 2

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Start at the Slice from 0, and follow the bounds to the end."""
        first = slice_of(g, node)
        if first is None or first.start != 0:  # (1)
            return self.none(
                node, msg="not a Slice of one axis from its start, with constant bounds"
            )
        if not self._is_tried(g, first):  # (3)
            return self.none(node, msg="too many other Slices begin at the start")
        pieces = {
            cut.start: cut
            for consumer in g.next_nodes(node.input[0])
            if (cut := slice_of(g, consumer)) and cut.axis == first.axis
        }
        chain = [first]
        while chain[-1].end < first.size and chain[-1].end in pieces:
            chain.append(pieces[chain[-1].end])
        if chain[-1].end != first.size or len(chain) < 2:  # (2)
            return self.none(node, msg="the Slices leave a gap, overlap, or do not cover the axis")
        outputs = [cut.node.output[0] for cut in chain]
        sizes = [len(cut.selection.indices) for cut in chain]
        split = replaced_by("Split", node.input[0], outputs=outputs, axis=first.axis, split=sizes)
        return MatchResult(self, [cut.node for cut in chain], split)

    @staticmethod
    def _is_tried(g: GraphView, first: Selected) -> bool:
        """Whether ``first`` is among the first Slices that begin at the start of the axis."""
        # Each of them visits all Slices. Without a limit, n Slices would take O(n²) time.
        cuts = (
            cut for node in g.next_nodes(first.source) if (cut := slice_of(g, node)) is not None
        )
        return first in islice(
            (cut for cut in cuts if cut.axis == first.axis and cut.start == 0), _MAX_CUTS
        )

    examples = Example.only(
        "agraph (float[a,8] x) => (float[a,3] y, float[a,5] z) <int64[1] zero = {0}, "
        "int64[1] three = {3}, int64[1] last = {9223372036854775807}, int64[1] axis = {1}> { "
        "y = Slice(x, zero, three, axis) z = Slice(x, three, last, axis) }",
        "<int64[2] sizes = {3, 5}> { y, z = Split <axis = 1> (x, sizes) }",
    )
