"""Plans to compute an Einsum of one or two tensors by sums, permutations and one MatMul."""

from collections.abc import Mapping, Sequence
from string import ascii_letters
from typing import NamedTuple

from xoptim.facts.dims import Dim, product
from xoptim.facts.errors import Declined
from xoptim.facts.shapes import Shape
from xoptim.match import GraphView

from .._equations import parse
from ._flat import reshape_or_none

_ELLIPSIS = "..."


class Side(NamedTuple):
    """The changes to an operand of the MatMul, in this order.

    Attributes:
        summed: the axes to sum.
        perm: the permutation of a Transpose, ``None`` for none.
        target: the target of a Reshape, ``None`` for none.
    """

    summed: list[int]
    perm: list[int] | None
    target: list[int] | None


class Contraction(NamedTuple):
    """A MatMul of two operands of an equation.

    Attributes:
        order: positions of the left and of the right operand in the equation.
        sides: the changes to the left and the right operand.
        target: the target of a Reshape of the product, ``None`` for none.
        perm: the permutation of a Transpose after the Reshape, ``None`` for none.
    """

    order: tuple[int, int]
    sides: tuple[Side, Side]
    target: list[int] | None
    perm: list[int] | None


def written_out(equation: str, ranks: Sequence[int]) -> str:
    """An equation with letters instead of ellipses, for operands of these ranks."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    if _ELLIPSIS not in equation:
        return terms + arrow + result
    if not arrow:
        once = (c for c in set(terms) - {",", "."} if terms.count(c) == 1)
        result = _ELLIPSIS + "".join(sorted(once))
    free = "".join(c for c in ascii_letters if c not in equation)
    plain = []
    for term, rank in zip(terms.split(","), ranks, strict=False):
        count = rank - len(term.replace(_ELLIPSIS, "")) if _ELLIPSIS in term else 0
        plain.append(term.replace(_ELLIPSIS, _last(free, count)))
    longest = max((sum(c in free for c in term) for term in plain), default=0)
    return ",".join(plain) + "->" + result.replace(_ELLIPSIS, _last(free, longest))


def _last(letters: str, count: int) -> str:
    """The last ``count`` letters: ellipses are aligned at their ends. Empty for ``count`` < 1."""
    return letters[len(letters) - count :] if count > 0 else ""


def terms_of(equation: str, shapes: Sequence[Shape]) -> tuple[list[str], str] | None:
    """The letters of the operands and of the result.

    ``None`` for an equation that `parse` refuses, or that does not fit the ranks.
    """
    letters = parse(written_out(equation, [len(shape) for shape in shapes]), len(shapes))
    if letters is None:
        return None
    fit = all(len(term) == len(shape) for term, shape in zip(letters[0], shapes, strict=True))
    return letters if fit else None


def lengths_of(terms: Sequence[str], shapes: Sequence[Shape]) -> dict[str, Dim] | None:
    """The length for each letter, ``None`` when axes with the same letter may differ."""
    lengths: dict[str, Dim] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for letter, length in zip(term, shape, strict=True):
            if lengths.setdefault(letter, length) != length:
                return None
    return lengths


def summed_alone(term: str, letters: str) -> tuple[list[int], str]:
    """The axes of a term whose labels are not among ``letters``, and the other labels."""
    axes = [place for place, letter in enumerate(term) if letter not in letters]
    return axes, "".join(letter for letter in term if letter in letters)


def permutation_to(letters: str, wanted: str) -> list[int] | None:
    """The permutation that brings letters into the wanted order, ``None`` for the same order."""
    return None if letters == wanted else [letters.index(letter) for letter in wanted]


def contraction(
    g: GraphView, terms: Sequence[str], result: str, lengths: Mapping[str, Dim]
) -> Contraction:
    """The MatMul of two operands over the letters that they share and the result lacks.

    There must be at least one such letter.

    Raises:
        Declined: when a Reshape would need sizes at run time.
    """
    try:
        return _in_order(g, (0, 1), terms, result, lengths)
    except Declined:
        return _in_order(g, (1, 0), terms, result, lengths)


def _in_order(
    g: GraphView,
    order: tuple[int, int],
    terms: Sequence[str],
    result: str,
    lengths: Mapping[str, Dim],
) -> Contraction:
    left, right = (terms[place] for place in order)
    left_axes, left = summed_alone(left, right + result)
    right_axes, right = summed_alone(right, terms[order[0]] + result)
    summed = "".join(c for c in left if c in right and c not in result)
    batch = "".join(c for c in left if c in right and c in result)
    rows = "".join(c for c in left if c not in right)
    columns = "".join(c for c in right if c not in left)
    # Without batch axes, the left operand of MatMul may keep its rows along several axes.
    row_groups = [[c] for c in rows] if rows and not batch else [[*rows]]
    left_groups = [*([c] for c in batch), *row_groups, [*summed]]
    right_groups = [*([c] for c in batch), [*summed], [*columns]]
    shape = tuple(_size(group, lengths) for group in (*left_groups[:-1], right_groups[-1]))
    split = batch + rows + columns
    sides = (
        Side(
            left_axes, permutation_to(left, batch + rows + summed), _joined(g, left_groups, lengths)
        ),
        Side(
            right_axes,
            permutation_to(right, batch + summed + columns),
            _joined(g, right_groups, lengths),
        ),
    )
    target = reshape_or_none(g, shape, tuple(lengths[c] for c in split))
    return Contraction(order, sides, target, permutation_to(split, result))


def _size(group: Sequence[str], lengths: Mapping[str, Dim]) -> Dim:
    return product(lengths[letter] for letter in group)


def _joined(
    g: GraphView, groups: Sequence[Sequence[str]], lengths: Mapping[str, Dim]
) -> list[int] | None:
    """The target of a Reshape that joins the axes of each group, ``None`` for none to join."""
    source = tuple(lengths[letter] for group in groups for letter in group)
    return reshape_or_none(g, source, tuple(_size(group, lengths) for group in groups))
