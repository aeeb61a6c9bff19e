"""Activations, spelled out."""

import math
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import COMPUTED, _Lowering, narrowed, widened


class _LowerActivation(_Lowering):
    """An `operator` of one tensor, with attributes that are `numbers`, written with the operators
    of its formula.

    What: 16-bit floats are computed in 32 bits, as the operator does it.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the type is unknown (checked by the matcher).
    2. an attribute is infinite or NaN.
    """

    min_opset = 9
    operand_types = {"x": COMPUTED}  # (1)
    operator: ClassVar[str]
    domain: ClassVar[str] = ""
    numbers: ClassVar[dict[str, float]] = {}
    """The attributes, with their defaults."""

    derives = ("dtype", "values")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        values = {name: g.capture(name, optional=True) for name in self.numbers}
        result: Symbol = getattr(g.op, self.operator)(x, domain=self.domain, **values)
        return result

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        written = {name: m.get(name) for name in self.numbers}
        values = {name: self.numbers[name] if v is None else v for name, v in written.items()}
        if not all(map(math.isfinite, values.values())):  # (2)
            return self.none(m.nodes[0], msg="an attribute is infinite or NaN")
        return m.derive(dtype=g.try_infer_type(m.x), values=values)

    def apply_pattern(
        self, g: PatternRewriter, x: str, dtype: int, values: dict[str, float]
    ) -> str:
        return narrowed(g, self.formula(g, widened(g, x, dtype), **values), dtype)

    def formula(self, g: PatternRewriter, x: str, *args: Any, **values: Any) -> str:
        """The result for a tensor ``x`` of at least 32 bits, with the values of the attributes."""
        raise NotImplementedError


def scaled(g: PatternRewriter, x: str, factor: float) -> str:
    """The product of a tensor and a number, which is not written when it is 1."""
    return x if factor == 1 else g.op.Mul(x, factor)


def elu(g: PatternRewriter, x: str, alpha: float) -> str:
    """The number where it is positive, alpha · (Exp(x) - 1) elsewhere."""
    curve = g.op.Sub(g.op.Exp(g.op.Min(x, 0.0)), 1.0)
    return g.op.Add(g.op.Relu(x), scaled(g, curve, alpha))


class LowerCeluPattern(_LowerActivation):
    """Celu(x, alpha) → Relu(x) + alpha · (Exp(Min(x, 0) / alpha) - 1)"""

    min_opset = 12
    operator = "Celu"
    numbers = {"alpha": 1.0}

    def formula(self, g: PatternRewriter, x: str, alpha: float = 1.0) -> str:
        negative = g.op.Min(x, 0.0)
        exponent = negative if alpha == 1 else g.op.Div(negative, alpha)
        curve = g.op.Sub(g.op.Exp(exponent), 1.0)
        return g.op.Add(g.op.Relu(x), scaled(g, curve, alpha))

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
    numbers = {"alpha": 1.0}

    def formula(self, g: PatternRewriter, x: str, alpha: float = 1.0) -> str:
        return elu(g, x, alpha)

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
    numbers = {"alpha": 0.2, "beta": 0.5}

    def formula(self, g: PatternRewriter, x: str, alpha: float = 0.2, beta: float = 0.5) -> str:
        return g.op.Clip(g.op.Add(scaled(g, x, alpha), beta), min=0.0, max=1.0)

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

    min_opset = 14
    operator = "HardSwish"

    def formula(self, g: PatternRewriter, x: str) -> str:
        # ONNX defines the operator by an attribute of 32 bits, in all types.
        line = g.op.Add(g.op.Mul(x, float(np.float32(1 / 6))), 0.5)
        return g.op.Mul(x, g.op.Clip(line, min=0.0, max=1.0))

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

    What: the fraction is Tanh(Log(1 + Exp(x))), and 1 beyond 20, where the square would overflow;
    16-bit floats are computed in 32 bits, as the operator does it.
    """

    min_opset = 18
    operator = "Mish"

    def formula(self, g: PatternRewriter, x: str) -> str:
        e = g.op.Exp(g.op.Min(x, 20.0))
        n = g.op.Mul(e, g.op.Add(e, 2.0))
        return g.op.Mul(x, g.op.Div(n, g.op.Add(n, 2.0)))

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Mish(x) }",
        "<float a = {20}, float b = {2}> { c = Min(x, a) d = Exp(c) e = Add(d, b) f = Mul(d, e) g "
        "= Add(f, b) h = Div(f, g) y = Mul(x, h) }",
    )


class LowerSeluPattern(_LowerActivation):
    """Selu(x, alpha, gamma) → gamma · (Relu(x) + alpha · (Exp(Min(x, 0)) - 1))"""

    operator = "Selu"
    numbers = {"alpha": 1.67326319217681884765625, "gamma": 1.05070102214813232421875}

    def formula(self, g: PatternRewriter, x: str, alpha: float = 1.0, gamma: float = 1.0) -> str:
        return scaled(g, elu(g, x, alpha), gamma)

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
    1. the type is unknown, not one of floating-point numbers, or has 64 bits: kernels compute in
       32.
    2. an attribute is infinite or NaN.
    """

    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)
    operator = "Shrink"
    numbers = {"lambd": 0.5, "bias": 0.0}

    def formula(self, g: PatternRewriter, x: str, lambd: float = 0.5, bias: float = 0.0) -> str:
        high = g.op.Sub(x, bias) if bias else x
        low = g.op.Add(x, bias) if bias else x
        upper = g.op.Where(g.op.Greater(x, lambd), high, 0.0)
        return g.op.Where(g.op.Less(x, -lambd), low, upper)

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

    What: the logarithm of w = 1 + u as Log(w) + (u - (w - 1)) / w, which keeps the digits of a
    small u; 16-bit floats are computed in 32 bits, as the operator does it.
    """

    operator = "Softplus"

    def formula(self, g: PatternRewriter, x: str) -> str:
        u = g.op.Exp(g.op.Neg(g.op.Abs(x)))
        w = g.op.Add(u, 1.0)
        lost = g.op.Sub(u, g.op.Sub(w, 1.0))
        return g.op.Add(g.op.Relu(x), g.op.Add(g.op.Log(w), g.op.Div(lost, w)))

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

    def formula(self, g: PatternRewriter, x: str) -> str:
        return g.op.Div(x, g.op.Add(g.op.Abs(x), 1.0))

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Softsign(x) }",
        "<float a = {1}> { b = Abs(x) c = Add(b, a) y = Div(x, c) }",
    )


class LowerSwishPattern(_LowerActivation):
    """Swish(x, alpha) → x · Sigmoid(alpha · x)"""

    min_opset = 24
    operator = "Swish"
    numbers = {"alpha": 1.0}

    def formula(self, g: PatternRewriter, x: str, alpha: float = 1.0) -> str:
        return g.op.Mul(x, g.op.Sigmoid(scaled(g, x, alpha)))

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
    numbers = {"alpha": 1.0}

    def formula(self, g: PatternRewriter, x: str, alpha: float = 1.0) -> str:
        return g.op.Where(g.op.Greater(x, alpha), x, 0.0)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = ThresholdedRelu(x) }",
        "<float a = {1}, float b = {0}> { c = Greater(x, a) y = Where(c, x, b) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = ThresholdedRelu <alpha = 0.25> (x) }",
        "<float a = {0.25}, float b = {0}> { c = Greater(x, a) y = Where(c, x, b) }",
    )
