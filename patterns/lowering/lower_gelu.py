"""The Gaussian error linear unit, exactly and by its approximations, spelled out."""

import math
from typing import Any

from onnx import TensorProto

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import COMPUTED, _Lowering, narrowed, widened


class _LowerGelu(_Lowering):
    """An operator of ``x``, to which a bias may be added.

    What: 16-bit floats are computed in 32 bits, as in the operator.
    Why: many runtimes lack the operator.
    Refuses when:
    1. the type is unknown, or has 64 bits: ONNX Runtime's constants have 32 (checked by the
       matcher).
    """

    min_opset = 7
    operand_types = {"x": COMPUTED - {TensorProto.DOUBLE}}  # (1)
    derives = ("dtype",)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        return m.derive(dtype=g.try_infer_type(m.x))


def by_erf(g: PatternRewriter, x: str) -> str:
    """0.5 · x · (1 + Erf(x / √2))."""
    shifted = g.op.Add(g.op.Erf(g.op.Mul(x, math.sqrt(0.5))), 1.0)
    return g.op.Mul(g.op.Mul(x, 0.5), shifted)


def by_tanh(g: PatternRewriter, x: str) -> str:
    """0.5 · x · (1 + Tanh(√(2 / π) · (x + 0.044715 · x³))), as x · (√(2 / π) + 0.0357 · x²)."""
    root = math.sqrt(2 / math.pi)
    slope = g.op.Add(g.op.Mul(g.op.Mul(x, x), 0.044715 * root), root)
    shifted = g.op.Add(g.op.Tanh(g.op.Mul(x, slope)), 1.0)
    return g.op.Mul(g.op.Mul(x, 0.5), shifted)


def with_bias(g: PatternRewriter, x: str, bias: str, dtype: int) -> str:
    """The sum of the operand and the bias, if there is one, in at least 32 bits."""
    wide = widened(g, x, dtype)
    return g.op.Add(wide, widened(g, bias, dtype)) if bias else wide


class LowerGeluPattern(_LowerGelu):
    """Gelu(x) → 0.5 · x · (1 + Erf(x / √2))

    What: the same for com.microsoft.Gelu. With approximate="tanh" 0.5 · x · (1 + Tanh(√(2 / π) · (x
    + 0.044715 · x³))); 16-bit floats are computed in 32 bits, as in the operator.
    """

    min_opset = 9

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        if g.option("contrib"):
            return g.op.Gelu(x, domain="com.microsoft")
        return g.op.Gelu(x, approximate=g.capture("approximate", optional=True))

    def apply_pattern(self, g: PatternRewriter, x: str, approximate: Any, dtype: int) -> str:
        wide = widened(g, x, dtype)
        form = by_tanh if approximate == "tanh" else by_erf
        return narrowed(g, form(g, wide), dtype)

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

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Symbol) -> Symbol:
        return g.op.BiasGelu(x, b, domain="com.microsoft")

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, dtype: int) -> str:
        return narrowed(g, by_erf(g, with_bias(g, x, b, dtype)), dtype)

    examples = Example.only(
        "agraph (float[a,4] x, float[4] b) => (float[a,4] y) { y = com.microsoft.BiasGelu(x, b) }",
        "<float a = {0.70710677}, float c = {1}, float d = {0.5}> { e = Add(x, b) f = Mul(e, a) g "
        "= Erf(f) h = Add(g, c) i = Mul(e, d) y = Mul(i, h) }",
    )


class LowerFastGeluPattern(_LowerGelu):
    """com.microsoft.FastGelu(x, b) → 0.5 · z · (1 + Tanh(√(2 / π) · (z + 0.044715 · z³))) with z =
    x + b
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Optional) -> Symbol:
        return g.op.FastGelu(x, b, domain="com.microsoft")

    def apply_pattern(self, g: PatternRewriter, x: str, b: str, dtype: int) -> str:
        return narrowed(g, by_tanh(g, with_bias(g, x, b, dtype)), dtype)

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
    2. the factor is infinite or NaN.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        alpha = g.capture("alpha", lambda v: v is None or math.isfinite(v), optional=True)  # (2)
        return g.op.QuickGelu(x, domain="com.microsoft", alpha=alpha)

    def apply_pattern(self, g: PatternRewriter, x: str, alpha: float | None, dtype: int) -> str:
        wide = widened(g, x, dtype)
        factor = 1.702 if alpha is None else alpha
        argument = wide if factor == 1 else g.op.Mul(wide, factor)
        return narrowed(g, g.op.Mul(wide, g.op.Sigmoid(argument)), dtype)

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { y = com.microsoft.QuickGelu(x) }",
        "<float a = {1.702}> { b = Mul(x, a) c = Sigmoid(b) y = Mul(x, c) }",
        "agraph (float[a,4] x) => (float[a,4] y) { y = com.microsoft.QuickGelu <alpha = 1.0> (x) }",
        "{ a = Sigmoid(x) y = Mul(x, a) }",
    )
