"""Operators on 8-bit integers, as float operators between DequantizeLinear and QuantizeLinear."""

from typing import Any, ClassVar, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol, Variadic

from .._nodes import agree_elsewhere
from ._lowering import _Lowering

_MIN_SCALE: Final = 2.0**-100
"""Scales and their reciprocals must be larger than this."""
_BYTES: Final = frozenset((TensorProto.UINT8, TensorProto.INT8))


class _LowerQLinear(_Lowering):
    """An operator on 8-bit integers that stand for floats.

    What: dequantizes the operands, and quantizes the result.
    Why: only ONNX Runtime's own providers run the operator; others support quantized models by
    QuantizeLinear and DequantizeLinear.
    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. scales are not one constant of moderate size, or zero points have another shape.
    """

    min_opset = 13
    max_opset = 27
    operand_types = {"x": _BYTES}  # (1)
    derives: ClassVar[tuple[str, ...]] = ("dtype",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not is_one(g, m.s, m.u) or not is_one(g, m.t, m.v):  # (2)
            return self.none(
                m.nodes[0], msg="a scale or zero point may not be a scalar, or their shapes differ"
            )
        return m.derive(dtype=g.try_infer_type(m.x))


def is_one(g: GraphView, scale: str, zero: str) -> bool:
    """Whether there is one constant scale of moderate size, and a zero point of the same shape, if
    any.
    """
    shape, number = g.try_infer_shape(scale), g.get_constant_scalar(scale)
    if number is None or not _MIN_SCALE < number < 1 / _MIN_SCALE:
        return False
    return shape in ((), (1,)) and (not zero or g.try_infer_shape(zero) == shape)


def quantized(g: PatternRewriter, x: str, scale: str, zero: str, dtype: int) -> str:
    """The numbers as integers of a type; a zero point is always written, as it gives the type."""
    shape = g.static_shape(scale) or ()
    return g.op.QuantizeLinear(x, scale, zero or np.zeros(shape, numpy_dtype(dtype)))


class LowerQLinearSigmoidPattern(_LowerQLinear):
    """com.microsoft.QLinearSigmoid(x) → QuantizeLinear(Sigmoid(DequantizeLinear(x)))"""

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, u: Optional, t: Symbol, v: Optional
    ) -> Symbol:
        return g.op.QLinearSigmoid(x, s, u, t, v, domain="com.microsoft")

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, u: str, t: str, v: str, dtype: int
    ) -> str:
        return quantized(g, g.op.Sigmoid(g.op.DequantizeLinear(x, s, u or None)), t, v, dtype)

    _stored = "float s = {0.1}, float t = {0.3}, uint8 u = {128}, uint8 v = {3}"
    examples = Example.pairs(
        f"agraph (uint8[n,4] x) => (uint8[n,4] z) <{_stored}> {{ "
        "z = com.microsoft.QLinearSigmoid(x, s, u, t, v) }",
        "<float s = {0.1}, float t = {0.3}, uint8 u = {128}, uint8 v = {3}> { a = "
        "DequantizeLinear(x, s, u) b = Sigmoid(a) z = QuantizeLinear(b, t, v) }",
        "agraph (int8[n,4] x) => (int8[n,4] z) <float s = {0.1}, float t = {0.01}, int8 a = {5}> "
        "{ z = com.microsoft.QLinearSigmoid(x, s, a, t, a) }",
        "<float s = {0.1}, float t = {0.01}, int8 a = {5}> { b = DequantizeLinear(x, s, a) c = "
        "Sigmoid(b) z = QuantizeLinear(c, t, a) }",
    )


class LowerQLinearLeakyReluPattern(_LowerQLinear):
    """com.microsoft.QLinearLeakyRelu(x) → QuantizeLinear(LeakyRelu(DequantizeLinear(x)))"""

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, u: Optional, t: Symbol, v: Optional
    ) -> Symbol:
        alpha = g.capture("alpha", optional=True)
        return g.op.QLinearLeakyRelu(x, s, u, t, v, domain="com.microsoft", alpha=alpha)

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, u: str, t: str, v: str, **m: Any
    ) -> str:
        bent = g.op.LeakyRelu(g.op.DequantizeLinear(x, s, u or None), alpha=m["alpha"])
        return quantized(g, bent, t, v, m["dtype"])

    _stored = "float s = {0.1}, float t = {0.3}, uint8 u = {128}, uint8 v = {3}"
    examples = Example.pairs(
        f"agraph (uint8[n,4] x) => (uint8[n,4] z) <{_stored}> "
        "{ z = com.microsoft.QLinearLeakyRelu <alpha = 0.25> (x, s, u, t, v) }",
        "<float s = {0.1}, float t = {0.3}, uint8 u = {128}, uint8 v = {3}> { a = "
        "DequantizeLinear(x, s, u) b = LeakyRelu <alpha = 0.25> (a) z = QuantizeLinear(b, t, v) }",
    )


class LowerQLinearConcatPattern(_LowerQLinear):
    """com.microsoft.QLinearConcat(t, v, x, s, u, ...) → QuantizeLinear(Concat(DequantizeLinear(x),
    ...))

    Refuses when:
    1. the integers do not have 8 bits.
    2. scales are not one constant of moderate size, or zero points have another shape.
    3. operands may differ along the other axes: ONNX Runtime joins empty tensors of any shape.
    """

    operand_types = {}
    derives = ("triples", "dtype")

    def match_pattern(self, g: PatternBuilder, t: Symbol, v: Symbol, others: Variadic) -> Symbol:
        return g.op.QLinearConcat(t, v, others, domain="com.microsoft", axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        triples = [m.others[start : start + 3] for start in range(0, len(m.others), 3)]
        dtype = g.try_infer_type(m.v)
        if dtype not in _BYTES or any(g.try_infer_type(x) != dtype for x, *_ in triples):  # (1)
            return self.none(m.nodes[0], msg="the integers are not int8 or uint8")
        parameters = [(m.t, m.v), *((s, u) for _, s, u in triples)]
        if not all(is_one(g, s, u) for s, u in parameters):  # (2)
            return self.none(
                m.nodes[0], msg="a scale or zero point may not be a scalar, or their shapes differ"
            )
        names = [x for x, *_ in triples]
        rank = g.info(names[0]).rank or 0
        if not rank or not agree_elsewhere(g, names, m.axis % rank):  # (3)
            return self.none(
                m.nodes[0], msg="the operands' shapes may not match along the other axes"
            )
        return m.derive(triples=triples, dtype=dtype)

    def apply_pattern(
        self, g: PatternRewriter, t: str, v: str, axis: int, triples: Any, dtype: int
    ) -> str:
        numbers = [g.op.DequantizeLinear(*triple) for triple in triples]
        return quantized(g, g.op.Concat(*numbers, axis=axis), t, v, dtype)

    _stored = "float s = {0.1}, float t = {0.3}, float r = {0.7}, uint8 u = {128}, uint8 v = {3}"
    examples = Example.pairs(
        f"agraph (uint8[n,4] x, uint8[n,4] y) => (uint8[n,8] z) <{_stored}> "
        "{ z = com.microsoft.QLinearConcat <axis = 1> (r, u, x, s, u, y, t, v) }",
        "<float s = {0.1}, float t = {0.3}, float r = {0.7}, uint8 u = {128}, uint8 v = {3}> { a = "
        "DequantizeLinear(x, s, u) b = DequantizeLinear(y, t, v) c = Concat <axis = 1> (a, b) z = "
        "QuantizeLinear(c, r, u) }",
    )
