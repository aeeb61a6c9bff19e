"""A Flatten followed by a Reshape."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, Example, PatternBuilder, Symbol

from .reshape_reshape import ReshapeReshapePattern


class FlattenReshapePattern(ReshapeReshapePattern):
    """Reshape(Flatten(x), shape) → Reshape(x, shape), or x when it gets its shape back

    What: forgets the matrix in between.
    Why: one node less.
    Refuses when:
    1. as ReshapeReshape: the target may copy a size of the matrix.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        """At any axis (1)."""
        return self.last(g, g.op.Flatten(x, attributes=ANY), shape)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Into three axes."""
        return (
            Example(
                "agraph (float[a,4,6] x) => (float[b,2,3] y) <int64[3] s = {-1, 2, 3}> { t = Flatten(x) y = Reshape(t, s) }",
                "agraph (float[a,4,6] x) => (float[b,2,3] y) <int64[3] s = {-1, 2, 3}> { y = Reshape(x, s) }",
            ),
        )
