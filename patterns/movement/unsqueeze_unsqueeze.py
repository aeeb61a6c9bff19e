from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class UnsqueezeUnsqueezePattern(EasyPatternOptimization):
    """Unsqueeze(Unsqueeze(x, a), b) → Unsqueeze(x, both)

    What: adds all axes at once.
    Why: one node less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown.
    2. an axis is listed twice or out of range: such a model is not valid.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Unsqueeze(g.op.Unsqueeze(x, axes=g.capture("a")), axes=g.capture("b"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """The axes of the first one take the places that the second one leaves free."""
        rank = g.info(m.nodes[0].output[0]).rank
        if rank is None and min(*m.a, *m.b, 0) < 0:  # (1)
            return self.none(m.nodes[1], msg="negative axes of an unknown rank")
        last = len(m.b) + (rank or max(*m.a, *m.b, 0) + 1)
        a = [axis + (rank or 0) if axis < 0 else axis for axis in m.a]
        b = [axis + last if axis < 0 else axis for axis in m.b]
        free = [axis for axis in range(last) if axis not in b]
        axes = {*b, *(free[axis] for axis in a if 0 <= axis < len(free))}
        if len(axes) < len(a) + len(b) or not axes <= set(range(last)):  # (2)
            return self.none(m.nodes[1], msg="the axes are not valid")
        return m.derive(axes=sorted(axes))

    def apply_pattern(self, g: PatternRewriter, x: str, axes: list[int]) -> str:
        return g.op.Unsqueeze(x, axes=axes)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[1,a,b,1] y) <int64[1] i = {0}, int64[1] j = {-1}> "
            "{ t = Unsqueeze(x, i) y = Unsqueeze(t, j) }",
            "<int64[2] i = {0, 3}> { y = Unsqueeze(x, i) }",
        ),
        Example(
            "agraph (float[a,b] x) => (float[1,a,1,b] y) <int64[1] i = {1}, int64[1] j = {0}> "
            "{ t = Unsqueeze(x, i) y = Unsqueeze(t, j) }",
            "<int64[2] i = {0, 2}> { y = Unsqueeze(x, i) }",
        ),
    )
