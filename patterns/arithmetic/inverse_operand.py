from typing import ClassVar

from xoptim.facts.dtypes import FLOATS
from xoptim.match import (
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._deductions import keeps_shape


class _InverseOperand(EasyPatternOptimization):
    """An `operator` of x and the inverse of z, which equals the `other` operator of x and z."""

    operator: ClassVar[str]
    other: ClassVar[str]

    def inverse(self, g: PatternBuilder, z: Symbol) -> Symbol:
        """The inverse of an operand."""
        return g.op.Neg(z)

    def match_pattern(self, g: PatternBuilder, x: Symbol, z: Symbol) -> Symbol:
        return getattr(g.op, self.operator)(x, self.inverse(g, z))

    def apply_pattern(self, g: PatternRewriter, x: str, z: str) -> str:
        return str(getattr(g.op, self.other)(x, z))


class NegAddPattern(_InverseOperand):
    """Add(x, Neg(z)) → Sub(x, z)

    What: subtracts, which is the same to the last bit.
    Why: measured 1.6 times faster on onnxruntime's CPU provider: one pass over z less.
    Refuses when:
    1. (never: Neg stays where it has other consumers.)
    """

    interior = "keep"
    operator, other = "Add", "Sub"

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Neg(z) y = Add(t, x) }",
        "{ y = Sub(x, z) }",
    )


class NegSubPattern(_InverseOperand):
    """Sub(x, Neg(z)) → Add(x, z)

    What: adds, which is the same to the last bit.
    Why: one pass over z less.
    Refuses when:
    1. (never: Neg stays where it has other consumers.)
    """

    interior = "keep"
    operator, other = "Sub", "Add"

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Neg(z) y = Sub(x, t) }",
        "{ y = Add(x, z) }",
    )


class _Reciprocal(_InverseOperand):
    """An operator of a reciprocal."""

    exactness = "rounding"
    min_opset = 7
    operand_types = {"z": FLOATS}  # (1)

    def inverse(self, g: PatternBuilder, z: Symbol) -> Symbol:
        return g.op.Reciprocal(z) if g.option("reciprocal") else g.op.Div(1.0, z)


class ReciprocalDivPattern(_Reciprocal):
    """x / Reciprocal(z) or x / (1 / z) → x · z

    What: multiplies.
    Why: measured 2 times faster on onnxruntime's CPU provider.
    Refuses when:
    1. z is an integer: 1 / z is 0 or 1 then.
    """

    interior = "keep"
    operator, other = "Div", "Mul"

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Reciprocal(z) y = Div(x, t) }",
        "{ y = Mul(x, z) }",
        ranges=(("z", 0.5, 2.0),),
    )


class ReciprocalMulPattern(_Reciprocal):
    """x · Reciprocal(z) or x · (1 / z) → x / z

    What: divides.
    Why: measured 1.5 times faster on onnxruntime's CPU provider where z is as large as the result,
    1.4 times slower where it is broadcast: division is slower than multiplication.
    Refuses when:
    1. z is an integer: 1 / z is 0 or 1 then.
    2. z is smaller than the result, or a shape is unknown.
    3. the reciprocal has other consumers.
    """

    operator, other = "Mul", "Div"  # (3)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        mul = m.nodes[-1]
        # (2)
        return keeps_shape(g, mul, m.z) or self.none(
            mul, msg="the divisor may have to be broadcast"
        )

    _ranges = (("z", 0.5, 2.0),)
    examples = Example.pairs(
        "agraph (float[a,b] x, float[a,b] z) => (float[a,b] y) { t = Reciprocal(z) y = Mul(t, x) }",
        "{ y = Div(x, z) }",
        "agraph (float[a,b] x, float[a,b] z) => (float[a,b] y) <float one = {1}> { "
        "t = Div(one, z) y = Mul(x, t) }",
        "{ y = Div(x, z) }",
        ranges=_ranges,
    )
