"""One operator instead of the formula of an activation, or instead of an activation and a Mul."""

from typing import Any, ClassVar

from onnx import TensorProto

from xoptim.facts.dtypes import FLOATS, Exactness
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
)
from xoptim.match.pattern import operator_key
from xoptim.match.rewrite import Phase
from xoptim.match.trace import Scalar, Symbol

from .._folding import fits


class _OneOperator(EasyPatternOptimization):
    """A formula of ``x`` that one operator computes: the only entry of `kernels`.

    A pattern may derive the ``attributes`` of this operator.
    """

    phase: ClassVar[Phase] = "specialize"
    exactness: ClassVar[Exactness] = "rounding"

    def apply_pattern(
        self, g: PatternRewriter, x: str, attributes: dict[str, Any] | None = None
    ) -> str:
        ((domain, op_type),) = map(operator_key, self.kernels)
        return str(getattr(g.op, op_type)(x, domain=domain, **(attributes or {})))


def _by_sign(g: PatternBuilder, x: Symbol, otherwise: Symbol) -> Symbol:
    """Where(x > 0, x, otherwise), by any of the four comparisons of x with 0."""
    if g.option("positive"):
        return g.op.Where(
            g.op.Greater(x, 0) if g.option("strict") else g.op.GreaterOrEqual(x, 0), x, otherwise
        )
    return g.op.Where(
        g.op.Less(x, 0) if g.option("strict") else g.op.LessOrEqual(x, 0), otherwise, x
    )


class EluExpPattern(_OneOperator):
    """Where(x > 0, x, a · (Exp(x) - 1)) → Elu(x, alpha=a)

    What: one operator instead of five. The same for x < 0, x ≥ 0 and x ≤ 0, and without a.
    Why: one kernel launch instead of five. On the CPU, Elu was measured to take 1.3 times as long,
    so that the pattern does not run.
    Refuses when:
    1. a is not between 0.001 and 1000, or does not fit the attribute.
    2. the provider has no kernel of Elu for the type.
    """

    min_opset = 9
    providers = ("cuda",)
    kernels = {"Elu": "x"}  # (2)
    derives = ("attributes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Scalar) -> Symbol:
        curve = g.op.Sub(g.op.Exp(x), 1.0)
        bent = g.op.Mul(curve, a) if g.option("factor") else curve
        return _by_sign(g, x, bent)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        alpha = float(g.get_constant_scalar(m.a) or 0) if m.factor else 1.0
        if not 1e-3 < alpha < 1e3 or not fits(g, m.x, alpha):  # (1)
            return self.none(m.nodes[-1], msg=f"the factor {alpha} is out of range for alpha")
        return m.derive(attributes={"alpha": alpha})

    _start, _one = "agraph (float[a,b] x) => (float[a,b] y)", "e = Exp(x) d = Sub(e, one)"
    _constants = "float one = {1}, float z = {0}, float k = {0.5}"
    examples = Example.pairs(
        f"{_start} <{_constants}> {{ c = Greater(x, z) {_one} t = Mul(k, d) y = Where(c, x, t) }}",
        "{ y = Elu <alpha = 0.5> (x) }",
        f"{_start} <{_constants}> {{ c = Less(x, z) {_one} y = Where(c, d, x) }}",
        "{ y = Elu(x) }",
    )


class HardSigmoidPattern(_OneOperator):
    """Clip(x + b, 0, h) / h → HardSigmoid(x, alpha=1/h, beta=b/h)

    What: one operator instead of three. The same for a factor 1/h, and for Clip(x · a + b, 0, 1).
    Why: measured 2.4 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. the result is not clipped to 0 and 1, or a number does not fit the attributes.
    2. the provider has no kernel of HardSigmoid for the type.
    """

    min_opset = 7
    kernels = {"HardSigmoid": "x"}  # (2)
    derives = ("attributes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Scalar, b: Scalar) -> Symbol:
        scale = g.op.Div if g.option("division") else g.op.Mul
        scales_first = g.option("scales_first")
        scaled = scale(x, a) if scales_first else x
        clipped = g.op.Clip(g.op.Add(scaled, b), min=g.capture("low"), max=g.capture("high"))
        return clipped if scales_first else scale(clipped, a)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        factor, shift = (float(g.get_constant_scalar(name) or 0) for name in (m.a, m.b))
        # (1)
        if m.low != 0 or not m.high > 0 or not 1e-6 < abs(factor) < 1e6 or not abs(shift) < 1e6:
            return self.none(m.nodes[-1], msg="the result is not clipped to 0 and 1")
        alpha = 1 / factor if m.division else factor
        scale_to_1 = m.high if m.division else 1 / m.high
        if (m.high != 1) if m.scales_first else not g.close(m.a, scale_to_1):
            return self.none(m.nodes[-1], msg="the result is not clipped to 0 and 1")
        beta = shift if m.scales_first else shift * alpha
        if not fits(g, m.x, alpha, beta):  # (1)
            return self.none(
                m.nodes[-1], msg="alpha or beta would lose precision as a float32 attribute"
            )
        return m.derive(attributes={"alpha": alpha, "beta": beta})

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float three = {3}, float zero = {0}, "
        "float six = {6}> { t = Add(x, three) u = Clip(t, zero, six) y = Div(u, six) }",
        "{ y = HardSigmoid <alpha = 0.16666666666666666, beta = 0.5> (x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float s = {0.25}, float h = {0.5}, "
        "float o = {0}, float i = {1}> { t = Mul(s, x) u = Add(t, h) y = Clip(u, o, i) }",
        "{ y = HardSigmoid <alpha = 0.25, beta = 0.5> (x) }",
    )


class LeakyReluPattern(_OneOperator):
    """Where(x > 0, x, x · s) → LeakyRelu(x, alpha=s)

    What: one operator instead of three. The same for x < 0, x ≥ 0, x ≤ 0, and for Max(x, x · s).
    Why: measured 3.1 times faster on onnxruntime's CPU provider, 1.5 times for Max.
    Refuses when:
    1. the slope is negative or above 1, or does not fit the attribute. Or the slope of the form
       with Max is 0: ∞ · 0 is NaN.
    2. the provider has no kernel of LeakyRelu for the type.
    """

    min_opset = 9
    kernels = {"LeakyRelu": "x"}  # (2)
    derives = ("attributes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, s: Scalar) -> Symbol:
        steep = g.op.Mul(x, s)
        if g.option("maximum"):
            return g.op.Max(x, steep)
        return _by_sign(g, x, steep)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        slope = g.get_constant_scalar(m.s)
        # (1)
        if (
            slope is None
            or not 0 <= slope <= 1
            or (m.maximum and slope == 0)
            or not fits(g, m.x, slope)
        ):
            return self.none(m.nodes[-1], msg=f"the slope {slope} is not in the range for alpha")
        return m.derive(attributes={"alpha": float(slope)})

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float zero = {0}, float s = {0.25}> "
        "{ c = Greater(x, zero) t = Mul(x, s) y = Where(c, x, t) }",
        "{ y = LeakyRelu <alpha = 0.25> (x) }",
        "agraph (float[a,b] x) => (float[a,b] y) <float s = {0.25}> { t = Mul(s, x) "
        "y = Max(t, x) }",
        "{ y = LeakyRelu <alpha = 0.25> (x) }",
    )


class MaxReluPattern(_OneOperator):
    """Max(x, 0) → Relu(x)

    What: writes the maximum as Relu.
    Why: measured 1.4 times faster on onnxruntime's CPU provider, and runtimes fuse Relu with its
    producer.
    Refuses when:
    1. the zero may change the shape of the result by broadcasting (checked for all literals by the
       matcher).
    2. the provider has no kernel of Relu for the type.
    """

    min_opset = 8
    kernels = {"Relu": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.Max(x, 0)  # (1) Max and Relu give NaN for NaN

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) <float zero = {0}> { y = Max(zero, x) }",
        "{ y = Relu(x) }",
        "agraph (int32[a,b] x) => (int32[a,b] y) <int32[1] zero = {0}> { y = Max(x, zero) }",
        "{ y = Relu(x) }",
    )


class SoftplusExpPattern(_OneOperator):
    """Relu(x) + Log(1 + Exp(-Abs(x))) → Softplus(x)

    What: one operator instead of six. The same for Max(x, 0) instead of Relu, and for torch's
    definition Where(x > 20, x, Log(1 + Exp(x))). Log(1 + Exp(x)) alone stays: the result is
    infinite from x = 89 on.
    Why: one kernel launch instead of six. On the CPU, Softplus was measured to take 2.8 times as
    long, so that the pattern does not run.
    Refuses when:
    1. the provider has no kernel of Softplus for the type.
    2. the type is double: beyond 20, Softplus(x) equals x only in float32.
    """

    min_opset = 9
    providers = ("cuda",)
    operand_types = {"x": FLOATS - {TensorProto.DOUBLE}}  # (2)
    kernels = {"Softplus": "x"}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        threshold = g.option("threshold")
        curve = g.op.Log(g.op.Add(g.op.Exp(x if threshold else g.op.Neg(g.op.Abs(x))), 1.0))
        if threshold:
            return g.op.Where(g.op.Greater(x, 20.0), x, curve)
        return g.op.Add(g.op.Relu(x) if g.option("rectifier") else g.op.Max(x, 0.0), curve)

    _start, _after = (
        "agraph (float[a,b] x) => (float[a,b] y)",
        "agraph (float[a,b] x) => (float[a,b] y) { y = Softplus(x) }",
    )
    _stable = (
        "r = Relu(x) a = Abs(x) n = Neg(a) e = Exp(n) s = Add(e, one) l = Log(s) y = Add(r, l)"
    )
    _torch = "c = Greater(x, t) e = Exp(x) s = Add(one, e) l = Log(s) y = Where(c, x, l)"
    examples = Example.pairs(
        f"{_start} <float one = {{1}}> {{ {_stable} }}",
        _after,
        f"{_start} <float one = {{1}}, float t = {{20}}> {{ {_torch} }}",
        _after,
    )


class EluMulPattern(_OneOperator):
    """Elu(x, alpha=a) · k → Selu(x, alpha=a, gamma=k)

    What: one operator instead of two. With `EluExp`, one instead of six.
    Why: saves one pass over the tensor.
    Refuses when:
    1. a or k is not between 0.001 and 1000, or k does not fit the attribute.
    2. the provider has no kernel of Selu for the type.
    """

    min_opset = 7
    kernels = {"Selu": "x"}  # (2)
    derives = ("attributes",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, k: Scalar) -> Symbol:
        # (1)
        return g.op.Mul(g.op.Elu(x, alpha=g.capture("alpha", lambda value: 1e-3 < value < 1e3)), k)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        gamma = float(g.get_constant_scalar(m.k) or 0)
        if not 1e-3 < gamma < 1e3 or not fits(g, m.x, gamma):  # (1)
            return self.none(m.nodes[-1], msg=f"the factor {gamma} is out of range for gamma")
        return m.derive(attributes={"alpha": m.alpha, "gamma": gamma})

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) <float k = {1.5}> { t = Elu <alpha = 2.0> (x) "
        "y = Mul(t, k) }",
        "{ y = Selu <alpha = 2.0, gamma = 1.5> (x) }",
    )


class HardSigmoidMulPattern(_OneOperator):
    """x · HardSigmoid(x, alpha=1/6, beta=0.5) → HardSwish(x)

    What: one operator instead of two.
    Why: saves one pass over the tensor, on providers with a kernel of HardSwish (onnxruntime's CPU
    provider has none).
    Refuses when:
    1. alpha is not 1/6, or beta is not 0.5. Or the type is double, which has more digits than
       attributes.
    2. the provider has no kernel of HardSwish for the type.
    """

    min_opset = 14
    providers = ("cuda",)
    operand_types = {"x": FLOATS - {TensorProto.DOUBLE}}  # (1)
    kernels = {"HardSwish": "x"}  # (2)

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        # Attributes are float32: alpha is 1/6 with a relative error below 1e-6 (1).
        return g.op.Mul(
            x, g.op.HardSigmoid(x, alpha=lambda value: abs(6 * value - 1) < 1e-6, beta=0.5)
        )

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { "
        "t = HardSigmoid <alpha = 0.1666667, beta = 0.5> (x) y = Mul(x, t) }",
        "{ y = HardSwish(x) }",
    )
