from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol


class UnsqueezeSqueezePattern(EasyPatternOptimization):
    """Squeeze(Unsqueeze(x, a), b) → x, Unsqueeze(x, a without b) or Squeeze(x, b without a)

    What: neither adds an axis nor removes it again.
    Why: one or two nodes less.
    Refuses when:
    1. an axis is counted from the end and the rank is unknown (unless both lists are the same).
    2. each of the two does something that the other one does not undo.
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, Squeeze removes all axes of size 1, and so all that were added."""
        return g.op.Squeeze(g.op.Unsqueeze(x, axes=g.capture("a")), axes=g.capture("b", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Both lists number axes of the shape in between; the axes that stay are numbered anew."""
        if m.b is None or not m.b:
            return m.derive(added=[], removed=None)
        rank = g.info(m.nodes[0].output[0]).rank
        if rank is None and min(*m.a, *m.b, 0) < 0 and m.a != m.b:  # (1)
            return self.none(m.nodes[1], msg="negative axes of an unknown rank")
        a, b = ({axis + (rank or 0) if axis < 0 else axis for axis in axes} for axes in (m.a, m.b))
        if not (a <= b or b <= a):  # (2)
            return self.none(m.nodes[1], msg="other axes")
        return m.derive(
            added=[axis - sum(other < axis for other in b) for axis in sorted(a - b)],
            removed=[axis - sum(other < axis for other in a) for axis in sorted(b - a)],
        )

    def apply_pattern(self, g: PatternRewriter, x: str, added: list[int], removed: list[int] | None) -> str:
        if added:
            return g.op.Unsqueeze(x, axes=added)
        return x if removed == [] else g.op.Squeeze(x, axes=removed)

    examples = (
        Example(
            "agraph (float[a,b] x) => (float[a,b] y) <int64[1] i = {1}, int64[1] j = {-2}> "
            "{ t = Unsqueeze(x, i) u = Squeeze(t, j) y = Relu(u) }",
            "{ y = Relu(x) }",
        ),
        Example(
            "agraph (float[a,b] x) => (float[a,1,b] y) <int64[2] i = {0, 2}, int64[1] j = {0}> "
            "{ t = Unsqueeze(x, i) y = Squeeze(t, j) }",
            "<int64[1] i = {1}> { y = Unsqueeze(x, i) }",
        ),
        Example(
            "agraph (float[a,1] x) => (float[a] y) <int64[1] i = {0}, int64[2] j = {0, 2}> "
            "{ t = Unsqueeze(x, i) y = Squeeze(t, j) }",
            "<int64[1] j = {1}> { y = Squeeze(x, j) }",
        ),
    )
