"""Activations by their definitions."""

from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternRewriter
from xoptim.match.by_definition import LoweringByDefinition

from .._shapes import broadcasts_to
from ._lowering import COMPUTED, narrowed, widened


class _LowerActivation(LoweringByDefinition):
    """An activation.

    What: writes the definition. 16-bit floats are computed in 32 bits, as in the operator.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. an attribute is infinite or NaN.
    """

    min_opset = 9
    operand_types = {"x": COMPUTED}  # (1); the base class checks attributes (2)
    is_wide = True


class LowerCeluPattern(_LowerActivation):
    """Celu(x, alpha) → Relu(x) + alpha · (Exp(Min(x, 0) / alpha) - 1)"""

    min_opset = 12
    operator = "Celu"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Celu <alpha = 2.0> (x) }",
        "<float a = {0}, float b = {2}, float c = {1}> { d = Min(x, a) e = Div(d, b) f = Exp(e) g "
        "= Sub(f, c) h = Relu(x) i = Mul(g, b) y = Add(h, i) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = Celu(x) }",
        "<float a = {0}, float b = {1}> { c = Min(x, a) d = Exp(c) e = Sub(d, b) f = Relu(x) "
        "y = Add(f, e) }",
    )


class LowerEluPattern(_LowerActivation):
    """Elu(x, alpha) → Relu(x) + alpha · (Exp(Min(x, 0)) - 1)"""

    operator = "Elu"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Elu <alpha = 0.5> (x) }",
        "<float a = {0}, float b = {1}, float c = {0.5}> { d = Min(x, a) e = Exp(d) f = Sub(e, b) "
        "g = Relu(x) h = Mul(f, c) y = Add(g, h) }",
        "agraph (float16[a,4] x) => (float16[a,4] y) { y = Elu(x) }",
        "<float a = {0}, float b = {1}> { c = Cast <to = 1> (x) d = Min(c, a) e = Exp(d) f = "
        "Sub(e, b) g = Relu(c) h = Add(g, f) y = Cast <to = 10> (h) }",
    )


class LowerHardSigmoidPattern(_LowerActivation):
    """HardSigmoid(x, alpha, beta) → Clip(alpha · x + beta, 0, 1)"""

    operator = "HardSigmoid"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = HardSigmoid(x) }",
        "<float a = {0.2}, float b = {0.5}, float c = {0}, float d = {1}> { e = Mul(x, a) "
        "f = Add(e, b) y = Clip(f, c, d) }",
        "agraph (float[a,4] x) => (float[a,4] y) { "
        "y = HardSigmoid <alpha = 0.25, beta = 0.75> (x) }",
        "<float a = {0.25}, float b = {0.75}, float c = {0}, float d = {1}> { e = Mul(x, a) "
        "f = Add(e, b) y = Clip(f, c, d) }",
    )


class LowerHardSwishPattern(_LowerActivation):
    """HardSwish(x) → x · Clip(x / 6 + 0.5, 0, 1)"""

    # ONNX defines the operator with 1/6 in 32 bits, for all types.
    min_opset = 14
    operator = "HardSwish"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = HardSwish(x) }",
        "<float a = {0.16666667}, float b = {0.5}, float c = {0}, float d = {1}> { e = Mul(x, a) f "
        "= Add(e, b) g = Clip(f, c, d) y = Mul(x, g) }",
        "agraph (float16[a,4] x) => (float16[a,4] y) { y = HardSwish(x) }",
        "<float a = {0.16666667}, float b = {0.5}, float c = {0}, float d = {1}> { e = Cast <to = "
        "1> (x) f = Mul(e, a) g = Add(f, b) h = Clip(g, c, d) i = Mul(e, h) y = Cast <to = 10> (i) "
        "}",
    )


class LowerMishPattern(_LowerActivation):
    """Mish(x) → x · n / (n + 2) with n = e · (e + 2) and e = Exp(Min(x, 20))

    What: writes the fraction, which equals Tanh(Log(1 + Exp(x))). The fraction is 1 for x above 20,
    where the square would overflow. 16-bit floats are computed in 32 bits, as in the operator.
    """

    min_opset = 18
    operator = "Mish"

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Mish(x) }",
        "<float a = {20}, float b = {2}> { c = Min(x, a) d = Exp(c) e = Add(d, b) f = Mul(d, e) g "
        "= Add(f, b) h = Div(f, g) y = Mul(x, h) }",
    )


class LowerPReluPattern(_LowerActivation):
    """PRelu(x, slope) → Where(x < 0, x · slope, x)

    What: multiplies negative numbers by the slope, which broadcasts as in the operator.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. the slope is not known to broadcast to the shape of x.
    """

    operand_types = {"x": COMPUTED}  # (1)
    is_wide = False
    # Relu(x) + slope · Min(x, 0) would be NaN for x > 0 and an infinite slope.
    operator = "PRelu"

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not broadcasts_to(g, m.slope, m.x):  # (2)
            return self.none(m.nodes[0], msg="the slope is not known to broadcast to x")
        return super().validate_mapping(g, m)

    examples = Example.pairs(
        "agraph (float[a,3,b] x, float[3,1] s) => (float[a,3,b] y) { y = PRelu(x, s) }",
        "<float a = {0}> { b = Less(x, a) c = Mul(x, s) y = Where(b, c, x) }",
        "agraph (float16[a,4] x, float16[4] s) => (float16[a,4] y) { y = PRelu(x, s) }",
        "<float16 a = {0}> { b = Less(x, a) c = Mul(x, s) y = Where(b, c, x) }",
    )


class LowerSeluPattern(_LowerActivation):
    """Selu(x, alpha, gamma) → gamma · (Relu(x) + alpha · (Exp(Min(x, 0)) - 1))"""

    operator = "Selu"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Selu(x) }",
        "<float a = {0}, float b = {1}, float c = {1.6732632}, float d = {1.050701}> { e = Min(x, "
        "a) f = Exp(e) g = Sub(f, b) h = Relu(x) i = Mul(g, c) j = Add(h, i) y = Mul(j, d) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = Selu <alpha = 2.0, gamma = 1.5> (x) }",
        "<float a = {0}, float b = {1}, float c = {2}, float d = {1.5}> { e = Min(x, a) f = Exp(e) "
        "g = Sub(f, b) h = Relu(x) i = Mul(g, c) j = Add(h, i) y = Mul(j, d) }",
    )


class LowerShrinkPattern(_LowerActivation):
    """Shrink(x, lambd, bias) → Where(x < -lambd, x + bias, Where(x > lambd, x - bias, 0))

    Refuses when:
    1. the type is unknown, not a floating-point type, or has 64 bits: kernels compute in 32 bits.
    2. an attribute is infinite or NaN.
    """

    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)
    definition = "Shrink <lambd: float = 0.5, bias: float = 0.0> (x) => (y)"

    def apply_pattern(self, g: PatternRewriter, values: dict[str, float], **m: Any) -> str:
        dtype, bias, lambd = g.try_infer_type(m["x"]), values["bias"], values["lambd"]
        x = widened(g, m["x"], dtype)
        high = g.op.Sub(x, bias) if bias else x
        low = g.op.Add(x, bias) if bias else x
        upper = g.op.Where(g.op.Greater(x, lambd), high, 0.0)
        return narrowed(g, g.op.Where(g.op.Less(x, -lambd), low, upper), dtype)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Shrink <lambd = 1.5, bias = 1.0> (x) }",
        "<float a = {1}, float b = {1.5}, float c = {0}, float d = {-1.5}> { e = Sub(x, a) f = "
        "Add(x, a) g = Greater(x, b) h = Where(g, e, c) i = Less(x, d) y = Where(i, f, h) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = Shrink(x) }",
        "<float a = {0.5}, float b = {0}, float c = {-0.5}> { d = Greater(x, a) e = Where(d, x, b) "
        "f = Less(x, c) y = Where(f, x, e) }",
    )


class LowerSoftplusPattern(_LowerActivation):
    """Softplus(x) → Relu(x) + Log(1 + Exp(-Abs(x)))

    What: writes the logarithm of w = 1 + u as Log(w) + (u - (w - 1)) / w with u = Exp(-Abs(x)).
    This formula keeps the digits of a small u. 16-bit floats are computed in 32 bits, as in the
    operator.
    """

    operator = "Softplus"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Softplus(x) }",
        "<float a = {1}> { b = Abs(x) c = Neg(b) d = Exp(c) e = Add(d, a) f = Sub(e, a) g = Sub(d, "
        "f) h = Relu(x) i = Log(e) j = Div(g, e) k = Add(i, j) y = Add(h, k) }",
        "agraph (float16[a,4] x) => (float16[a,4] y) { y = Softplus(x) }",
        "<float a = {1}> { b = Cast <to = 1> (x) c = Abs(b) d = Neg(c) e = Exp(d) f = Add(e, a) g "
        "= Sub(f, a) h = Sub(e, g) i = Relu(b) j = Log(f) k = Div(h, f) l = Add(j, k) m = Add(i, "
        "l) y = Cast <to = 10> (m) }",
    )


class LowerSoftsignPattern(_LowerActivation):
    """Softsign(x) → x / (1 + Abs(x))"""

    operator = "Softsign"

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Softsign(x) }",
        "<float a = {1}> { b = Abs(x) c = Add(b, a) y = Div(x, c) }",
    )


class LowerSwishPattern(_LowerActivation):
    """Swish(x, alpha) → x · Sigmoid(alpha · x)"""

    min_opset = 24
    operator = "Swish"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Swish(x) }",
        "{ a = Sigmoid(x) y = Mul(x, a) }",
        "agraph (float16[a,4] x) => (float16[a,4] y) { y = Swish <alpha = 1.5> (x) }",
        "<float a = {1.5}> { b = Cast <to = 1> (x) c = Mul(b, a) d = Sigmoid(c) e = Mul(b, d) "
        "y = Cast <to = 10> (e) }",
        opset=24,
    )


class LowerThresholdedReluPattern(_LowerActivation):
    """ThresholdedRelu(x, alpha) → Where(x > alpha, x, 0)"""

    min_opset = 10
    operator = "ThresholdedRelu"

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = ThresholdedRelu(x) }",
        "<float a = {1}, float b = {0}> { c = Greater(x, a) y = Where(c, x, b) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = ThresholdedRelu <alpha = 0.25> (x) }",
        "<float a = {0.25}, float b = {0}> { c = Greater(x, a) y = Where(c, x, b) }",
    )
