"""Einsum equations: their letters, and changes of operands to another order of axes."""

from collections.abc import Sequence
from typing import NamedTuple


def parse(equation: str, operands: int) -> tuple[list[str], str] | None:
    """The letters of the operands and of the result of an equation such as ``"bij,bjk->bik"``.

    Without an arrow, the result has the letters that occur once, sorted. ``None`` if the equation
    has another number of operands, an ellipsis, a letter twice in one term, or a letter only in the
    result.
    """
    terms, arrow, result = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    if not arrow:
        result = "".join(sorted(c for c in set(terms) - {","} if terms.count(c) == 1))
    if len(letters) != operands or not all(
        term.isalpha() or not term for term in (*letters, result)
    ):
        return None
    if any(len(set(term)) < len(term) for term in (*letters, result)) or not set(result) <= set(
        "".join(letters)
    ):
        return None
    return letters, result


class EquationOperand(NamedTuple):
    """The changes of an operand.

    Attributes:
        perm: a permutation of its axes; ``None`` for none.
        axes: axes of size 1 to insert after the permutation.
    """

    perm: list[int] | None
    axes: list[int]


def arrange(letters: str, order: Sequence[str]) -> EquationOperand:
    """The changes that bring the axes of an operand into an order of letters.

    A letter that the operand lacks gets an axis of size 1, except leading letters. An empty letter
    always gets one.
    """
    perm = [letters.index(c) for c in order if c in letters and c]
    # The empty letter counts as present: "" is in every string.
    first = next((i for i, c in enumerate(order) if c in letters), len(order))
    axes = [i for i, c in enumerate(order[first:]) if not c or c not in letters]
    return EquationOperand(None if perm == sorted(perm) else perm, axes)
