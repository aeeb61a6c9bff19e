from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from .._selections import gathers_of_all, index_of


class GathersSplitPattern(PatternOptimization):
    """Unsqueeze(Gather(x, 0)), Unsqueeze(Gather(x, 1)), ... → Split(x), after a Transpose if needed

    What: splits x along the axis of the Gathers. If the Unsqueezes add another axis, x is
    transposed once. The same for Gather(x, [0]), Gather(x, [1]), ..., which keep the axis.
    Why: one Split instead of two nodes for each index. Scans that an exporter unrolled read each
    step this way.
    Refuses when:
    1. an index of the axis is missing, or the axis is dynamic.
    2. an Unsqueeze is not the only consumer of a Gather, or the Unsqueezes add different axes.
       Without Unsqueezes, each output of the Split would need a Squeeze: no node would be saved.
    """

    anchors = ("Gather",)
    phase = "target"
    priority = 9
    min_opset = 2

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Start at the Gather of index 0, and look for the Gathers of all other indices."""
        selection = index_of(g, node)
        if selection is None or selection.start:
            return self.none(node, msg="not index 0 along an axis")
        pieces = gathers_of_all(g, node)
        if pieces is None:  # (1)
            return self.none(node, msg="an index has no Gather, or the axis has no static size")
        axis = selection.axis
        if not selection.drops:
            outputs = [piece.output[0] for piece in pieces]
            return MatchResult(self, pieces, partial(self._split, axis, axis, outputs))
        consumers = [g.next_node(piece.output[0]) for piece in pieces]
        axes = [self._new_axis(g, consumer) for consumer in consumers]
        are_exclusive = all(g.is_exclusive(piece.output[0]) for piece in pieces)
        if not are_exclusive or axes[0] is None or set(axes) != {axes[0]}:  # (2)
            return self.none(node, msg="the results are not all unsqueezed along the same axis")
        unsqueezes = [consumer for consumer in consumers if consumer is not None]
        outputs = [consumer.output[0] for consumer in unsqueezes]
        return MatchResult(
            self, [*pieces, *unsqueezes], partial(self._split, axis, axes[0], outputs)
        )

    def _new_axis(self, g: GraphView, consumer: Node | None) -> int | None:
        """The axis that an Unsqueeze adds; ``None`` for other nodes, or if it adds several."""
        axes = g.get_argument(consumer, "axes") if is_op(consumer, "Unsqueeze") else None
        rank = g.info(consumer.output[0]).rank if consumer is not None else None
        return axes[0] % rank if rank and isinstance(axes, list) and len(axes) == 1 else None

    def _split(
        self, axis: int, new_axis: int, outputs: list[str], g: PatternRewriter, *nodes: Node
    ) -> list[Node]:
        source = nodes[0].input[0]
        if new_axis != axis:
            perm = [i for i in range(g.get_rank(source)) if i != axis]
            perm.insert(new_axis, axis)
            source = g.op.Transpose(source, perm=perm)
        return [
            *g.created,
            g.make_node_check_opset(
                "Split", [source], outputs, axis=new_axis, split=[1] * len(outputs)
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
