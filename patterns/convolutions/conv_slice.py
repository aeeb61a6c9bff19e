from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization

from .._nodes import is_op, replaced_by, size_along
from .._selections import span_of
from .._shapes import may_be_empty


class ConvSlicePattern(PatternOptimization):
    """Slice(Conv(x, w, b, pads), part) → Conv(x, w, b, fewer pads)

    What: reduces the padding, so that the convolution does not compute the results that the Slice
    drops. Exported causal convolutions pad both ends and drop the last results.
    Why: saves a copy of the result. With 1024 channels and a kernel of 4, the new Conv takes 0.85
    of the time of both nodes at 128 positions, and 0.68 at 512.
    Refuses when:
    1. the Slice is not the only consumer of a convolution, is not along one spatial axis, or has
       unknown bounds.
    2. the convolution has a stride along the axis, or auto_pad is set.
    3. the Slice drops more than the results of padding, or its result may be empty.
    """

    anchors = ("Slice",)
    near = ("Conv",)
    phase = "specialize"
    exactness = "rounding"

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        conv, span = g.node_before(node.input[0]), span_of(g, node)
        # (1)
        if (
            not is_op(conv, "Conv")
            or span is None
            or span[0] < 2
            or not g.is_exclusive(node.input[0])
        ):
            return self.none(
                node, msg="not a convolution without other consumers, or the bounds are unknown"
            )
        axis, start, end = span[0], span[1].start, span[1].end
        size, rank = size_along(g, node.input[0], axis), g.get_rank(node.input[0])
        spatial_rank = rank - 2
        pads = [*conv.attribute.get("pads", [0] * (2 * spatial_rank))]
        stride = conv.attribute.get("strides", [1] * spatial_rank)[axis - 2]
        has_auto_pad = conv.attribute.get("auto_pad", "NOTSET") != "NOTSET"
        if size is None or stride != 1 or has_auto_pad:  # (2)
            return self.none(
                conv, msg="the convolution has a stride along the axis, or auto_pad is set"
            )
        if isinstance(size, int) and isinstance(end, int):
            end = min(end, size)
        tail = size - end  # results that the Slice drops at the end
        # (3)
        if not isinstance(start, int) or not isinstance(tail, int):
            return self.none(node, msg="the sliced range is unknown")
        if reason := may_be_empty(g, (end - start,)):  # (3)
            return self.none(node, msg=reason)
        begin_index, end_index = axis - 2, spatial_rank + axis - 2  # in ``pads``
        if not 0 <= start <= pads[begin_index] or not 0 <= tail <= pads[end_index]:  # (3)
            return self.none(node, msg="the Slice removes more than the padding")
        pads[begin_index] -= start
        pads[end_index] -= tail
        return MatchResult(
            self, [conv, node], replaced_by("Conv", *conv.input, **{**conv.attribute, "pads": pads})
        )

    examples = Example.pairs(
        "agraph (float[n,2,6] x, float[2,1,4] w) "
        "=> (float[n,2,6] y) <int64[1] o = {0}, int64[1] e = {-3}, int64[1] k = {2}> { "
        "t = Conv <group = 2, pads = [3, 3]> (x, w) y = Slice(t, o, e, k) }",
        "{ y = Conv <group = 2, pads = [3, 0]> (x, w) }",
        "agraph (float[n,1,4,4] x, float[1,1,3,3] w) "
        "=> (float[n,1,3,4] y) <int64[1] o = {1}, int64[1] e = {9}, int64[1] k = {2}> { "
        "t = Conv <pads = [1, 1, 1, 1]> (x, w) y = Slice(t, o, e, k) }",
        "{ y = Conv <pads = [0, 1, 1, 1]> (x, w) }",
        "agraph (float[n,t] x, float[2,1,4] w) => (float[n,2,t] y) "
        "<int64[1] o = {0}, int64[1] k = {2}, int64[1] one = {1}, int64[3] r = {1, 2, 1}> { "
        "e = Shape <start = 1> (x) u = Unsqueeze(x, one) z = Tile(u, r) "
        "t = Conv <group = 2, pads = [3, 3]> (z, w) y = Slice(t, o, e, k) }",
        "<int64[1] one = {1}, int64[3] r = {1, 2, 1}> { u = Unsqueeze(x, one) z = Tile(u, r) "
        "y = Conv <group = 2, pads = [3, 0]> (z, w) }",
    )
