"""Gates and normalizations of recent decoders, as standard operators."""

from typing import Any

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from .._shapes import same_dims
from ._lowering import ATTENTION_FLOATS, _Lowering, narrowed, widened
from ._normal import divided

_FLOAT = frozenset((TensorProto.FLOAT,))
_GATES = ("silu", "swish", "sigmoid")


class _LowerGated(_Lowering):
    """A fused operator of ``com.microsoft`` for recent decoders.

    What: writes the standard operators. 16-bit floats are computed in 32 bits, as in the operator.
    Why: only ONNX Runtime's own providers run the operator, which onnxruntime-genai writes.
    """

    min_opset = 13
    operand_types = {"x": ATTENTION_FLOATS}  # (1)


class LowerGatedAddPattern(_LowerGated):
    """com.microsoft.GatedAdd(x, y, gate) → x + y · gate

    What: writes Mul and Add.
    Refuses when:
    1. the type is not float32 or float16 (checked by the matcher).
    2. the gate is projected by a weight, or does not have one number for each row of x.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol, gate: Symbol) -> Symbol:
        return g.op.GatedAdd(x, y, gate, domain="com.microsoft")  # (2)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, gate = g.try_infer_shape(m.x), g.try_infer_shape(m.gate)
        if shape is None or gate != (*shape[:-1], 1) or g.try_infer_shape(m.y) != shape:  # (2)
            return self.none(m.nodes[0], msg="the gate is not one number per row")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, y: str, gate: str) -> str:
        return g.op.Add(x, g.op.Mul(y, gate))

    examples = Example.only(
        "agraph (float[a,b,4] x, float[a,b,4] k, float[a,b,1] s) => (float[a,b,4] y) "
        "{ y = com.microsoft.GatedAdd(x, k, s) }",
        "{ t = Mul(k, s) y = Add(x, t) }",
    )


class LowerScaledSiLUPattern(_LowerGated):
    """com.microsoft.ScaledSiLU(x, alpha=a) → z · Sigmoid(z) with z = x · a

    What: writes Mul, Sigmoid and Mul.
    Refuses when:
    1. the type is not float32: in 16 bits, the operator rounds each step (checked by the matcher).
    2. the scale is an operand, and is not a float32 scalar, or the rank of x is unknown or 0.
    """

    operand_types = {"x": _FLOAT}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Optional) -> Symbol:
        return g.op.ScaledSiLU(
            *(x, scale), domain="com.microsoft", alpha=g.capture("alpha", optional=True)
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if m.scale and (
            g.try_infer_type(m.scale) not in _FLOAT or g.try_infer_shape(m.scale) not in ((), (1,))
        ):  # (2)
            return self.none(m.nodes[0], msg="the scale is not a float32 scalar")
        if m.scale and not g.info(m.x).rank:  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown, or 0")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, scale: str, alpha: float | None) -> str:
        factor = scale or (alpha if alpha is not None else 1.0)
        scaled = x if factor == 1.0 else g.op.Mul(x, factor)
        return g.op.Mul(scaled, g.op.Sigmoid(scaled))

    examples = Example.pairs(
        "agraph (float[a,4] x) => (float[a,4] y) "
        "{ y = com.microsoft.ScaledSiLU <alpha = 2.0> (x) }",
        "<float a = {2}> { z = Mul(x, a) s = Sigmoid(z) y = Mul(z, s) }",
        "agraph (float[a,4] x, float k) => (float[a,4] y) { y = com.microsoft.ScaledSiLU(x, k) }",
        "{ z = Mul(x, k) s = Sigmoid(z) y = Mul(z, s) }",
    )


class LowerLinearAttentionGatePattern(_LowerGated):
    """com.microsoft.LinearAttentionGate(x, bias, scale, b) → scale · Softplus(x + bias), Sigmoid(b)

    What: computes the decay by Add, Softplus and Mul, and the update rate by Sigmoid.
    Refuses when:
    1. the types are not float32 or float16 (checked by the matcher).
    2. bias or scale does not have one number for each head. Or there is a second result, but no
       operand b.
    """

    operand_types = {"x": ATTENTION_FLOATS, "bias": _FLOAT, "scale": _FLOAT}  # (1)

    def match_pattern(
        self, g: PatternBuilder, x: Symbol, bias: Symbol, scale: Symbol, b: Optional
    ) -> Symbol:
        return g.op.LinearAttentionGate(
            *(x, bias, scale, b), domain="com.microsoft", outputs=g.variadic("results")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        if not shape or any(
            g.try_infer_shape(name) != shape[-1:] for name in (m.bias, m.scale)
        ):  # (2)
            return self.none(m.nodes[0], msg="bias or scale is not one value per head")
        if len(m.results) > 1 and not m.b:  # (2)
            return self.none(m.nodes[0], msg="there is no operand for the second result")
        return True

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        bias: str,
        scale: str,
        b: str,
        results: tuple[str, ...],
    ) -> Any:
        dtype = g.try_infer_type(x)
        soft = g.op.Softplus(g.op.Add(widened(g, x, dtype), bias))
        decay = narrowed(g, g.op.Mul(soft, scale), dtype)
        if len(results) < 2:
            return decay
        return decay, narrowed(g, g.op.Sigmoid(widened(g, b, dtype)), dtype)

    examples = Example.pairs(
        "agraph (float[a,t,4] x, float[4] k, float[4] s, float[a,t,4] b) => "
        "(float[a,t,4] y, float[a,t,4] z) { y, z = com.microsoft.LinearAttentionGate(x, k, s, b) }",
        "{ c = Add(x, k) d = Softplus(c) y = Mul(d, s) z = Sigmoid(b) }",
        "agraph (float16[a,t,4] x, float[4] k, float[4] s) => (float16[a,t,4] y) "
        "{ y = com.microsoft.LinearAttentionGate(x, k, s) }",
        "{ c = Cast <to = 1> (x) d = Add(c, k) e = Softplus(d) f = Mul(e, s) "
        "y = Cast <to = 10> (f) }",
    )


class LowerGatedRMSNormPattern(_LowerGated):
    """com.microsoft.GatedRMSNorm(x, scale, gate) → x / √(mean of x² + epsilon) · scale · SiLU(gate)

    What: writes the formula of the normalization, and multiplies by the gate. The last axis is
    normalized in parts as long as the scale. 16-bit floats are computed in 32 bits, as in the
    operator.
    Refuses when:
    1. the types are not float32 or float16 (checked by the matcher).
    2. the last dimension of x is not a multiple of the length of the scale, or the gate has another
       shape.
    3. the activation is unknown.
    """

    operand_types = {
        "x": ATTENTION_FLOATS,
        "scale": ATTENTION_FLOATS,
        "gate": ATTENTION_FLOATS,
    }  # (1)
    derives = ("parts", "options")

    def match_pattern(self, g: PatternBuilder, x: Symbol, scale: Symbol, gate: Symbol) -> Symbol:
        return g.op.GatedRMSNorm(
            x, scale, gate, domain="com.microsoft", attributes=g.capture("written")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        options = {"activation": "silu", "epsilon": 1e-5, **m.written}
        shape, scale = g.try_infer_shape(m.x), g.try_infer_shape(m.scale)
        if (
            not shape
            or not scale
            or len(scale) != 1
            or not same_dims(shape, g.try_infer_shape(m.gate))
        ):  # (2)
            return self.none(m.nodes[0], msg="the shapes of x, scale and gate do not fit together")
        width, length = shape[-1], scale[0]
        if not isinstance(width, int) or not isinstance(length, int) or not length:  # (2)
            return self.none(m.nodes[0], msg="the length of the rows is unknown")
        if not width or width % length:  # (2)
            return self.none(m.nodes[0], msg="a row is not a multiple of the scale")
        if options["activation"] not in _GATES:  # (3)
            return self.none(m.nodes[0], msg="the activation is unknown")
        return m.derive(parts=(width // length, length), options=options)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        scale: str,
        gate: str,
        parts: tuple[int, int],
        options: dict[str, Any],
    ) -> str:
        dtype, rank = g.try_infer_type(x), g.info(x).rank or 0
        wide, wide_gate = widened(g, x, dtype), widened(g, gate, dtype)
        rows = [0] * (rank - 1)
        if parts[0] > 1:
            wide = g.op.Reshape(wide, np.array([*rows, *parts], np.int64))
        normal = divided(g, wide, [-1], options["epsilon"])
        scaled = g.op.Mul(normal, widened(g, scale, dtype))
        if parts[0] > 1:
            scaled = g.op.Reshape(scaled, np.array([*rows, parts[0] * parts[1]], np.int64))
        sigmoid = g.op.Sigmoid(wide_gate)
        factor = sigmoid if options["activation"] == "sigmoid" else g.op.Mul(wide_gate, sigmoid)
        return narrowed(g, g.op.Mul(scaled, factor), dtype)

    _formula = "q = Mul(r, r) m = ReduceMean(q, i) v = Add(m, e) w = Sqrt(v) n = Div(r, w)"
    examples = Example.pairs(
        "agraph (float[a,t,4] x, float[4] k, float[a,t,4] z) => (float[a,t,4] y) { y = "
        "com.microsoft.GatedRMSNorm <epsilon = 0.001> (x, k, z) }",
        "<int64[1] i = {-1}, float e = {0.001}> { q = Mul(x, x) m = ReduceMean(q, i) "
        "v = Add(m, e) w = Sqrt(v) n = Div(x, w) "
        "p = Mul(n, k) s = Sigmoid(z) o = Mul(z, s) y = Mul(p, o) }",
        "agraph (float[a,t,4] x, float[2] k, float[a,t,4] z) => (float[a,t,4] y) { y = "
        'com.microsoft.GatedRMSNorm <epsilon = 0.001, activation = "sigmoid"> (x, k, z) }',
        "<int64[1] i = {-1}, float e = {0.001}, int64[4] b = {0, 0, 2, 2}, int64[3] c = {0, 0, 4}> "
        f"{{ r = Reshape(x, b) {_formula} p = Mul(n, k) u = Reshape(p, c) s = Sigmoid(z) "
        "y = Mul(u, s) }",
    )
