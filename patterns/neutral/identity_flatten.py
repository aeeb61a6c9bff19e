"""A Flatten of a matrix."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape


class IdentityFlattenPattern(EasyPatternOptimization):
    """Flatten(x), x a matrix → x

    What: drops a Flatten that keeps the shape.
    Why: one node less.
    Refuses when:
    1. the shape is unknown or changes: a matrix flattened at axis 0 or 2 is another matrix.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """At any axis."""
        return g.op.Flatten(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the shapes (1)."""
        return keeps_shape(g, m.nodes[0]) or self.none(m.nodes[0], msg="the shape changes or is unknown")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A batch of vectors."""
        return (
            Example(
                "agraph (float[a,b] x) => (float[a,b] y) { t = Flatten(x) y = Relu(t) }",
                "agraph (float[a,b] x) => (float[a,b] y) { y = Relu(x) }",
            ),
        )
