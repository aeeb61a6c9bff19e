"""The formulas of the Gaussian error linear unit and of its approximations."""

from typing import Any

from onnx import TensorProto

from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol
from xoptim.match.by_definition import LoweringByDefinition
from xoptim.operators.definitions import defined

from ._lowering import COMPUTED


class _LowerGelu(LoweringByDefinition):
    """An operator of ``x``, or of ``x`` plus a bias.

    What: writes the formula. 16-bit floats are computed in 32 bits, as in the operator.
    Why: many runtimes lack the operator.
    Refuses when:
    1. the type is unknown, or has 64 bits: ONNX Runtime's constants have 32 bits (checked by the
       matcher).
    """

    min_opset = 7
    domain = "com.microsoft"
    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)
    is_wide = True


class LowerGeluPattern(_LowerGelu):
    """Gelu(x) → 0.5 · x · (1 + Erf(x / √2))

    What: writes the formula. With approximate="tanh", the formula is 0.5 · x · (1 + Tanh(√(2 / π) ·
    (x + 0.044715 · x³))). The same for com.microsoft.Gelu. 16-bit floats are computed in 32 bits,
    as in the operator.
    """

    min_opset = 9
    operator = "Gelu"

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        x = g.symbol("x")
        if g.option("contrib"):
            return g.op.Gelu(x, domain=self.domain)
        return g.op.Gelu(x, approximate=g.capture("approximate", optional=True))

    def apply_pattern(self, g: PatternRewriter, values: dict[str, Any], **m: Any) -> Any:
        operator = defined(self.domain, "FastGelu" if m.get("approximate") == "tanh" else "Gelu")
        assert operator is not None
        return self.written(g, operator.body, values, {"bias": "", **m})

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = Gelu(x) }",
        "<float a = {0.70710677}, float b = {1}, float c = {0.5}> { d = Mul(x, a) e = Erf(d) f = "
        "Add(e, b) g = Mul(x, c) y = Mul(g, f) }",
        'agraph (float[a,4] x) => (float[a,4] y) { y = Gelu <approximate = "tanh"> (x) }',
        "<float a = {0.035677407}, float b = {0.7978846}, float c = {1}, float d = {0.5}> { e = "
        "Mul(x, x) f = Mul(e, a) g = Add(f, b) h = Mul(x, g) i = Tanh(h) j = Add(i, c) k = Mul(x, "
        "d) y = Mul(k, j) }",
        "agraph (float16[a,4] x) => (float16[a,4] y) { y = Gelu(x) }",
        "<float a = {0.70710677}, float b = {1}, float c = {0.5}> { d = Cast <to = 1> (x) e = "
        "Mul(d, a) f = Erf(e) g = Add(f, b) h = Mul(d, c) i = Mul(h, g) y = Cast <to = 10> (i) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = com.microsoft.Gelu(x) }",
        "<float a = {0.70710677}, float b = {1}, float c = {0.5}> { d = Mul(x, a) e = Erf(d) f = "
        "Add(e, b) g = Mul(x, c) y = Mul(g, f) }",
        opset=20,
    )


class LowerBiasGeluPattern(_LowerGelu):
    """com.microsoft.BiasGelu(x, b) → 0.5 · z · (1 + Erf(z / √2)) with z = x + b"""

    min_opset = 9
    operator = "BiasGelu"

    examples = Example.only(
        "agraph (float[a,4] x, float[4] b) => (float[a,4] y) { y = com.microsoft.BiasGelu(x, b) }",
        "<float a = {0.70710677}, float c = {1}, float d = {0.5}> { e = Add(x, b) f = Mul(e, a) g "
        "= Erf(f) h = Add(g, c) i = Mul(e, d) y = Mul(i, h) }",
    )


class LowerFastGeluPattern(_LowerGelu):
    """com.microsoft.FastGelu(x, b) → 0.5 · z · (1 + Tanh(√(2 / π) · (z + 0.044715 · z³))) with z =
    x + b
    """

    operator = "FastGelu"
    optional = ("bias",)

    examples = Example.pairs(
        "agraph (float[a,4] x, float[4] b) => (float[a,4] y) { y = com.microsoft.FastGelu(x, b) }",
        "<float a = {0.035677407}, float c = {0.7978846}, float d = {1}, float e = {0.5}> { f = "
        "Add(x, b) g = Mul(f, f) h = Mul(g, a) i = Add(h, c) j = Mul(f, i) k = Tanh(j) l = Add(k, "
        "d) m = Mul(f, e) y = Mul(m, l) }",
        "agraph (float[a,b] x) => (float[a,b] y) { y = com.microsoft.FastGelu(x) }",
        "<float a = {0.035677407}, float b = {0.7978846}, float c = {1}, float d = {0.5}> { e = "
        "Mul(x, x) f = Mul(e, a) g = Add(f, b) h = Mul(x, g) i = Tanh(h) j = Add(i, c) k = Mul(x, "
        "d) y = Mul(k, j) }",
    )


class LowerQuickGeluPattern(_LowerGelu):
    """com.microsoft.QuickGelu(x, alpha) → x · Sigmoid(alpha · x)

    Refuses when:
    1. the type is unknown, or has 64 bits: ONNX Runtime's constants have 32 (checked by the
       matcher).
    2. alpha is infinite or NaN.
    """

    operator = "QuickGelu"  # (2)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = com.microsoft.QuickGelu(x) }",
        "<float a = {1.702}> { b = Mul(x, a) c = Sigmoid(b) y = Mul(x, c) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = com.microsoft.QuickGelu <alpha = 1.0> (x) }",
        "{ a = Sigmoid(x) y = Mul(x, a) }",
    )
