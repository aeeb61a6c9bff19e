import numpy as np

from xoptim.match import (
    Constant,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from ._columns import DOMAIN, extraction_of


class IdentityExtractorPattern(EasyPatternOptimization):
    """ArrayFeatureExtractor(x, 0, 1, ..., n - 1) → x

    What: drops a node that takes every column in its place.
    Why: it copies the matrix element by element; a ColumnTransformer often takes all columns, one
    after another.
    Refuses when:
    1. x is not a matrix of n columns.
    2. the places are not 0, 1, 2, ...
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, places: Constant) -> Symbol:
        return g.op.ArrayFeatureExtractor(x, places, domain=DOMAIN)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        found = extraction_of(g, m.nodes[0].output[0])
        is_all = found is not None and np.array_equal(found.places, np.arange(found.size))
        # (1) (2)
        return is_all or self.none(m.nodes[0], msg="the indices are not all columns in order")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[a,2] x) => (float[a,2] y) <int64[2] i = {0, 1}> "
        "{ p = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = Relu(p) }",
        "{ y = Relu(x) }",
    )
