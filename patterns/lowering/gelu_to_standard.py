from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._nodes import is_written_by
from ._lowering import COMPUTED, _Lowering


class GeluToStandardPattern(_Lowering):
    """com.microsoft.BiasGelu(x, b) → Gelu(x + b)

    What: the standard operator; the same for com.microsoft.Gelu, and for FastGelu, which is its
    approximation by Tanh.
    Why: only ONNX Runtime's own providers run the others.
    Refuses when:
    1. the type is unknown, or has 64 bits: ONNX Runtime's constants have 32 (checked by the
       matcher).
    2. `GeluToContrib` wrote the operator.
    """

    priority = 1  # after the formula
    min_opset = 20
    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Optional) -> Symbol:
        operator = g.choice("operator", "Gelu", "BiasGelu", "FastGelu")
        operands = (x,) if operator == "Gelu" else (x, b)
        result: Symbol = getattr(g.op, operator)(*operands, domain="com.microsoft")
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if is_written_by(m.nodes[0], "GeluToContrib"):  # (2)
            return self.none(m.nodes[0], msg="GeluToContrib made this node")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, b: Any, operator: str) -> str:
        total = g.op.Add(x, b) if b else x
        return g.op.Gelu(total, approximate="tanh" if operator == "FastGelu" else None)

    examples = Example.pairs(
        "agraph (float[a,4] x, float[4] b) => (float[a,4] y) { y = com.microsoft.BiasGelu(x, b) }",
        "{ a = Add(x, b) y = Gelu(a) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = com.microsoft.Gelu(x) }",
        "{ y = Gelu(x) }",
        "agraph (float[a,4] x, float[4] b) => (float[a,4] y) { y = com.microsoft.FastGelu(x, b) }",
        '{ a = Add(x, b) y = Gelu <approximate = "tanh"> (a) }',
        opset=20,
    )
