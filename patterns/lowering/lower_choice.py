"""Min, Max and Abs of integers by a comparison and Where."""

from typing import ClassVar, Final

from onnx import TensorProto

from xoptim.match import Example, PatternBuilder, PatternRewriter, Symbol

from ._lowering import _Lowering

_INTEGERS: Final = frozenset((TensorProto.INT32, TensorProto.INT64))


class _LowerChoice(_Lowering):
    """An `operator` of integers, written with a comparison and Where.

    Why: WebGPU has the operator for floats only, or not at all.
    Refuses when:
    1. the elements are not integers of 32 or 64 bits: comparisons with NaN are false.
    """

    exactness = "exact"
    min_opset = 12
    operator: ClassVar[str]
    comparison: ClassVar[str]
    operand_types: ClassVar = {"x": _INTEGERS}  # (1)

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        result: Symbol = getattr(g.op, self.operator)(x, z)
        return result

    def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
        return g.op.Where(getattr(g.op, self.comparison)(x, z), x, z)


class LowerIntegerMinPattern(_LowerChoice):
    """Min(x, z) of integers → Where(x < z, x, z)

    What: selects the smaller number.
    """

    operator = "Min"
    comparison = "Less"

    examples = Example.only(
        "agraph (int64[a,b] x, int64[b] z) => (int64[a,b] y) { y = Min(x, z) }",
        "{ c = Less(x, z) y = Where(c, x, z) }",
    )


class LowerIntegerMaxPattern(_LowerChoice):
    """Max(x, z) of integers → Where(x > z, x, z)

    What: selects the larger number.
    """

    operator = "Max"
    comparison = "Greater"

    examples = Example.only(
        "agraph (int32[a,b] x, int32[b] z) => (int32[a,b] y) { y = Max(x, z) }",
        "{ c = Greater(x, z) y = Where(c, x, z) }",
    )


class LowerIntegerAbsPattern(_LowerChoice):
    """Abs(x) of integers → Where(x < 0, -x, x)

    What: negates negative numbers. The lowest integer of a type is its own negative in both forms.
    """

    operator = "Abs"

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:  # type: ignore[override]
        return g.op.Abs(x)

    def apply_pattern(self, g: PatternRewriter, x: str) -> str:  # type: ignore[override]
        return g.op.Where(g.op.Less(x, 0), g.op.Neg(x), x)

    examples = Example.only(
        "agraph (int32[a,b] x) => (int32[a,b] y) { y = Abs(x) }",
        "<int32 z = {0}> { c = Less(x, z) n = Neg(x) y = Where(c, n, x) }",
    )
