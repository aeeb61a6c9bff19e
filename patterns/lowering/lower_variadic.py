"""Operators of any number of operands, two at a time."""

from collections.abc import Sequence
from typing import ClassVar

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from ._lowering import HALVES, _Lowering, narrowed, widened


class _LowerVariadic(_Lowering):
    """An `operator` of any number of operands.

    Why: WebGPU and other providers run the operator for two operands at most, or have no kernel.
    Refuses when:
    1. the type is unknown: sums of 16-bit floats are computed in 32 bits.
    2. there are two operands, and `pairwise` is the operator itself.
    """

    min_opset = 8
    operator: ClassVar[str]
    pairwise: ClassVar[str] = "Add"
    derives = ("dtype",)

    def match_pattern(self, g: PatternBuilder) -> Symbol:
        return getattr(g.op, self.operator)(g.variadic("parts", least=1))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype = g.try_infer_type(m.parts[0])
        if not dtype:  # (1)
            return self.none(m.nodes[0], msg="the type is unknown")
        if len(m.parts) == 2 and self.pairwise == self.operator:  # (2)
            return self.none(m.nodes[0], msg="the node has two operands, as the lowered form has")
        return m.derive(dtype=dtype)

    def apply_pattern(self, g: PatternRewriter, parts: Sequence[str], dtype: int) -> str:
        combine = getattr(g.op, self.pairwise)
        result, *remaining = parts
        for part in remaining:
            result = combine(result, part)
        return str(result)


class LowerSumPattern(_LowerVariadic):
    """Sum(a, b, c) → Add(Add(a, b), c)

    What: adds the operands one after the other. Three or more 16-bit floats are added in 32 bits.
    """

    operator = "Sum"

    def apply_pattern(self, g: PatternRewriter, parts: Sequence[str], dtype: int) -> str:
        if len(parts) < 3 or dtype not in HALVES:
            return super().apply_pattern(g, parts, dtype)
        wide = [widened(g, part, dtype) for part in parts]
        return narrowed(g, super().apply_pattern(g, wide, dtype), dtype)

    examples = Example.pairs(
        "agraph (float[a,b] x, float[b] y, float[a,1] z) => (float[a,b] s) { s = Sum(x, y, z) }",
        "{ t = Add(x, y) s = Add(t, z) }",
        "agraph (float16[n] x, float16[n] y, float16[n] z) => (float16[n] s) { s = Sum(x, y, z) }",
        "{ a = Cast <to = 1> (x) b = Cast <to = 1> (y) c = Cast <to = 1> (z) "
        "t = Add(a, b) u = Add(t, c) s = Cast <to = 10> (u) }",
        "agraph (float[a] x) => (float[a] y) { t = Sum(x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class LowerMeanPattern(_LowerVariadic):
    """Mean(a, b, c) → Mul(Add(Add(a, b), c), 1/3)

    What: adds the operands one after the other, and divides by their number. 16-bit floats are
    computed in 32 bits.
    """

    operator = "Mean"

    def apply_pattern(self, g: PatternRewriter, parts: Sequence[str], dtype: int) -> str:
        if len(parts) == 1:
            return parts[0]
        wide = [widened(g, part, dtype) for part in parts]
        total = super().apply_pattern(g, wide, dtype)
        return narrowed(g, g.op.Mul(total, 1 / len(parts)), dtype)

    examples = Example.pairs(
        "agraph (float[a,b] x, float[b] y, float[a,1] z, float[1] w) => (float[a,b] s) { "
        "s = Mean(x, y, z, w) }",
        "<float k = {0.25}> { t = Add(x, y) u = Add(t, z) v = Add(u, w) s = Mul(v, k) }",
        "agraph (float16[n] x, float16[n] y) => (float16[n] s) { s = Mean(x, y) }",
        "<float k = {0.5}> { a = Cast <to = 1> (x) b = Cast <to = 1> (y) t = Add(a, b) "
        "u = Mul(t, k) s = Cast <to = 10> (u) }",
    )


class LowerMaxPattern(_LowerVariadic):
    """Max(a, b, c) → Max(Max(a, b), c)

    What: computes the maximum of two operands at a time.
    """

    operator = "Max"
    pairwise = "Max"

    examples = Example.pairs(
        "agraph (float[a,b] x, float[b] y, float[a,1] z) => (float[a,b] s) { s = Max(x, y, z) }",
        "{ t = Max(x, y) s = Max(t, z) }",
        "agraph (float[a] x) => (float[a] y) { t = Max(x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )


class LowerMinPattern(_LowerVariadic):
    """Min(a, b, c) → Min(Min(a, b), c)

    What: computes the minimum of two operands at a time.
    """

    operator = "Min"
    pairwise = "Min"

    examples = Example.pairs(
        "agraph (int64[a,b] x, int64[b] y, int64[a,1] z) => (int64[a,b] s) { s = Min(x, y, z) }",
        "{ t = Min(x, y) s = Min(t, z) }",
        "agraph (float[a] x) => (float[a] y) { t = Min(x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )
