from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from .._nodes import is_written_by
from ._lowering import _Lowering


class GeluToContribPattern(_Lowering):
    """Gelu(x) → com.microsoft.Gelu(x)

    What: the same operator by its former name; with approximate="tanh" it is
    com.microsoft.FastGelu.
    Why: some of ONNX Runtime's providers have a kernel of that name only.
    Refuses when:
    1. the type is not float: the other operator has no kernel for it everywhere (checked by the
       matcher).
    2. `GeluToStandard` wrote the operator.
    """

    priority = 1  # after the formula
    min_opset = 20
    produces = ("com.microsoft",)
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Gelu(x, approximate=g.capture("approximate", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if is_written_by(m.nodes[0], "GeluToStandard"):  # (2)
            return self.none(m.nodes[0], msg="GeluToStandard made this node")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, approximate: Any) -> str:
        if approximate == "tanh":
            return g.op.FastGelu(x, domain="com.microsoft")
        return g.op.Gelu(x, domain="com.microsoft")

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Gelu(x) }",
        "{ y = com.microsoft.Gelu(x) }",
        'agraph (float[a,4] x) => (float[a,4] y) { y = Gelu <approximate = "tanh"> (x) }',
        "{ y = com.microsoft.FastGelu(x) }",
        opset=20,
    )
