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

    What: drops a node that selects all columns in order.
    Why: saves a copy of the matrix, element by element. A ColumnTransformer often selects all
    columns.
    Refuses when:
    1. x is not a matrix of n columns.
    2. the indices are not 0, 1, 2, ...
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, indices: Constant) -> Symbol:
        return g.op.ArrayFeatureExtractor(x, indices, domain=DOMAIN)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        extraction = extraction_of(g, m.nodes[0].output[0])
        is_all = extraction is not None and np.array_equal(
            extraction.indices, np.arange(extraction.size)
        )
        # (1) (2)
        return is_all or self.none(m.nodes[0], msg="the indices are not all columns in order")

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return x

    examples = Example.only(
        "agraph (float[a,2] x) => (float[a,2] y) <int64[2] i = {0, 1}> "
        "{ p = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = Relu(p) }",
        "{ y = Relu(x) }",
    )
