"""Operators that take any number of operands, and have one."""

from typing import ClassVar

from xoptim.match import ANY, Example, PatternBuilder, Symbol

from .identity_operator import _IdentityOperator


class _OneOperand(_IdentityOperator):
    """One of some `operators`, with a single operand."""

    operators: ClassVar[tuple[str, ...]]

    def match_pattern(self, g: PatternBuilder, x: Symbol) -> Symbol:
        return getattr(g.op, g.choice("operator", *self.operators))(x, attributes=ANY)  # (1)


class ConcatOnePattern(_OneOperand):
    """Concat(x) → x

    What: drops a Concat with a single operand.
    Why: it copies the whole tensor.
    Refuses when:
    1. there is another operand.
    """

    operators = ("Concat",)

    examples = Example.only(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Concat <axis = -1> (x) y = Relu(t) }", "{ y = Relu(x) }"
    )


class VariadicOnePattern(_OneOperand):
    """Sum(x), Mean(x), Max(x) or Min(x) → x

    What: drops an operator that takes any number of operands and has one.
    Why: it copies the whole tensor.
    Refuses when:
    1. there is another operand.
    """

    operators = ("Sum", "Max", "Min", "Mean")

    examples = Example.pairs(
        "agraph (float[a,b] x) => (float[a,b] y) { t = Sum(x) y = Relu(t) }",
        "{ y = Relu(x) }",
        "agraph (float[a,b] x) => (float[a,b] y) { t = Min(x) y = Relu(t) }",
        "{ y = Relu(x) }",
    )
