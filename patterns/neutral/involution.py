"""Operators that are their own inverse: Neg and Not."""

from typing import ClassVar

from xoptim.match import Example, PatternBuilder, Symbol

from .identity_operator import _IdentityOperator


class _Involution(_IdentityOperator):
    """An `operator` that is its own inverse.

    Why: two fewer passes over the tensor.
    Refuses when:
    1. (never: the first operator stays if it has other consumers.)
    """

    interior = "keep"
    operator: ClassVar[str]

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return getattr(g.op, self.operator)(getattr(g.op, self.operator)(x))


class NegNegPattern(_Involution):
    """Neg(Neg(x)) → x

    What: drops a pair that cancels, with the same bits even for the smallest integer.
    """

    operator = "Neg"

    examples = Example.only(
        "agraph (float[a] x) => (float[a] y) { t = Neg(x) u = Neg(t) y = Relu(u) }",
        "{ y = Relu(x) }",
    )


class NotNotPattern(_Involution):
    """Not(Not(x)) → x

    What: drops a pair that cancels.
    """

    operator = "Not"

    examples = Example.only(
        "agraph (bool[a] x, bool[a] z) => (bool[a] y) { t = Not(x) u = Not(t) y = And(u, z) }",
        "{ y = And(x, z) }",
    )
