"""Single operators instead of two: Abs(Neg(x)), x / Reciprocal(z) and others."""

from typing import ClassVar

from xoptim.facts.dtypes import FLOATS, Exactness
from xoptim.match import Example, GraphView, Match
from xoptim.match.by_definition import FusionByDefinition
from xoptim.match.rewrite import Phase

from .._deductions import keeps_shape


class _ShorterForm(FusionByDefinition):
    """One operator instead of the nodes of its ``definition``."""

    phase: ClassVar[Phase] = "canonicalize"
    exactness: ClassVar[Exactness] = "exact"


class AbsNegPattern(_ShorterForm):
    """Abs(Neg(x)) → Abs(x)

    What: drops a change of sign before Abs.
    Why: one fewer pass over the tensor.
    Refuses when:
    1. (never: a Neg with other consumers stays.)
    """

    interior = "keep"
    definition = "Abs (x) => (y) { t = Neg(x) y = Abs(t) }"

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) y = Abs(t) }", "{ y = Abs(x) }"
    )


class SubNegPattern(_ShorterForm):
    """Neg(Sub(a, b)) → Sub(b, a)

    What: swaps the operands of the subtraction. (The exactness is ``rounding``: a difference of 0
    is +0, and Neg makes it -0.)
    Why: one fewer pass over the result.
    Refuses when:
    1. the difference has other consumers: there would be two subtractions instead of one.
    """

    exactness = "rounding"
    min_opset = 7
    definition = "Sub (b, a) => (y) { t = Sub(a, b) y = Neg(t) }"  # (1)

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Sub(x, z) y = Neg(t) }",
        "{ y = Sub(z, x) }",
    )


class NegAddPattern(_ShorterForm):
    """Add(x, Neg(z)) → Sub(x, z)

    What: subtracts, with the same bits.
    Why: one fewer pass over z, measured 1.6 times as fast on onnxruntime's CPU provider.
    Refuses when:
    1. (never: a Neg with other consumers stays.)
    """

    interior = "keep"
    definition = "Sub (x, z) => (y) { t = Neg(z) y = Add(x, t) }"

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Neg(z) y = Add(t, x) }",
        "{ y = Sub(x, z) }",
    )


class NegSubPattern(_ShorterForm):
    """Sub(x, Neg(z)) → Add(x, z)

    What: adds, with the same bits.
    Why: one fewer pass over z.
    Refuses when:
    1. (never: a Neg with other consumers stays.)
    """

    interior = "keep"
    definition = "Add (x, z) => (y) { t = Neg(z) y = Sub(x, t) }"

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Neg(z) y = Sub(x, t) }",
        "{ y = Add(x, z) }",
    )


class ReciprocalDivPattern(_ShorterForm):
    """x / Reciprocal(z) or x / (1 / z) → x · z

    What: multiplies instead of dividing twice.
    Why: measured 2 times as fast on onnxruntime's CPU provider.
    Refuses when:
    1. z is an integer: 1 / z would be 0, 1 or -1.
    """

    exactness = "rounding"
    interior = "keep"
    min_opset = 7
    operand_types = {"z": FLOATS}  # (1)
    definition = (
        "Mul (x, z) => (y) { o = Constant <value = float {1}> () t = Div(o, z) y = Div(x, t) }"
    )

    examples = Example.only(
        "agraph (float[a,b] x, float[b] z) => (float[a,b] y) { t = Reciprocal(z) y = Div(x, t) }",
        "{ y = Mul(x, z) }",
        ranges=(("z", 0.5, 2.0),),
    )


class ReciprocalMulPattern(_ShorterForm):
    """x · Reciprocal(z) or x · (1 / z) → x / z

    What: divides instead of multiplying by a reciprocal.
    Why: measured 1.5 times as fast on onnxruntime's CPU provider if z has the shape of the result.
    If z is broadcast, it takes 1.4 times as long, since division is slower than multiplication.
    Refuses when:
    1. z is an integer: 1 / z would be 0, 1 or -1.
    2. z is smaller than the result, or a shape is unknown.
    3. the reciprocal has other consumers.
    """

    exactness = "rounding"
    min_opset = 7
    operand_types = {"z": FLOATS}  # (1)
    definition = (  # (3)
        "Div (x, z) => (y) { o = Constant <value = float {1}> () t = Div(o, z) y = Mul(x, t) }"
    )

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        mul = m.nodes[-1]
        if not keeps_shape(g, mul, m.z):  # (2)
            return self.none(mul, msg="the divisor may have to be broadcast")
        return super().validate_mapping(g, m)

    _ranges = (("z", 0.5, 2.0),)
    examples = Example.pairs(
        "agraph (float[a,b] x, float[a,b] z) => (float[a,b] y) { t = Reciprocal(z) y = Mul(t, x) }",
        "{ y = Div(x, z) }",
        "agraph (float[a,b] x, float[a,b] z) => (float[a,b] y) <float one = {1}> { "
        "t = Div(one, z) y = Mul(x, t) }",
        "{ y = Div(x, z) }",
        ranges=_ranges,
    )
