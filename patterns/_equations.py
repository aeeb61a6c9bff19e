"""The letters of an Einsum, and operands with their axes in another order."""

from collections.abc import Sequence
from typing import NamedTuple


def parse(equation: str, operands: int) -> tuple[list[str], str] | None:
    """The letters of the operands and of the result of an equation such as ``"bij,bjk->bik"``.

    Without arrow the result has the letters that occur once, sorted. ``None`` for an equation for
    another number of operands, with an ellipsis, with a letter twice in one term, or with one in
    the result only.
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
    """The changes to an operand: a permutation (``None`` for none), then axes of length 1 at these
    places.
    """

    perm: list[int] | None
    axes: list[int]


def arrange(letters: str, wanted: Sequence[str]) -> EquationOperand:
    """Bring the axes of an operand into an order.

    Letters that it lacks get axes of length 1, but for leading ones; an empty letter always gets
    one.
    """
    perm = [letters.index(c) for c in wanted if c in letters and c]
    # "" is in every string
    first = next((i for i, c in enumerate(wanted) if c in letters), len(wanted))
    axes = [i for i, c in enumerate(wanted[first:]) if not c or c not in letters]
    return EquationOperand(None if perm == sorted(perm) else perm, axes)
