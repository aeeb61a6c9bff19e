from typing import Any, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float
from xoptim.match import Constant, Example, GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Symbol

from ._bounds import bounds_of
from ._lowering import _Lowering

_DIVIDED: Final = frozenset(
    (
        *(TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16),
        *(TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32),
    )
)


class LowerModPattern(_Lowering):
    """Mod(x, b) → x - Div(x, b) · b

    What: computes the remainder of a division by constants. If integers may be negative, b is added
    to a negative remainder. The quotient of floats is rounded towards 0.
    Why: some runtimes lack the operator.
    Refuses when:
    1. the numbers are neither floats of 16, 32 or 64 bits nor int32, uint32 or int64.
    2. integers are divided by a number that is not constant, or not positive.
    3. floats are divided by numbers other than 1, 2, 4, 8, ...: the remainder would not be exact.
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
        remainder = g.op.Sub(x, g.op.Mul(quotient, b))
        if of_floats or unsigned:
            return remainder
        return g.op.Where(g.op.Less(remainder, 0), g.op.Add(remainder, b), remainder)

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


def _mantissa(numbers: np.ndarray) -> np.ndarray[Any, Any]:
    """The mantissas of positive numbers, 0.5 for powers of two."""
    return np.frexp(numbers.astype(np.float64))[0]
