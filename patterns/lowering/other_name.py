"""Operators that have one name in the standard and another name in ONNX Runtime."""

from typing import Any, ClassVar

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.trace import Optional

from .._nodes import is_written_by
from ._lowering import COMPUTED, _Lowering


class _OtherName(_Lowering):
    """An operator that has two names.

    Why: a runtime may have a kernel of the other name only.

    Class attributes:
        inverse: the opposite pattern, whose nodes stay as they are.
    """

    priority = 1  # after patterns that write the formula
    inverse: ClassVar[str]

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if is_written_by(m.nodes[0], self.inverse):
            return self.none(m.nodes[0], msg=f"{self.inverse} made this node")
        return True


class GeluToContribPattern(_OtherName):
    """Gelu(x) → com.microsoft.Gelu(x)

    What: writes the operator by its former name. With approximate="tanh", this name is
    com.microsoft.FastGelu.
    Why: some of ONNX Runtime's providers have a kernel of com.microsoft.Gelu only.
    Refuses when:
    1. the type is not float32: some providers have kernels for float32 only (checked by the
       matcher).
    2. `GeluToStandard` wrote the operator.
    3. the rank is unknown, or 0: FastGelu has no kernel for scalars.
    """

    min_opset = 20
    produces = ("com.microsoft",)
    inverse = "GeluToStandard"  # (2)
    operand_types = {"x": frozenset((TensorProto.FLOAT,))}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Gelu(x, approximate=g.capture("approximate", optional=True))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.approximate == "tanh" and not g.info(m.x).rank:  # (3)
            return self.none(m.nodes[0], msg="the rank is unknown, or 0")
        return super().validate_mapping(g, m)

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


class GeluToStandardPattern(_OtherName):
    """com.microsoft.BiasGelu(x, b) → Gelu(x + b)

    What: writes the standard operator. The same for com.microsoft.Gelu, and for
    com.microsoft.FastGelu, the approximation by Tanh.
    Why: only ONNX Runtime's own providers run the operators of com.microsoft.
    Refuses when:
    1. the type is unknown, or has 64 bits: ONNX Runtime's constants have 32 (checked by the
       matcher).
    2. `GeluToContrib` wrote the operator.
    """

    min_opset = 20
    inverse = "GeluToContrib"  # (2)
    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Optional) -> Symbol:
        operator = g.choice("operator", "Gelu", "BiasGelu", "FastGelu")
        operands = (x,) if operator == "Gelu" else (x, b)
        result: Symbol = getattr(g.op, operator)(*operands, domain="com.microsoft")
        return result

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


class RMSNormalizationToSimplifiedPattern(_OtherName):
    """RMSNormalization(x, scale) → SimplifiedLayerNormalization(x, scale)

    What: writes the operator by ONNX Runtime's name. This name is in the standard domain, although
    the standard has no such operator.
    Why: some of ONNX Runtime's providers have a kernel of SimplifiedLayerNormalization only.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. `SimplifiedToRMSNormalization` wrote the operator.
    """

    min_opset = 23
    inverse = "SimplifiedToRMSNormalization"  # (2)
    operand_types = {"x": COMPUTED}  # (1)
    unchecked = ("SimplifiedLayerNormalization",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        return g.op.RMSNormalization(x, scale, attributes=g.capture("written"))

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


class SimplifiedToRMSNormalizationPattern(_OtherName):
    """SimplifiedLayerNormalization(x, scale) → RMSNormalization(x, scale)

    What: writes the standard operator instead of ONNX Runtime's operator with another name.
    Why: other runtimes and ``onnx.checker`` know only the standard operator.
    Refuses when:
    1. the type is unknown, or bfloat16, for which the standard operator has no kernels (checked by
       the matcher).
    2. the inverse standard deviation is used, which the standard operator does not compute.
    3. the types of x and scale differ.
    4. `RMSNormalizationToSimplified` wrote the operator.
    """

    min_opset = 23
    inverse = "RMSNormalizationToSimplified"  # (4)
    operand_types = {"x": COMPUTED - {TensorProto.BFLOAT16}}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol) -> Symbol:
        return g.op.SimplifiedLayerNormalization(x, scale, attributes=g.capture("written"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if any(g.is_used(name) for name in m.nodes[0].output[1:]):  # (2)
            return self.none(m.nodes[0], msg="the inverse standard deviation is read")
        if g.try_infer_type(m.scale) != g.try_infer_type(m.x):  # (3)
            return self.none(m.nodes[0], msg="the types differ")
        return super().validate_mapping(g, m)

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
