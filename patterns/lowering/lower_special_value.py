"""Tests for NaN and infinity by comparisons."""

from typing import ClassVar, Final

from xoptim.facts.dtypes import Exactness
from xoptim.match import Example, GraphView, Match, PatternBuilder, PatternRewriter, Symbol

from ._lowering import WIDE_FLOATS, _Lowering

_INFINITY: Final = float("inf")


class _LowerSpecialValue(_Lowering):
    """A test for a special value.

    Why: WebGPU and other providers lack the operator.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    """

    exactness: ClassVar[Exactness] = "exact"
    min_opset = 11
    operand_types = {"x": WIDE_FLOATS}  # (1)


class LowerIsNaNPattern(_LowerSpecialValue):
    """IsNaN(x) → Not(Equal(x, x))

    What: of all numbers, only NaN does not equal itself.
    """

    priority = 1

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.IsNaN(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:
        return g.op.Not(g.op.Equal(x, x))

    examples = Example.pairs(
        "agraph (float[a] x) => (bool[a] y) { y = IsNaN(x) }",
        "{ t = Equal(x, x) y = Not(t) }",
        "agraph (float16[a] x) => (bool[a] y) { y = IsNaN(x) }",
        "{ t = Equal(x, x) y = Not(t) }",
    )


class LowerIsNaNWherePattern(_LowerSpecialValue):
    """Where(IsNaN(x), a, b) → Where(Equal(x, x), b, a)

    What: compares x with itself, as `LowerIsNaN` does, and exchanges a and b instead of adding a
    Not. Such selections guard a softmax.
    """

    exactness = "rounding"
    interior = "keep"

    def match_pattern(self, g: PatternBuilder, x: Symbol, a: Symbol, b: Symbol) -> Symbol:
        return g.op.Where(g.op.IsNaN(x), a, b)

    def apply_pattern(self, g: PatternRewriter, x: str, a: str, b: str) -> str:
        return g.op.Where(g.op.Equal(x, x), b, a)

    examples = Example.pairs(
        "agraph (float[a,4] x) => (float[a,4] y) <float o = {0}> "
        "{ s = Softmax <axis = -1> (x) t = IsNaN(s) y = Where(t, o, s) }",
        "<float o = {0}> { s = Softmax <axis = -1> (x) t = Equal(s, s) y = Where(t, s, o) }",
        "agraph (float[a] x, int64[a] p, int64 q) => (int64[a] y) { t = IsNaN(x) "
        "y = Where(t, p, q) }",
        "{ t = Equal(x, x) y = Where(t, q, p) }",
    )


class LowerIsInfPattern(_LowerSpecialValue):
    """IsInf(x) → Equal(Abs(x), infinity)

    What: compares with infinity. If the operator detects one sign only, no Abs is needed.
    Refuses when:
    1. the numbers are not floats of 16, 32 or 64 bits.
    2. the operator detects neither sign.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return g.op.IsInf(
            x, detect_positive=g.capture("positive"), detect_negative=g.capture("negative")
        )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not m.positive and not m.negative:  # (2)
            return self.none(m.nodes[0], msg="both detect_positive and detect_negative are 0")
        return True

    def apply_pattern(self, g: PatternRewriter, x: str, positive: int, negative: int) -> str:
        if not negative:
            return g.op.Equal(x, _INFINITY)
        if not positive:
            return g.op.Equal(x, -_INFINITY)
        return g.op.Equal(g.op.Abs(x), _INFINITY)

    examples = Example.pairs(
        "agraph (float[a] x) => (bool[a] y) { t = Log(x) y = IsInf(t) }",
        "<float i = {inf}> { t = Log(x) u = Abs(t) y = Equal(u, i) }",
        "agraph (float[a] x) => (bool[a] y) { t = Log(x) y = IsInf <detect_negative = 0> (t) }",
        "<float i = {inf}> { t = Log(x) y = Equal(t, i) }",
        "agraph (float[a] x) => (bool[a] y) { t = Log(x) y = IsInf <detect_positive = 0> (t) }",
        "<float i = {-inf}> { t = Log(x) y = Equal(t, i) }",
    )
