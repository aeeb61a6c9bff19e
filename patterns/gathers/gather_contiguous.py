from math import prod

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._selections import selected

_MAX_BLOCK = 16
"""With this many elements per index, or more, Gather copies blocks as fast as Slice."""


class GatherContiguousPattern(EasyPatternOptimization):
    """Gather(x, [i, i + 1, ..., j - 1]) → Slice(x, i:j)

    What: slices the range of indices, if there are few elements per index.
    Why: measured 0.05 of the time on onnxruntime's CPU provider, along the last axis. Other
    patterns merge Slices.
    Refuses when:
    1. the indices are not a constant vector of at least two consecutive integers.
    2. the axis is dynamic, or an index is out of range.
    3. there are 16 elements or more per index, or an unknown number.
    """

    min_opset = 10
    derives = ("start", "end", "axes")

    def match_pattern(self, g: PatternBuilder, x: Symbol, indices: Constant) -> Symbol:
        return g.op.Gather(x, indices, axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        part, shape = selected(g, node), g.try_infer_shape(m.x) or ()
        if part is None:  # (1) (2)
            return self.none(node, msg="the indices are not a vector, or not known to be in range")
        if not part.selection.is_contiguous or len(part.selection.indices) < 2:  # (1)
            return self.none(node, msg="the indices are not several consecutive integers")
        dims = shape[part.axis + 1 :]
        sizes = [dim for dim in dims if isinstance(dim, int)]
        if len(sizes) < len(dims) or prod(sizes) >= _MAX_BLOCK:  # (3)
            return self.none(
                node,
                msg="each index reads 16 elements or more, for which Gather is as fast, or an "
                "unknown number",
            )
        return m.derive(start=[part.start], end=[part.end], axes=[part.axis])

    def apply_pattern(
        self, g: PatternRewriter, x: str, start: list[int], end: list[int], axes: list[int]
    ) -> str:
        return g.op.Slice(x, starts=start, ends=end, axes=axes)

    examples = Example.only(
        "agraph (float[a,5] x) => (float[a,3] y) <int64[3] i = {-3, -2, -1}> { "
        "y = Gather <axis = 1> (x, i) }",
        "<int64[1] s = {2}, int64[1] e = {5}, int64[1] k = {1}> { y = Slice(x, s, e, k) }",
    )
