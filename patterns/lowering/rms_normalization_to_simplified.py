from typing import Any

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._nodes import is_written_by
from ._lowering import COMPUTED, _Lowering


class RMSNormalizationToSimplifiedPattern(_Lowering):
    """RMSNormalization(x, scale) → SimplifiedLayerNormalization(x, scale)

    What: the same operator by ONNX Runtime's name, which is in the standard domain although the
    standard lacks it.
    Why: some of ONNX Runtime's providers have a kernel of that name only.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. `SimplifiedToRMSNormalization` wrote the operator.
    """

    priority = 1  # after the formula
    min_opset = 23
    operand_types = {"x": COMPUTED}  # (1)
    unchecked = ("SimplifiedLayerNormalization",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        return g.op.RMSNormalization(x, scale, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if is_written_by(m.nodes[0], "SimplifiedToRMSNormalization"):  # (2)
            return self.none(m.nodes[0], msg="SimplifiedToRMSNormalization made this node")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, scale: str, written: dict[str, Any]) -> str:
        return str(g.op.SimplifiedLayerNormalization(x, scale, **written))

    examples = Example.pairs(
        "agraph (float[a,b,4] x, float[4] k) => (float[a,b,4] y) { "
        "y = RMSNormalization <epsilon = 0.001> (x, k) }",
        "{ y = SimplifiedLayerNormalization <epsilon = 0.001> (x, k) }",
        "agraph (float16[a,2,4] x, float16[2,4] k) => (float16[a,2,4] y) "
        "{ y = RMSNormalization <axis = 1, epsilon = 0.001> (x, k) }",
        "{ y = SimplifiedLayerNormalization <axis = 1, epsilon = 0.001> (x, k) }",
        opset=23,
    )
