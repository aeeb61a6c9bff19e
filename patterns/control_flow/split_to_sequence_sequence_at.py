from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import axis_of, is_op, size_along


class SplitToSequenceSequenceAtPattern(PatternOptimization):
    """SequenceAt(SplitToSequence(x), i) for constant i → Split(x)

    What: splits into tensors instead of a sequence. With keepdims=0, a Squeeze follows.
    Why: a sequence copies its tensors, and blocks shape inference and fusion.
    Refuses when:
    1. the sequence has a consumer other than SequenceAt, or an index is not constant or out of
       range.
    2. the size of the axis or of the pieces is not static.
    """

    anchors = ("SplitToSequence",)
    min_opset = 11

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        readers = g.next_nodes(node.output[0])
        axis = axis_of(g, node)
        sizes = None if axis is None else self._sizes(g, node, axis)
        if axis is None or sizes is None:  # (2)
            return self.none(node, msg="the axis or the sizes of the slices are unknown")
        positions = [
            g.get_ints(reader.input[1]) if is_op(reader, "SequenceAt") else None
            for reader in readers
        ]
        indices = [
            position[0] % len(sizes)
            for position in positions
            if position and -len(sizes) <= position[0] < len(sizes)
        ]
        # (1)
        if (
            not readers
            or len(indices) < len(readers)
            or not g.is_used_only_by(node.output[0], *readers)
        ):
            return self.none(
                node, msg="the sequence has consumers other than SequenceAt with a constant index"
            )
        return MatchResult(self, [node, *readers], partial(self._split, axis, sizes, indices))

    def _sizes(self, g: GraphView, node: Node, axis: int) -> list[int] | None:
        size = size_along(g, node.input[0], axis)
        if not isinstance(size, int) or not size:
            return None
        if len(node.input) < 2 or not node.input[1]:
            return [1] * size
        lengths, rank = g.get_ints(node.input[1]), g.info(node.input[1]).rank
        if not lengths or rank is None:
            return None
        if rank:
            return lengths if sum(lengths) == size and min(lengths) >= 0 else None
        step = lengths[0]
        return [min(step, size - start) for start in range(0, size, step)] if step > 0 else None

    def _split(
        self,
        axis: int,
        sizes: list[int],
        places: list[int],
        g: PatternRewriter,
        node: Node,
        *readers: Node,
    ) -> list[Node]:
        squeezes = (len(node.input) < 2 or not node.input[1]) and not node.get_attribute("keepdims")
        pieces = (
            g.op.Split(node.input[0], axis=axis, split=sizes, outputs=len(sizes))
            if len(sizes) > 1
            else None
        )
        nodes = []
        for reader, place in zip(readers, places, strict=True):
            name = node.input[0] if pieces is None else pieces[place]
            op_type, attributes = ("Squeeze", {"axes": [axis]}) if squeezes else ("Identity", {})
            nodes.append(
                g.make_node_check_opset(op_type, [name], reader.output, "", "", **attributes)
            )
        return [*g.created, *nodes]

    examples = Example.pairs(
        "agraph (float[a,6] x) => (float[a,4] y, float[a,2] z) <int64 n = {4}, int64 i = {0}, "
        "int64 j = {1}> { s = SplitToSequence <axis = 1> (x, n) p = SequenceAt(s, i) "
        "q = SequenceAt(s, j) y = Neg(p) z = Relu(q) }",
        "<int64[2] n = {4, 2}> { p, q = Split <axis = 1> (x, n) y = Neg(p) z = Relu(q) }",
        "agraph (float[2,a] x) => (float[a] y, float[a] z) <int64 i = {-1}, int64 j = {0}> "
        "{ s = SplitToSequence <keepdims = 0> (x) y = SequenceAt(s, i) z = SequenceAt(s, j) }",
        "<int64[2] n = {1, 1}, int64[1] k = {0}> { p, q = Split <axis = 0> (x, n) "
        "y = Squeeze(q, k) z = Squeeze(p, k) }",
    )
