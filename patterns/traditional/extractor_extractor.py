"""Columns of columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._folding import Array
from ._columns import DOMAIN
from ._extraction import extraction_of


class ExtractorExtractorPattern(PatternOptimization):
    """ArrayFeatureExtractor(ArrayFeatureExtractor(x, i), j) → ArrayFeatureExtractor(x, i[j]); all columns in order → x

    What: takes the final columns at once, none where they are those of x.
    Why: each of them copies element by element; a ColumnTransformer takes columns of columns, and often all of them.
    Refuses when:
    1. x is not a matrix, or a place is not constant.
    2. the columns are neither those of x in order nor taken twice.
    3. something else reads the columns in between: they would be copied in any case.
    """

    anchors = ("ai.onnx.ml::ArrayFeatureExtractor",)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """One node, or two."""
        found = extraction_of(g, node.output[0])
        if found is None:  # (1)
            return self.none(node, msg="constant columns of a matrix are expected")
        if np.array_equal(found.places, np.arange(found.size)):
            return MatchResult(self, [node], partial(self._whole, found.x))
        before = extraction_of(g, found.x) if g.is_exclusive(found.x) else None  # (3)
        if before is None:  # (2)
            return self.none(node, msg="some columns, taken once")
        return MatchResult(self, [before.node, node], partial(self._at_once, before.x, before.places[found.places]))

    def _whole(self, x: str, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("Identity", [x], node.output)]

    def _at_once(self, x: str, places: Array, g: PatternRewriter, *nodes: Node) -> list[Node]:
        inputs = [x, g.make_initializer("", places, source="columns")]
        return [g.make_node("ArrayFeatureExtractor", inputs, nodes[-1].output, domain=DOMAIN)]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """Two of three columns, and all."""
        return (
            Example(
                "agraph (float[a,4] x) => (float[a,2] y) <int64[3] i = {3, 1, 0}, int64[2] j = {2, 0}> "
                "{ p = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = ai.onnx.ml.ArrayFeatureExtractor(p, j) }",
                "agraph (float[a,4] x) => (float[a,2] y) <int64[2] i = {0, 3}> { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
                domains=(("ai.onnx.ml", 1),),
            ),
            Example(
                "agraph (float[a,2] x) => (float[a,2] y) <int64[2] i = {0, 1}> "
                "{ p = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = Relu(p) }",
                "agraph (float[a,2] x) => (float[a,2] y) { y = Relu(x) }",
                domains=(("ai.onnx.ml", 1),),
            ),
        )
