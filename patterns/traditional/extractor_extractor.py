"""Columns of columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import Array
from ._columns import DOMAIN
from ._extraction import extraction_of


class ExtractorExtractorPattern(PatternOptimization):
    """ArrayFeatureExtractor(ArrayFeatureExtractor(x, i), j) → ArrayFeatureExtractor(x, i[j])

    What: takes the final columns at once.
    Why: each of them copies element by element; a ColumnTransformer takes columns of columns.
    Refuses when:
    1. x is not a matrix, or a place is not constant.
    2. something else reads the columns in between: they would be copied in any case.
    """

    anchors = ("ai.onnx.ml::ArrayFeatureExtractor",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Both have constant places."""
        found = extraction_of(g, node.output[0])
        if found is None:  # (1)
            return self.none(node, msg="constant columns of a matrix are expected")
        before = extraction_of(g, found.x) if g.is_exclusive(found.x) else None  # (2)
        if before is None:  # (1)
            return self.none(node, msg="the columns are not those of another one")
        return MatchResult(self, [before.node, node], partial(self._at_once, before.x, before.places[found.places]))

    def _at_once(self, x: str, places: Array, g: PatternRewriter, *nodes: Node) -> list[Node]:
        inputs = [x, g.make_initializer("", places, source="columns")]
        return [g.make_node("ArrayFeatureExtractor", inputs, nodes[-1].output, domain=DOMAIN)]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two of three columns."""
        return (
            Example(
                "agraph (float[a,4] x) => (float[a,2] y) <int64[3] i = {3, 1, 0}, int64[2] j = {2, 0}> "
                "{ p = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = ai.onnx.ml.ArrayFeatureExtractor(p, j) }",
                "agraph (float[a,4] x) => (float[a,2] y) <int64[2] i = {0, 3}> { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
                domains=(("ai.onnx.ml", 1),),
            ),
        )
