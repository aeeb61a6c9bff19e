"""Operators on 8-bit integers with one data operand, and Concat."""

from typing import Any, Final

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol, Variadic

from .._nodes import agree_elsewhere
from ._q_linear import BYTES, NOT_ONE, _QLinear, is_one, quantized

_SOFTMAX_OF_ONE_AXIS: Final = 13
"""The operator set from which Softmax is computed along one axis."""


class _LowerQLinear(_QLinear):
    """An operator on 8-bit integers, with one data operand, or with several for Concat."""


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
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape.
    3. operands may differ along the other axes: ONNX Runtime joins empty tensors of any shape.
    """

    operand_types = {}
    derives = ("triples", "dtype")

    def match_pattern(self, g: PatternBuilder, t: Symbol, v: Symbol, others: Variadic) -> Symbol:
        return g.op.QLinearConcat(t, v, others, domain="com.microsoft", axis=g.capture("axis"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        triples = [m.others[start : start + 3] for start in range(0, len(m.others), 3)]
        dtype = g.try_infer_type(m.v)
        if dtype not in BYTES or any(g.try_infer_type(x) != dtype for x, *_ in triples):  # (1)
            return self.none(m.nodes[0], msg="the integers are not int8 or uint8")
        parameters = [(m.t, m.v), *((s, u) for _, s, u in triples)]
        if not all(is_one(g, s, u) for s, u in parameters):  # (2)
            return self.none(m.nodes[0], msg=NOT_ONE)
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


class LowerQLinearSoftmaxPattern(_LowerQLinear):
    """com.microsoft.QLinearSoftmax(x) → QuantizeLinear(Softmax(DequantizeLinear(x)))

    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape.
    3. the attribute `opset` is below 13, and `axis` is not known to be the last one. Below 13, the
       operator computes Softmax over all axes from `axis` on.
    """

    integer_steps = 1  # the kernel computes exponentials with less precision

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, s: Symbol, u: Optional, t: Symbol, v: Optional
    ) -> Symbol:
        axis, opset = g.capture("axis", optional=True), g.capture("version")
        return g.op.QLinearSoftmax(x, s, u, t, v, domain="com.microsoft", axis=axis, opset=opset)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        last = (-1, (g.info(m.x).rank or 0) - 1)
        if m.version < _SOFTMAX_OF_ONE_AXIS and m.axis is not None and m.axis not in last:  # (3)
            return self.none(m.nodes[0], msg="Softmax is computed over several axes")
        return super().validate_mapping(g, m)

    def apply_pattern(
        self, g: PatternRewriter, x: str, s: str, u: str, t: str, v: str, **m: Any
    ) -> str:
        numbers = g.op.DequantizeLinear(x, s, u or None)
        axis = -1 if m["axis"] is None else m["axis"]
        return quantized(g, g.op.Softmax(numbers, axis=axis), t, v, m["dtype"])

    examples = Example.pairs(
        "agraph (uint8[n,4,3] x) => (uint8[n,4,3] z) <float s = {0.25}, float t = {0.00390625}, "
        "uint8 u = {128}, uint8 v = {0}> { z = com.microsoft.QLinearSoftmax <axis = 1, opset = 13> "
        "(x, s, u, t, v) }",
        "<float a = {0.25}, float b = {0.00390625}, uint8 c = {128}, uint8 d = {0}> { e = "
        "DequantizeLinear(x, a, c) f = Softmax <axis = 1> (e) z = QuantizeLinear(f, b, d) }",
        "agraph (int8[n,4,3] x) => (int8[n,4,3] z) <float s = {0.25}, float t = {0.00390625}, int8 "
        "u = {3}, int8 v = {-128}> { z = com.microsoft.QLinearSoftmax <axis = 2, opset = 12> (x, "
        "s, u, t, v) }",
        "<float a = {0.25}, float b = {0.00390625}, int8 c = {3}, int8 d = {-128}> { e = "
        "DequantizeLinear(x, a, c) f = Softmax <axis = 2> (e) z = QuantizeLinear(f, b, d) }",
    )
