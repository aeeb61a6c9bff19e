"""Operators on numbers by arithmetic."""

from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import bits, is_float, numpy_dtype
from xoptim.match import (
    Constant,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)
from xoptim.match.trace import Scalar

from ._bounds import bounds_of
from ._lowering import WIDE_FLOATS, _Lowering, narrowed, widened

_DIVIDED: Final = frozenset(
    (
        *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16),
        *(TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32),
    )
)
_LONGEST = 1 << 12
"""Longer rows are left to a runtime that has the operator: twelve steps of four nodes are many."""


class _LowerArithmetic(_Lowering):
    """An operator on numbers."""


class LowerModPattern(_LowerArithmetic):
    """Mod(x, b) → x - Div(x, b) · b

    What: the remainder of a division by constants. Where integers may be negative, b is added to a
    negative remainder; the quotient of floats is rounded towards 0.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the type is not one of 32 or 64 bits, or 16-bit floats.
    2. integers are divided by a number that is not constant, or not positive.
    3. floats are divided by numbers that are not powers of two from 1 on: the remainder would not
       be exact.
    4. the remainder of integers has the sign of x, not of b.
    """

    min_opset = 13
    operand_types = {"x": _DIVIDED}  # (1)
    derives = ("of_floats", "unsigned")

    def match_pattern(self, g: PatternBuilder, x: Symbol, b: Constant) -> Symbol:
        return g.op.Mod(x, b, fmod=g.capture("fmod"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        divisors = g.get_computed_constant(m.b)
        if divisors is None or not (divisors > 0).all():  # (2)
            return self.none(m.nodes[0], msg="a divisor is not constant, or not positive")
        dtype = g.try_infer_type(m.x)
        if is_float(dtype):
            is_exact = bool((_mantissa(divisors) == 0.5).all() and (divisors >= 1).all())
            if not is_exact:  # (3)
                return self.none(m.nodes[0], msg="a divisor is not a constant power of two")
            return m.derive(of_floats=True, unsigned=False)
        if m.fmod:  # (4)
            return self.none(m.nodes[0], msg="the remainder has the sign of x (fmod=1)")
        bounds = bounds_of(g, m.x)
        is_positive = bounds is not None and bounds.low >= 0
        return m.derive(of_floats=False, unsigned=is_positive or dtype == TensorProto.UINT32)

    def apply_pattern(
        self, g: PatternRewriter, x: str, b: str, of_floats: bool, unsigned: bool
    ) -> str:
        quotient = g.op.Div(x, b)
        if of_floats:
            ceil, floor = g.op.Ceil(quotient), g.op.Floor(quotient)
            quotient = g.op.Where(g.op.Less(quotient, 0.0), ceil, floor)
        rest = g.op.Sub(x, g.op.Mul(quotient, b))
        if of_floats or unsigned:
            return rest
        return g.op.Where(g.op.Less(rest, 0), g.op.Add(rest, b), rest)

    examples = Example.pairs(
        "agraph (int64[a] x) => (int64[a] y) <int64 b = {7}> { y = Mod(x, b) }",
        "<int64 b = {7}, int64 o = {0}> { q = Div(x, b) p = Mul(q, b) r = Sub(x, p) "
        "n = Less(r, o) s = Add(r, b) y = Where(n, s, r) }",
        "agraph (uint32[a,2] x) => (uint32[a,2] y) <uint32[2] b = {7, 8}> { y = Mod(x, b) }",
        "<uint32[2] b = {7, 8}> { q = Div(x, b) p = Mul(q, b) y = Sub(x, p) }",
        "agraph (float[a,4] x) => (int64[1] y) <int64 b = {7}> { "
        "s = Shape <start = 0, end = 1> (x) y = Mod(s, b) }",
        "<int64 b = {7}> { s = Shape <start = 0, end = 1> (x) q = Div(s, b) p = Mul(q, b) "
        "y = Sub(s, p) }",
        "agraph (float[a] x) => (float[a] y) <float b = {1}> { y = Mod <fmod = 1> (x, b) }",
        "<float b = {1}, float o = {0}> { q = Div(x, b) c = Ceil(q) f = Floor(q) n = Less(q, o) "
        "t = Where(n, c, f) p = Mul(t, b) y = Sub(x, p) }",
    )


class LowerBitShiftPattern(_LowerArithmetic):
    """BitShift(x, n, direction="LEFT") → Mul(x, 2^n), BitShift(x, n, direction="RIGHT") → Div(x,
    2^n)

    What: multiplies or divides by powers of two; the bits beyond the size of the type are lost in
    both forms.
    Why: some runtimes lack operators on bits.
    Refuses when:
    1. the numbers of bits are not constants, or one is not smaller than the number of bits of the
       type.
    """

    exactness = "exact"
    min_opset = 11
    derives = ("factor",)

    def match_pattern(self, g: PatternBuilder, x: Symbol, n: Constant) -> Symbol:
        return g.op.BitShift(x, n, direction=g.capture("direction"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        dtype, amounts = g.try_infer_type(m.n), g.get_computed_constant(m.n)
        if amounts is None or not (amounts < bits(dtype)).all():  # (1)
            return self.none(
                m.nodes[0],
                msg="the shift is not constant, or not smaller than the bits of the type",
            )
        return m.derive(factor=np.left_shift(np.ones((), numpy_dtype(dtype)), amounts))

    def apply_pattern(self, g: PatternRewriter, x: str, direction: str, factor: np.ndarray) -> str:
        return g.op.Mul(x, factor) if direction == "LEFT" else g.op.Div(x, factor)

    examples = Example.pairs(
        'agraph (uint32[a] x) => (uint32[a] y) <uint32 n = {3}> { y = BitShift <direction = "LEFT">'
        " (x, n) }",
        "<uint32 f = {8}> { y = Mul(x, f) }",
        "agraph (uint8[a,2] x) => (uint8[a,2] y) <uint8[2] n = {1, 7}> { y = BitShift <direction ="
        ' "RIGHT"> (x, n) }',
        "<uint8[2] f = {2, 128}> { y = Div(x, f) }",
    )


class LowerCumSumPattern(_LowerArithmetic):
    """CumSum(x) → x + shift of it by 1, + shift of the sum by 2, + shift of that by 4, ...

    What: adds rows that are moved by growing distances: ten steps for a row of 1000. A MatMul with
    a triangular matrix would spread NaN and infinity over the row.
    Why: several providers have no kernel of CumSum.
    Refuses when:
    1. the axis is not constant or not static, or longer than 4096.
    2. the type is unknown.
    """

    min_opset = 13
    derives = ("place", "rank", "length", "dtype")

    def match_pattern(self, g: PatternBuilder, x: Symbol, axis: Scalar) -> Symbol:
        return g.op.CumSum(x, axis, exclusive=g.capture("exclusive"), reverse=g.capture("reverse"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        shape, axis = g.try_infer_shape(m.x), g.get_constant_scalar(m.axis)
        if not shape or not isinstance(axis, int):  # (1)
            return self.none(m.nodes[0], msg="the rank or the axis is unknown")
        length = shape[axis % len(shape)]
        if not isinstance(length, int) or not 1 <= length <= _LONGEST:  # (1)
            return self.none(m.nodes[0], msg="the axis is not static, or longer than 4096")
        dtype = g.try_infer_type(m.x)
        if not dtype:  # (2)
            return self.none(m.nodes[0], msg="the type is unknown")
        return m.derive(place=axis % len(shape), rank=len(shape), length=length, dtype=dtype)

    def apply_pattern(
        self,
        g: PatternRewriter,
        x: str,
        place: int,
        rank: int,
        length: int,
        dtype: int,
        exclusive: int,
        reverse: int,
    ) -> str:
        def shifted(row: str, distance: int) -> str:
            starts, ends = (distance, length) if reverse else (0, length - distance)
            kept = g.op.Slice(row, starts=[starts], ends=[ends], axes=[place])
            pads = [0] * 2 * rank
            pads[place + rank * bool(reverse)] = distance
            return g.op.Pad(kept, pads=pads)

        result = widened(g, x, dtype)
        if exclusive:
            result = shifted(result, 1)
        distance = 1
        while distance < length:
            result = g.op.Add(result, shifted(result, distance))
            distance *= 2
        return narrowed(g, result, dtype)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (float[n,4] y) <int64 a = {-1}> { y = CumSum(x, a) }",
        "<int64[1] o = {0}, int64[1] k = {1}, int64[1] e = {3}, int64[1] f = {2}, "
        "int64[4] p = {0, 1, 0, 0}, int64[4] q = {0, 2, 0, 0}> { s = Slice(x, o, e, k) "
        "t = Pad(s, p) u = Add(x, t) v = Slice(u, o, f, k) w = Pad(v, q) y = Add(u, w) }",
        "agraph (int64[2,n] x) => (int64[2,n] y) <int64 a = {0}> { "
        "y = CumSum <exclusive = 1, reverse = 1> (x, a) }",
        "<int64[1] o = {0}, int64[1] k = {1}, int64[1] e = {2}, int64[4] p = {0, 0, 1, 0}> "
        "{ r = Slice(x, k, e, o) m = Pad(r, p) s = Slice(m, k, e, o) t = Pad(s, p) y = Add(m, t) }",
    )


class LowerArgMinPattern(_LowerArithmetic):
    """ArgMin(x) → ArgMax(Neg(x))

    What: looks for the largest of the opposite numbers.
    Why: some providers have ArgMax only.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits: the smallest integer has no opposite number.
    """

    operand_types = {"x": WIDE_FLOATS}  # (1)
    exactness = "exact"
    min_opset = 13

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.ArgMin(x, attributes=g.capture("form"))

    def apply_pattern(self, g: PatternRewriter, x: str, form: dict[str, int]) -> str:
        return g.op.ArgMax(g.op.Neg(x), **form)

    examples = Example.pairs(
        "agraph (float[n,4] x) => (int64[n,1] y) { y = ArgMin <axis = -1> (x) }",
        "{ t = Neg(x) y = ArgMax <axis = -1> (t) }",
        "agraph (float[n,4] x) => (int64[4] y) { "
        "y = ArgMin <keepdims = 0, select_last_index = 1> (x) }",
        "{ t = Neg(x) y = ArgMax <keepdims = 0, select_last_index = 1> (t) }",
    )


def _mantissa(numbers: np.ndarray) -> np.ndarray[Any, Any]:
    """The mantissas of positive numbers, 0.5 for powers of two."""
    return np.frexp(numbers.astype(np.float64))[0]
