from typing import Any

from xoptim.match import Constant, EasyPatternOptimization, Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._folding import constant
from ._convolution import any_convolution, same_convolution


class ConvBiasNullPattern(EasyPatternOptimization):
    """Conv(x, w, 0) → Conv(x, w)

    What: drops a bias that adds nothing; the same for ConvTranspose. The sum of -0 and 0 is 0.
    Why: saves an addition for each element of the result, and the constant.
    Refuses when:
    1. an element of the bias is not zero.
    """

    exactness = "rounding"

    def match_pattern(self, g: PatternBuilder, x: Symbol, w: Symbol, b: Constant) -> Symbol:
        return any_convolution(g, x, w, b)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return self.none(m.nodes[0], msg="the bias is not zero") if constant(g, m.b).any() else True  # (1)

    def apply_pattern(self, g: PatternRewriter, x: str, w: str, attributes: dict[str, Any], transposed: bool) -> str:
        return same_convolution(g, x, w, None, attributes, transposed)

    examples = Example.only(
        "agraph (float[n,1,h] x, float[2,1,3] w) => (float[n,2,k] y) <float[2] b = {0, 0}> { y = Conv(x, w, b) }",
        "{ y = Conv(x, w) }",
    )
