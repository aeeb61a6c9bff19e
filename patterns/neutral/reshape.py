"""A Reshape to the shape that the tensor has already."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._proofs import keeps_shape


class ReshapePattern(EasyPatternOptimization):
    """Reshape(x, shape of x) → x

    What: drops a Reshape that changes nothing; the dimensions may be symbols.
    Why: one node less, and what computes the target is often left without a reader.
    Refuses when:
    1. the shape is unknown, or the target does not provably give it back.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        """Any Reshape, whatever its target; zeros and ``allowzero`` are the business of shape inference."""
        return g.op.Reshape(x, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        """Compare the shapes (1)."""
        return keeps_shape(g, m.nodes[0]) or self.none(m.nodes[0], msg="the shape changes or is unknown")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        """Nothing is left."""
        return x

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A constant target, and one put together from the sizes of x itself."""
        return (
            Example(
                "agraph (float[a,b,6] x) => (float[a,b,6] y) <int64[3] s = {0, -1, 6}> { t = Reshape(x, s) y = Relu(t) }",
                "agraph (float[a,b,6] x) => (float[a,b,6] y) { y = Relu(x) }",
            ),
            Example(
                "agraph (float[a,6] x) => (float[a,6] y) <int64[1] six = {6}> "
                "{ n = Shape <end = 1> (x) s = Concat <axis = 0> (n, six) t = Reshape(x, s) y = Relu(t) }",
                "agraph (float[a,6] x) => (float[a,6] y) { y = Relu(x) }",
            ),
        )
