"""Reductions by ReduceSum, ReduceMax and elementwise operators."""

from math import prod
from typing import Any, ClassVar

import numpy as np

from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import WIDE_FLOATS, _Lowering, narrowed, widened


class _LowerReduction(_Lowering):
    """A reduction by an `operator`.

    Why: several providers have ReduceSum, ReduceMax and ReduceMean only.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    2. the axes are computed at run time.
    """

    operand_types = {"x": WIDE_FLOATS}  # (1)
    min_opset = 13
    operator: ClassVar[str]
    derives: ClassVar[tuple[str, ...]] = ("form", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        reduce = getattr(g.op, self.operator)
        axes = g.capture("axes", optional=True)  # (2)
        return reduce(x, axes=axes, keepdims=g.capture("keepdims"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        form = {"axes": m.axes or None, "keepdims": m.keepdims}
        return m.derive(form=form, dtype=g.try_infer_type(m.x))

    def formula(self, g: PatternRewriter, x: str, form: dict[str, Any]) -> str:
        """The reduction of numbers in at least 32 bits."""
        raise NotImplementedError

    def apply_pattern(self, g: PatternRewriter, x: str, form: dict[str, Any], dtype: int) -> str:
        return narrowed(g, self.formula(g, widened(g, x, dtype), form), dtype)


_START = "agraph (float[n,3,4] x) => (float[n,1,4] y) <int64[1] i = {1}>"
_FLAT = "agraph (float[n,3,4] x) => (float[n,4] y) <int64[1] i = {-2}>"
_ALL = "agraph (float16[n,3] x) => (float16 y)"


class LowerReduceL1Pattern(_LowerReduction):
    """ReduceL1(x) → ReduceSum(Abs(x))

    What: writes the definition; 16-bit floats are added in 32 bits.
    """

    operator = "ReduceL1"

    def formula(self, g: PatternRewriter, x: str, form: dict[str, Any]) -> str:
        return g.op.ReduceSum(g.op.Abs(x), **form)

    examples = Example.pairs(
        f"{_START} {{ y = ReduceL1(x, i) }}",
        "<int64[1] i = {1}> { t = Abs(x) y = ReduceSum(t, i) }",
        f"{_ALL} {{ y = ReduceL1 <keepdims = 0> (x) }}",
        "{ w = Cast <to = 1> (x) t = Abs(w) s = ReduceSum <keepdims = 0> (t) "
        "y = Cast <to = 10> (s) }",
    )


class LowerReduceSumSquarePattern(_LowerReduction):
    """ReduceSumSquare(x) → ReduceSum(x · x)

    What: writes the definition; 16-bit floats are added in 32 bits.
    """

    operator = "ReduceSumSquare"

    def formula(self, g: PatternRewriter, x: str, form: dict[str, Any]) -> str:
        return g.op.ReduceSum(g.op.Mul(x, x), **form)

    examples = Example.pairs(
        f"{_FLAT} {{ y = ReduceSumSquare <keepdims = 0> (x, i) }}",
        "<int64[1] i = {-2}> { t = Mul(x, x) y = ReduceSum <keepdims = 0> (t, i) }",
    )


class LowerReduceL2Pattern(_LowerReduction):
    """ReduceL2(x) → Sqrt(ReduceSum(x · x))

    What: writes the definition; 16-bit floats are added in 32 bits.
    """

    operator = "ReduceL2"

    def formula(self, g: PatternRewriter, x: str, form: dict[str, Any]) -> str:
        return g.op.Sqrt(g.op.ReduceSum(g.op.Mul(x, x), **form))

    examples = Example.pairs(
        f"{_START} {{ y = ReduceL2(x, i) }}",
        "<int64[1] i = {1}> { t = Mul(x, x) s = ReduceSum(t, i) y = Sqrt(s) }",
        f"{_ALL} {{ y = ReduceL2 <keepdims = 0> (x) }}",
        "{ w = Cast <to = 1> (x) t = Mul(w, w) s = ReduceSum <keepdims = 0> (t) r = Sqrt(s) "
        "y = Cast <to = 10> (r) }",
    )


class LowerReduceLogSumPattern(_LowerReduction):
    """ReduceLogSum(x) → Log(ReduceSum(x))

    What: writes the definition; 16-bit floats are added in 32 bits.
    """

    operator = "ReduceLogSum"

    def formula(self, g: PatternRewriter, x: str, form: dict[str, Any]) -> str:
        return g.op.Log(g.op.ReduceSum(x, **form))

    examples = Example.pairs(
        f"{_START} {{ y = ReduceLogSum(x, i) }}",
        "<int64[1] i = {1}> { s = ReduceSum(x, i) y = Log(s) }",
        ranges=(("x", 0.5, 2),),
    )


class LowerReduceMinPattern(_LowerReduction):
    """ReduceMin(x) → Neg(ReduceMax(Neg(x)))

    What: computes the maximum of the negated numbers, and negates the result.
    """

    operator = "ReduceMin"

    def apply_pattern(self, g: PatternRewriter, x: str, form: dict[str, Any], dtype: int) -> str:
        return g.op.Neg(g.op.ReduceMax(g.op.Neg(x), **form))

    examples = Example.pairs(
        f"{_START} {{ y = ReduceMin(x, i) }}",
        "<int64[1] i = {1}> { t = Neg(x) s = ReduceMax(t, i) y = Neg(s) }",
    )


class LowerReduceLogSumExpPattern(_LowerReduction):
    """ReduceLogSumExp(x) → Log(ReduceSum(Exp(x - m))) + m, with m = ReduceMax(x)

    What: first subtracts the largest number, if this number is finite: no exponential overflows
    then.
    """

    operator = "ReduceLogSumExp"

    def formula(self, g: PatternRewriter, x: str, form: dict[str, Any]) -> str:
        axes = form["axes"]
        largest = g.op.ReduceMax(x, axes=axes)
        is_finite = g.op.Less(g.op.Abs(largest), float("inf"))
        shift = g.op.Where(is_finite, largest, 0.0)
        total = g.op.ReduceSum(g.op.Exp(g.op.Sub(x, shift)), axes=axes)
        result = g.op.Add(g.op.Log(total), shift)
        if form["keepdims"]:
            return result
        if axes is None:
            return g.op.Reshape(result, np.zeros(0, np.int64))
        return g.op.Squeeze(result, axes=axes)

    _formula = (
        "a = Abs(m) l = Less(a, k) s = Where(l, m, o) d = Sub(x, s) e = Exp(d) t = ReduceSum(e, i) "
        "g = Log(t)"
    )
    examples = Example.pairs(
        f"{_START} {{ y = ReduceLogSumExp(x, i) }}",
        "<float k = {inf}, float o = {0}, int64[1] i = {1}> { "
        f"m = ReduceMax(x, i) {_formula} y = Add(g, s) }}",
        f"{_FLAT} {{ y = ReduceLogSumExp <keepdims = 0> (x, i) }}",
        "<float k = {inf}, float o = {0}, int64[1] i = {-2}> "
        f"{{ m = ReduceMax(x, i) {_formula} z = Add(g, s) y = Squeeze(z, i) }}",
    )


class LowerReduceMeanPattern(_LowerReduction):
    """ReduceMean(x) → ReduceSum(x) · 1/n

    What: divides the sum by the number of its terms. 16-bit floats are added in 32 bits.
    Why: some providers run ReduceMean for some axes only, or lack the operator.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    2. the axes are computed at run time. Or an axis is not static, or is empty.
    """

    operator = "ReduceMean"
    derives = ("form", "dtype", "count")

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape = g.try_infer_shape(m.x)
        if shape is None or (m.axes and not shape):  # (2)
            return self.none(m.nodes[0], msg="the rank is unknown, or 0 with axes")
        axes = {axis % len(shape) for axis in m.axes or range(len(shape))}
        summed = [shape[axis] for axis in axes]
        lengths = [length for length in summed if isinstance(length, int) and length]
        if len(lengths) < len(summed):  # (2)
            return self.none(m.nodes[0], msg="a reduced dimension is not static, or is 0")
        m.derive(count=prod(lengths))
        return super().validate_mapping(g, m)

    def apply_pattern(  # type: ignore[override]
        self, g: PatternRewriter, x: str, form: dict[str, Any], dtype: int, count: int
    ) -> str:
        total = g.op.ReduceSum(widened(g, x, dtype), **form)
        return narrowed(g, g.op.Mul(total, 1 / count), dtype)

    examples = Example.pairs(
        "agraph (float[n,2,4] x) => (float[n,1,1] y) <int64[2] i = {1, 2}> { "
        "y = ReduceMean(x, i) }",
        "<int64[2] i = {1, 2}, float k = {0.125}> { s = ReduceSum(x, i) y = Mul(s, k) }",
        "agraph (float16[n,4] x) => (float16[n] y) <int64[1] i = {-1}> { "
        "y = ReduceMean <keepdims = 0> (x, i) }",
        "<int64[1] i = {-1}, float k = {0.25}> { w = Cast <to = 1> (x) "
        "s = ReduceSum <keepdims = 0> (w, i) t = Mul(s, k) y = Cast <to = 10> (t) }",
    )
