from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class SqueezeSqueezePattern(EasyPatternOptimization):
    """Squeeze(Squeeze(x, a), b) → Squeeze(x, both)

    What: removes all axes at once.
    Why: one node less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown, or the first one removes all axes of size 1.
    2. an axis is listed twice or out of range: such a model is not valid.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """The second one may do without axes; it then removes all of size 1, and so may the two together."""
        return g.op.Squeeze(g.op.Squeeze(x, axes=g.capture("a")), axes=g.capture("b", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """The second one numbers the axes that the first one leaves."""
        if not m.b or not m.a:
            return m.derive(axes=None) if not m.b else self.none(m.nodes[0], msg="no axes")  # (1)
        rank = g.info(m.x).rank
        if rank is None and min(*m.a, *m.b, 0) < 0:  # (1)
            return self.none(m.nodes[1], msg="negative axes of an unknown rank")
        first = rank or len(m.a) + max(*m.a, *m.b, 0) + 1
        a = [axis + first if axis < 0 else axis for axis in m.a]
        left = [axis for axis in range(first) if axis not in a]
        b = [axis + len(left) if axis < 0 else axis for axis in m.b]
        axes = {*a, *(left[axis] for axis in b if 0 <= axis < len(left))}
        if len(axes) < len(a) + len(b) or not axes <= set(range(first)):  # (2)
            return self.none(m.nodes[1], msg="the axes are not valid")
        return m.derive(axes=sorted(axes))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int] | None) -> str:
        return g.op.Squeeze(x, axes=axes)

    examples = (
        Example(
            "agraph (float[1,1,a,b] x) => (float[a,b] y) <int64[1] i = {0}, int64[1] j = {0}> "
            "{ t = Squeeze(x, i) y = Squeeze(t, j) }",
            "<int64[2] i = {0, 1}> { y = Squeeze(x, i) }",
        ),
        Example(
            "agraph (float[a,1,b,1] x) => (float[a,b] y) <int64[1] i = {1}, int64[1] j = {-1}> "
            "{ t = Squeeze(x, i) y = Squeeze(t, j) }",
            "<int64[2] i = {1, 3}> { y = Squeeze(x, i) }",
        ),
    )
