from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._nodes import is_written_by
from ._lowering import COMPUTED, _Lowering


class SimplifiedToRMSNormalizationPattern(_Lowering):
    """SimplifiedLayerNormalization(x, scale) → RMSNormalization(x, scale)

    What: the standard operator for ONNX Runtime's, which has another name.
    Why: other runtimes and ``onnx.checker`` know the standard one only.
    Refuses when:
    1. the type is unknown, or bfloat16, which kernels of the standard operator lack (checked by the
       matcher).
    2. the standard deviation is read, which the standard operator does not give.
    3. the types of x and scale differ.
    4. `RMSNormalizationToSimplified` wrote the operator.
    """

    priority = 1  # after the formula
    min_opset = 23
    operand_types = {"x": COMPUTED - {TensorProto.BFLOAT16}}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        return g.op.SimplifiedLayerNormalization(x, scale, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if any(g.is_used(name) for name in m.nodes[0].output[1:]):  # (2)
            return self.none(m.nodes[0], msg="the inverse standard deviation is read")
        if g.try_infer_type(m.scale) != g.try_infer_type(m.x):  # (3)
            return self.none(m.nodes[0], msg="the types differ")
        if is_written_by(m.nodes[0], "RMSNormalizationToSimplified"):  # (4)
            return self.none(m.nodes[0], msg="RMSNormalizationToSimplified made this node")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, scale: str, written: dict[str, Any]) -> str:
        return g.op.RMSNormalization(x, scale, **written)

    examples = Example.pairs(
        "agraph (float[a,b,4] x, float[4] k) => (float[a,b,4] y) "
        "{ y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.001> (x, k) }",
        "{ y = RMSNormalization <axis = -1, epsilon = 0.001> (x, k) }",
        "agraph (float16[a,2,4] x, float16[2,4] k) => (float16[a,2,4] y) "
        "{ y = SimplifiedLayerNormalization <axis = 1, epsilon = 0.001> (x, k) }",
        "{ y = RMSNormalization <axis = 1, epsilon = 0.001> (x, k) }",
        opset=23,
    )
