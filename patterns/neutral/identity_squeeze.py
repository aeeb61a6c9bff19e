"""A Squeeze or Unsqueeze that changes no axis."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape


class IdentitySqueezePattern(EasyPatternOptimization):
    """Squeeze(x) or Unsqueeze(x) of no axis → x

    What: drops a Squeeze that finds nothing to remove, and an Unsqueeze that adds nothing.
    Why: one node less.
    Refuses when:
    1. the shape is unknown, or an axis may have size 1: a Squeeze without axes removes all of these.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Whatever the axes."""
        return g.op.Squeeze(x, attributes=ANY) if g.option("squeeze") else g.op.Unsqueeze(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the shapes (1)."""
        return keeps_shape(g, m.nodes[0]) or self.none(m.nodes[0], msg="the rank changes or may change")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """No axis of size 1, and no axis to add."""
        return (
            Example(
                "agraph (float[2,3] x) => (float[2,3] y) { t = Squeeze(x) y = Relu(t) }",
                "agraph (float[2,3] x) => (float[2,3] y) { y = Relu(x) }",
            ),
            Example(
                "agraph (float[a,1] x) => (float[a,1] y) <int64[0] axes = {}> { t = Unsqueeze(x, axes) y = Relu(t) }",
                "agraph (float[a,1] x) => (float[a,1] y) { y = Relu(x) }",
            ),
        )
