"""A Squeeze or Unsqueeze followed by a Reshape."""

from __future__ import annotations

from collections.abc import Sequence

from xoptim.match import ANY, Example, PatternBuilder, Symbol

from .reshape_reshape import ReshapeReshapePattern


class UnsqueezeOrSqueezeReshapePattern(ReshapeReshapePattern):
    """Reshape(Squeeze(x), shape) or Reshape(Unsqueeze(x), shape) → Reshape(x, shape), or x when it gets its shape back

    What: forgets the axes of size 1 in between.
    Why: one node less.
    Refuses when:
    1. as ReshapeReshape: the target may copy a size that is in another place now.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, shape: Symbol) -> Symbol:
        """Whatever the axes (1)."""
        if g.option("squeeze"):
            return self.last(g, g.op.Squeeze(x, attributes=ANY), shape)
        return self.last(g, g.op.Unsqueeze(x, attributes=ANY), shape)

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A copied size that stays in its place, and one that is written out."""
        return (
            Example(
                "agraph (float[a,6] x) => (float[a,2,3] y) <int64[1] axes = {2}, int64[3] s = {0, 2, 3}> "
                "{ t = Unsqueeze(x, axes) y = Reshape(t, s) }",
                "agraph (float[a,6] x) => (float[a,2,3] y) <int64[3] s = {0, 2, 3}> { y = Reshape(x, s) }",
            ),
            Example(
                "agraph (float[1,6,a] x) => (float[6,b] y) <int64[1] axes = {0}, int64[2] s = {0, -1}> "
                "{ t = Squeeze(x, axes) y = Reshape(t, s) }",
                "agraph (float[1,6,a] x) => (float[6,b] y) <int64[2] s = {6, -1}> { y = Reshape(x, s) }",
            ),
        )
