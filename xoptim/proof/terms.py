"""Products under sums, as tuples: their names, their order, and their text."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from xoptim.facts.dims import Dim
from xoptim.facts.symbolic import SymbolicDim, order_of
from xoptim.proof.indices import symbols_of

if TYPE_CHECKING:
    from xoptim.proof.elements import Argument, Factor, Number, Term

_Place: TypeAlias = tuple[str, int, tuple[int, ...]]
"""The kind of a factor, its power, and its arguments in which an index occurs."""


def free_names(term: Term) -> frozenset[str]:
    """The names of the symbols in a product, without those of its sums."""
    bounds, powers = term
    names = frozenset[str]().union(
        *(base.free for base, _ in powers), *(symbols_of(extent) for _, extent in bounds)
    )
    return names.difference(name for name, _ in bounds)


def level_of_term(term: Term) -> int:
    """The nesting depth of sums, arguments of functions included."""
    bounds, powers = term
    inner = max((base.level for base, _ in powers), default=0)
    return inner + 1 if bounds else inner


def order_of_term(term: Term) -> tuple[list[tuple[int, int]], list[Any]]:
    """The sort key of a term, which does not depend on coefficients."""
    bounds, powers = term
    return [(base.serial, power) for base, power in powers], [order_of(n) for _, n in bounds]


def orders(
    bounds: Sequence[tuple[str, Dim]], powers: Mapping[Factor, int]
) -> Iterator[list[tuple[str, Dim]]]:
    """Candidates for the canonical order of the indices of a sum.

    Indices are ordered by where they occur, which does not depend on their names; those that occur
    in the same places are tried in all orders.
    """
    if len(bounds) == 1:
        yield list(bounds)
        return
    groups: dict[tuple[_Place, ...], list[tuple[str, Dim]]] = {}
    for name, extent in bounds:
        groups.setdefault(_places_of(name, powers), []).append((name, extent))
    ordered = [groups[places] for places in sorted(groups)]
    for choice in itertools.product(*map(itertools.permutations, ordered)):
        yield [bound for group in choice for bound in group]


def _places_of(name: str, powers: Mapping[Factor, int]) -> tuple[_Place, ...]:
    """Where an index occurs in a product."""
    places: list[_Place] = []
    for base, power in powers.items():
        if name in base.free:
            args = tuple(k for k, arg in enumerate(base.args) if name in _free_of(arg))
            places.append((str(base.key[0]), power, args))
    return tuple(sorted(places))


def _free_of(arg: Argument) -> frozenset[str]:
    return symbols_of(arg) if isinstance(arg, int | SymbolicDim) else arg.free


def text_of_term(term: Term, value: Number) -> str:
    """A product with its coefficient, as text."""
    bounds, powers = term
    sums = "".join(f"sum[{name}<{extent}] " for name, extent in bounds)
    factors = [str(base) if power == 1 else f"{base}^{power}" for base, power in powers]
    return sums + "*".join([*([] if value == 1 and factors else [str(value)]), *factors])
