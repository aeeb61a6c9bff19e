"""The form of a subgraph of a few nodes: the expression that it computes, the same text in whatever order the nodes stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import Final, NamedTuple

from xoptim.facts.schema import is_commutative

_MOST_ORDERED: Final = 3
"""Operands of a commutative operator with more than these are taken in the order of the node."""


class Leaf(NamedTuple):
    """An operand from outside.

    Attributes:
        kind: ``value``, ``constant`` or ``text``.
        key: number by which equal values and constants are recognized, or the text to show.
    """

    kind: str
    key: int | str


class Inner(NamedTuple):
    """An operand that a node of the subgraph computes: its place, and the number of its result."""

    place: int
    output: int


class Call(NamedTuple):
    """A node of the subgraph."""

    domain: str
    op_type: str
    operands: tuple[Leaf | Inner, ...]


Piece = tuple[Call, ...]
"""The nodes of a subgraph, producers before their readers."""


def canonical(piece: Piece) -> str:
    """The form of a subgraph.

    Of all texts for all orders of the results, and of the operands of commutative operators, the least one.
    """
    read = {operand.place for call in piece for operand in call.operands if isinstance(operand, Inner)}
    results = [place for place in range(len(piece)) if place not in read]
    orders = list(product(*map(_orders, piece)))
    return min(_Text(calls).of(ends) for ends in permutations(results) for calls in orders)


def _orders(call: Call) -> Sequence[Call]:
    """A call with its operands in all orders that compute the same."""
    few = len(call.operands) <= _MOST_ORDERED
    if not few or not is_commutative(call.op_type, call.domain):
        return (call,)
    return [call._replace(operands=each) for each in dict.fromkeys(permutations(call.operands))]


class _Text:
    """Writes a subgraph as an expression."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._uses = Counter(operand.place for call in calls for operand in call.operands if isinstance(operand, Inner))
        self._leaves: dict[str, dict[Leaf, str]] = {"value": {}, "constant": {}}
        self._shared: dict[int, str] = {}
        self._lines: list[str] = []

    def of(self, results: Sequence[int]) -> str:
        """The expressions of the results, after those of what is read more than once."""
        last = [self._call(place) for place in results]
        return "; ".join((*self._lines, *last))

    def _call(self, place: int) -> str:
        call = self._calls[place]
        label = f"{call.domain}::{call.op_type}" if call.domain else call.op_type
        return f"{label}({', '.join(self._operands(call))})"

    def _operands(self, call: Call) -> Iterator[str]:
        for operand in call.operands:
            if isinstance(operand, Leaf):
                yield self._leaf(operand)
            else:
                yield self._inner(operand.place) + (f"[{operand.output}]" if operand.output else "")

    def _leaf(self, leaf: Leaf) -> str:
        if leaf.kind == "text":
            return str(leaf.key)
        names = self._leaves[leaf.kind]
        return names.setdefault(leaf, _letter(len(names), "a" if leaf.kind == "value" else "A"))

    def _inner(self, place: int) -> str:
        if self._uses[place] == 1:
            return self._call(place)
        if place not in self._shared:
            text = self._call(place)  # names what it reads first
            self._shared[place] = f"t{len(self._shared) + 1}"
            self._lines.append(f"{self._shared[place]} = {text}")
        return self._shared[place]


def _letter(number: int, first: str) -> str:
    """``a`` to ``z``, then ``a1`` to ``z1``, and so on."""
    rounds, place = divmod(number, 26)
    return chr(ord(first) + place) + (str(rounds) if rounds else "")
