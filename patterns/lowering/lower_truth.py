"""Operators on Booleans by arithmetic of integers."""

from typing import ClassVar

from onnx import TensorProto

from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering


class _LowerTruth(_Lowering):
    """An `operator` on Booleans.

    Why: for Booleans, some providers have kernels of Cast and Where only.
    Refuses when:
    1. (never: the operator accepts Booleans only, which are 0 and 1 as integers.)
    """

    exactness = "exact"
    min_opset = 7
    operator: ClassVar[str]
    arithmetic: ClassVar[str]

    def match_pattern(self, g: PatternBuilder, x: Symbol, y: Symbol) -> Symbol:
        return getattr(g.op, self.operator)(x, y)

    def apply_pattern(self, g: PatternRewriter, x: str, y: str) -> str:
        a, b = (g.op.Cast(operand, to=TensorProto.INT32) for operand in (x, y))
        return g.op.Cast(getattr(g.op, self.arithmetic)(a, b), to=TensorProto.BOOL)


def _examples(operator: str, arithmetic: str) -> tuple[Example, ...]:
    casts = "a = Cast <to = 6> (x) b = Cast <to = 6> (y)"
    after = f"{{ {casts} t = {arithmetic}(a, b) z = Cast <to = 9> (t) }}"
    return Example.pairs(
        f"agraph (bool[n,m] x, bool[m] y) => (bool[n,m] z) {{ z = {operator}(x, y) }}",
        after,
        f"agraph (bool[n] x, bool y) => (bool[n] z) {{ z = {operator}(x, y) }}",
        after,
    )


class LowerAndPattern(_LowerTruth):
    """And(x, y) → Cast(Cast(x) · Cast(y))

    What: multiplies: the product is 1 if both values are true.
    """

    operator = "And"
    arithmetic = "Mul"
    examples = _examples("And", "Mul")


class LowerOrPattern(_LowerTruth):
    """Or(x, y) → Cast(Cast(x) + Cast(y))

    What: adds: the sum is not 0 if at least one value is true.
    """

    operator = "Or"
    arithmetic = "Add"
    examples = _examples("Or", "Add")


class LowerXorPattern(_LowerTruth):
    """Xor(x, y) → Cast(Cast(x) - Cast(y))

    What: subtracts: the difference is not 0 if exactly one value is true.
    """

    operator = "Xor"
    arithmetic = "Sub"
    examples = _examples("Xor", "Sub")


class LowerNotPattern(_LowerTruth):
    """Not(x) → Cast(1 - Cast(x))

    What: subtracts from 1: the difference is 1 if the value is false.
    """

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:  # type: ignore[override]
        return g.op.Not(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:  # type: ignore[override]
        number = g.op.Cast(x, to=TensorProto.INT32)
        return g.op.Cast(g.op.Sub(1, number), to=TensorProto.BOOL)

    examples = Example.pairs(
        "agraph (bool[n,m] x) => (bool[n,m] z) { z = Not(x) }",
        "<int32 e = {1}> { a = Cast <to = 6> (x) t = Sub(e, a) z = Cast <to = 9> (t) }",
    )
