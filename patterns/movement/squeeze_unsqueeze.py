from xoptim.match import EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape


class SqueezeUnsqueezePattern(EasyPatternOptimization):
    """Unsqueeze(Squeeze(x, axes), axes) → x

    What: drops a pair that cancels.
    Why: two nodes less.
    Refuses when:
    1. the axes differ, or are of different signs while the rank is unknown. (Other axes may give the shape of x back as well;
       that must be proved.)
    """

    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Without axes, Squeeze removes all axes of size 1."""
        return g.op.Unsqueeze(g.op.Squeeze(x, axes=g.capture("removed", optional=True)), axes=g.capture("added"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the axes, then the shapes: neither operator moves an element (1)."""
        rank = g.info(m.x).rank or 0
        removed, added = ({a + rank if a < 0 else a for a in axes or ()} for axes in (m.removed, m.added))
        if m.removed and removed == added and len(m.removed) == len(m.added):
            return True
        return keeps_shape(g, m.nodes[1], m.x) or self.none(m.nodes[1], msg="other axes")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[a,1,b] x) => (float[a,1,b] y) <int64[1] first = {1}, int64[1] second = {-2}> "
        "{ t = Squeeze(x, first) u = Unsqueeze(t, second) y = Relu(u) }",
        "{ y = Relu(x) }",
    )
