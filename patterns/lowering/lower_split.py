from xoptim.match import ANY, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.operators.axes import axis_of

from .._nodes import size_along
from ._lowering import _Lowering


class LowerSplitPattern(_Lowering):
    """Split(x) → Slice(x), Slice(x), ...

    What: reads each part by a Slice.
    Why: some providers run Split for equal parts only, or lack the operator.
    Refuses when:
    1. the sizes of the parts, or the axis, are not known.
    """

    exactness = "exact"
    min_opset = 10
    derives = ("place", "sizes")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Split(x, attributes=ANY, outputs=g.variadic("parts", least=2))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        axis = axis_of(g, node)
        sizes = [size_along(g, name, axis) for name in node.output]
        static = [size for size in sizes if isinstance(size, int)]
        if axis is None or len(static) < len(sizes):  # (1)
            return self.none(node, msg="the axis or the sizes of the outputs are unknown")
        return m.derive(place=axis, sizes=static)

    def apply_pattern(
        self, g: PatternRewriter, x: str, place: int, sizes: list[int]
    ) -> tuple[list[str]]:
        ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
        starts = [end - size for end, size in zip(ends, sizes, strict=True)]
        bounds = zip(starts, ends, strict=True)
        return ([g.op.Slice(x, starts=[a], ends=[b], axes=[place]) for a, b in bounds],)

    examples = Example.pairs(
        "agraph (float[n,5] x) => (float[n,2] y, float[n,3] z) <int64[2] s = {2, 3}> { "
        "y, z = Split <axis = 1> (x, s) }",
        "<int64[1] o = {0}, int64[1] a = {2}, int64[1] b = {5}, int64[1] k = {1}> "
        "{ y = Slice(x, o, a, k) z = Slice(x, a, b, k) }",
        "agraph (float[n,4] x) => (float[n,2] y, float[n,2] z) { y, z = Split <axis = -1> (x) }",
        "<int64[1] o = {0}, int64[1] a = {2}, int64[1] b = {4}, int64[1] k = {1}> "
        "{ y = Slice(x, o, a, k) z = Slice(x, a, b, k) }",
        opset=13,
    )
