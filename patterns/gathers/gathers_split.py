from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from .._parts import all_positions, position_of


class GathersSplitPattern(PatternOptimization):
    """Gather(x, 0), Gather(x, 1), ..., each with an axis of size 1 put back → Split(x), after a
    Transpose if need be

    What: one node instead of two for each position; when the axis is put back in another place, x
    is transposed once. The same for Gather(x, [0]), Gather(x, [1]), ..., which leave the axis in
    place.
    Why: scans unrolled by an exporter take each time step this way.
    Refuses when:
    1. a position of the axis is missing, or the size of the axis is not a number.
    2. a Gather is not followed by exactly one Unsqueeze, all of the same axis. Without that a
       Squeeze would have to follow each piece of the Split: as many nodes as before.
    """

    anchors = ("Gather",)
    phase = "target"
    priority = 9
    min_opset = 2

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """At the Gather of position 0, look for the others."""
        first = position_of(g, node)
        if first is None or first.place:
            return self.none(node, msg="not index 0 along an axis")
        pieces = all_positions(g, node)
        if pieces is None:  # (1)
            return self.none(node, msg="not every index is taken, or the axis has no static size")
        if not first.drops:
            return MatchResult(
                self,
                pieces,
                partial(self._split, first.axis, first.axis, [n.output[0] for n in pieces]),
            )
        readers = [g.next_node(piece.output[0]) for piece in pieces]
        places = [self._place(g, reader) for reader in readers]
        exclusive = all(g.is_exclusive(piece.output[0]) for piece in pieces)
        if not exclusive or places[0] is None or set(places) != {places[0]}:  # (2)
            return self.none(node, msg="the results are not all unsqueezed along the same axis")
        known = [reader for reader in readers if reader is not None]
        outputs = [reader.output[0] for reader in known]
        return MatchResult(
            self, [*pieces, *known], partial(self._split, first.axis, places[0], outputs)
        )

    def _place(self, g: GraphView, reader: Node | None) -> int | None:
        axes = g.get_argument(reader, "axes") if is_op(reader, "Unsqueeze") else None
        rank = g.info(reader.output[0]).rank if reader is not None else None
        return axes[0] % rank if rank and isinstance(axes, list) and len(axes) == 1 else None

    def _split(
        self, axis: int, place: int, outputs: list[str], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        whole = nodes[0].input[0]
        if place != axis:
            perm = [i for i in range(g.get_rank(whole)) if i != axis]
            perm.insert(place, axis)
            whole = g.op.Transpose(whole, perm=perm)
        return [
            *g.created,
            g.make_node_check_opset(
                "Split", [whole], outputs, axis=place, split=[1] * len(outputs)
            ),
        ]

    _start = "<int64 i = {0}, int64 j = {-1}, int64[1] k = {-1}>"
    examples = Example.pairs(
        f"agraph (float[a,2] x) => (float[a,1] y, float[a,1] z) {_start} {{ "
        "p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) y = Unsqueeze(p, k) "
        "z = Unsqueeze(q, k) }",
        "agraph (float[a,2] x) => (float[a,1] y, float[a,1] z) <int64[2] n = {1, 1}> { "
        "y, z = Split <axis = 1> (x, n) }",
        "agraph (float[a,2] x) => (float[a,1] y, float[a,1] z) <int64[1] i = {0}, "
        "int64[1] j = {1}> { z = Gather <axis = 1> (x, j) y = Gather <axis = -1> (x, i) }",
        "<int64[2] n = {1, 1}> { y, z = Split <axis = 1> (x, n) }",
        f"agraph (float[a,2,b] x) => (float[a,b,1] y, float[a,b,1] z) {_start} {{ "
        "p = Gather <axis = 1> (x, i) q = Gather <axis = 1> (x, j) y = Unsqueeze(p, k) "
        "z = Unsqueeze(q, k) }",
        "agraph (float[a,2,b] x) => (float[a,b,1] y, float[a,b,1] z) <int64[2] n = {1, 1}> "
        "{ t = Transpose <perm = [0, 2, 1]> (x) y, z = Split <axis = 2> (t, n) }",
    )
