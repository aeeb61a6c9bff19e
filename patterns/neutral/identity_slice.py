from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape

_FAR = 2**31 - 1
"""Exporters write this number, or the largest of 64 bits, for "to the end"."""


class IdentitySlicePattern(EasyPatternOptimization):
    """Slice(x) from the first to the last position → x

    What: drops a Slice whose constant bounds take whole axes.
    Why: it copies the whole tensor.
    Refuses when:
    1. a step is not 1: a reversed axis keeps its size too.
    2. an axis may lose elements. Bounds beyond any size take all; others are compared with the sizes, if these are known.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        bounds = {"starts": g.capture("starts"), "ends": g.capture("ends")}
        return g.op.Slice(x, axes=ANY, steps=g.capture("steps", optional=True), **bounds)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if any(step != 1 for step in m.steps or ()):  # (1)
            return self.none(m.nodes[0], msg=lambda: f"the steps are {m.steps}")
        everything = all(s == 0 or s <= -_FAR for s in m.starts) and all(e >= _FAR for e in m.ends)
        return everything or keeps_shape(g, m.nodes[0]) or self.none(m.nodes[0], msg="it may take a part only")  # (2)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) "
            "<int64[1] s = {0}, int64[1] e = {9223372036854775807}, int64[1] axes = {-1}, int64[1] one = {1}> "
            "{ t = Slice(x, s, e, axes, one) y = Relu(t) }",
            "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
        ),
        Example(
            "agraph (float[a,3] x) => (float[a,3] y) <int64[1] s = {-3}, int64[1] e = {3}, int64[1] axes = {1}> "
            "{ t = Slice(x, s, e, axes) y = Relu(t) }",
            "agraph (float[a,3] x) => (float[a,3] y) { y = Relu(x) }",
        ),
    )
