"""Equations of Einsum, and plans to compute a product of two tensors by MatMul."""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple


def parse(equation: str, operands: int) -> tuple[list[str], str] | None:
    """The letters of the operands and of the result of an equation such as ``"bij,bjk->bik"``.

    Without arrow the result has the letters that occur once, sorted. ``None`` for an equation for another number of operands,
    with an ellipsis, with a letter twice in one term, or with one in the result only.
    """
    terms, arrow, result = equation.replace(" ", "").partition("->")
    letters = terms.split(",")
    if not arrow:
        result = "".join(sorted(c for c in set(terms) - {","} if terms.count(c) == 1))
    if len(letters) != operands or not all(term.isalpha() or not term for term in (*letters, result)):
        return None
    if any(len(set(term)) < len(term) for term in (*letters, result)) or not set(result) <= set("".join(letters)):
        return None
    return letters, result


class Operand(NamedTuple):
    """The changes to an operand: a permutation (``None`` for none), then axes of length 1 at these places."""

    perm: list[int] | None
    axes: list[int]


class Product(NamedTuple):
    """How to do a product by MatMul.

    Attributes:
        order: positions of the left and of the right operand in the equation.
        operands: the changes to the left and the right one.
        broadcast: letters of axes along which MatMul repeats an operand, which onnxruntime cannot when the length is 0.
        squeeze: axis of the product to drop, if any.
        perm: permutation of the remaining axes, ``None`` for none.
        cost: number of nodes besides MatMul, permutations counted several times.
    """

    order: tuple[int, int]
    operands: tuple[Operand, Operand]
    broadcast: str
    squeeze: int | None
    perm: list[int] | None
    cost: int


PERMUTATION_COST = 4


def arrange(letters: str, wanted: Sequence[str]) -> Operand:
    """Bring the axes of an operand into an order.

    Letters that it lacks get axes of length 1, but for leading ones; an empty letter always gets one.
    """
    perm = [letters.index(c) for c in wanted if c in letters and c]
    first = next((i for i, c in enumerate(wanted) if c in letters), len(wanted))  # "" is in every string
    axes = [i for i, c in enumerate(wanted[first:]) if not c or c not in letters]
    return Operand(None if perm == sorted(perm) else perm, axes)


def products(letters: Sequence[str], result: str, constant: Sequence[bool]) -> Iterator[Product]:
    """All ways to do a product of two tensors, given by their letters, by one MatMul; changes to constants cost nothing."""
    a, b = letters
    summed = [c for c in a if c in b and c not in result]
    if len(summed) != 1 or set(a + b) - set(result) != set(summed):
        return
    k = summed[0]
    for order in ((0, 1), (1, 0)):
        left, right = letters[order[0]], letters[order[1]]
        rows = [c for c in left if c not in right] or [""]
        columns = [c for c in right if c not in left] or [""]
        for m, n in itertools.product(rows, columns):
            if m or n:
                yield _product(order, (left, right), (k, m, n), result, constant)


def _product(
    order: tuple[int, int], letters: tuple[str, str], roles: tuple[str, str, str], result: str, constant: Sequence[bool]
) -> Product:
    k, m, n = roles
    batch = [c for c in result if c not in (m, n)]
    operands = arrange(letters[0], [*batch, m, k]), arrange(letters[1], [*batch, k, n])
    squeeze = None if m and n else len(batch) + bool(m)
    lacking = [{c for c in batch if c not in term} for term in letters]
    if len(lacking[1]) == len(batch):  # a matrix on the right is not repeated
        lacking[1] = set()
    given = [c for c in (*batch, m, n) if c]
    perm = [given.index(c) for c in result]
    turned = perm != sorted(perm)
    cost = PERMUTATION_COST * turned + (squeeze is not None)
    for place, operand in zip(order, operands, strict=True):
        if not constant[place]:
            cost += PERMUTATION_COST * (operand.perm is not None) + bool(operand.axes)
    return Product(order, operands, "".join(lacking[0] | lacking[1]), squeeze, perm if turned else None, cost)
