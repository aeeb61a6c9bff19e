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


class ExtractorExtractorPattern(EasyPatternOptimization):
    """ArrayFeatureExtractor(ArrayFeatureExtractor(x, i), j) → ArrayFeatureExtractor(x, i[j])

    What: selects the final columns from x at once.
    Why: each extractor copies element by element. Exported ColumnTransformers have nested
    extractors.
    Refuses when:
    1. x is not a matrix, or an index is out of range.
    """

    derives = ("indices",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, i: Constant, j: Constant) -> Symbol:
        return g.op.ArrayFeatureExtractor(
            g.op.ArrayFeatureExtractor(x, i, domain=DOMAIN), j, domain=DOMAIN
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        first, second = (extraction_of(g, node.output[0]) for node in m.nodes)
        if first is None or second is None:  # (1)
            return self.none(
                m.nodes[1], msg="not a matrix, or an index is not constant or out of range"
            )
        return m.derive(indices=first.indices[second.indices])

    def apply_pattern(self, g: PatternRewriter, x: str, indices: object) -> str:
        return g.op.ArrayFeatureExtractor(x, indices, domain=DOMAIN)

    examples = Example.only(
        "agraph (float[a,4] x) => (float[a,2] y) <int64[3] i = {3, 1, 0}, int64[2] j = {2, 0}> "
        "{ p = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = ai.onnx.ml.ArrayFeatureExtractor(p, j) }",
        "<int64[2] i = {0, 3}> { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }",
    )
