"""com.microsoft.QuantizeLinear and DequantizeLinear, as the standard operators of the same name."""

from typing import Any, ClassVar, Final

from onnx import TensorProto

from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    Optional,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from ._parameters import is_single

_FIRST_OPSETS: Final[dict[int, int]] = {
    **dict.fromkeys((TensorProto.UINT8, TensorProto.INT8, TensorProto.INT32), 10),
    **dict.fromkeys((TensorProto.UINT16, TensorProto.INT16), 21),
    **dict.fromkeys((TensorProto.UINT4, TensorProto.INT4), 21),
}
"""The first operator set of the standard with each integer type."""
_PER_AXIS: Final = 13
"""The first operator set of the standard with scales along an axis."""


class _ContribToStandard(EasyPatternOptimization):
    """A contrib operator of ``com.microsoft`` that exists in the operator set of the model as well.

    What: writes the standard operator, which has the same name and the same operands.
    Why: the kernel is the same, but most patterns and other runtimes support only the standard one.
    Refuses when:
    1. the operator set is too early for the integer type, or for scales along an axis.
    2. a type is unknown, or the scale is not float32.
    3. the provider has no kernel of the standard operator for the operator set.
    """

    operator: ClassVar[str]
    min_opset = 10
    operand_types = {"s": frozenset((TensorProto.FLOAT,))}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Symbol, z: Optional) -> Symbol:
        operator = getattr(g.op, self.operator)
        result: Symbol = operator(
            x, s, z, domain="com.microsoft", attributes=g.capture("attributes")
        )
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        node = m.nodes[0]
        integers = m.x if self.operator == "DequantizeLinear" else m.outputs[0]
        first_opset = _FIRST_OPSETS.get(g.try_infer_type(integers))
        if first_opset is None or g.main_opset < first_opset:  # (1) (2)
            return self.none(
                node, msg="the integer type is unknown, or the operator set does not support it"
            )
        if g.main_opset < _PER_AXIS and not is_single(g, m.s):  # (1)
            return self.none(node, msg="the operator set lacks scales along an axis")
        return True

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, z: str, attributes: dict[str, Any]
    ) -> str:
        # The first version of the operator has no attribute ``axis``.
        standard_attributes = attributes if g.main_opset >= _PER_AXIS else {}
        return str(getattr(g.op, self.operator)(x, s, z or None, **standard_attributes))


class QuantizeLinearToStandardPattern(_ContribToStandard):
    """com.microsoft.QuantizeLinear(x, s, z) → QuantizeLinear(x, s, z)"""

    operator = "QuantizeLinear"
    kernels = {"QuantizeLinear": "x"}  # (3)
    examples = Example.only(
        "agraph (float[n,3] x) => (uint8[n,3] y) <float[3] s = {1, 2, 3}, uint8[3] z = {1, 2, 3}> "
        "{ y = com.microsoft.QuantizeLinear <axis = 1> (x, s, z) }",
        "<float[3] s = {1, 2, 3}, uint8[3] z = {1, 2, 3}> "
        "{ y = QuantizeLinear <axis = 1> (x, s, z) }",
    )


class DequantizeLinearToStandardPattern(_ContribToStandard):
    """com.microsoft.DequantizeLinear(x, s, z) → DequantizeLinear(x, s, z)"""

    operator = "DequantizeLinear"
    kernels = {"DequantizeLinear": "x"}  # (3)
    examples = Example.only(
        "agraph (int8[n,3] x) => (float[n,3] y) <float s = {0.5}, int8 z = {-3}> "
        "{ y = com.microsoft.DequantizeLinear(x, s, z) }",
        "<float s = {0.5}, int8 z = {-3}> { y = DequantizeLinear(x, s, z) }",
    )
