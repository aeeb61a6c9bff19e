"""The cheapest choice of the nodes of a region, as a minimum cut."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

ALWAYS = "always"
"""A node that is always chosen."""
NEVER = "never"
"""A node that is never chosen."""
_UNLIMITED = 1 << 62


class Term(NamedTuple):
    """A cost that is paid when some of ``chosen`` are chosen and some of ``left`` are not.

    Attributes:
        cost: not negative.
        counts: the number of nodes of the result that it represents.
        chosen: one or more nodes, or `ALWAYS`.
        left: one or more nodes, or `NEVER`.
    """

    cost: int
    counts: int
    chosen: tuple[Hashable, ...]
    left: tuple[Hashable, ...]

    def is_paid(self, choice: set[Hashable]) -> bool:
        """Whether a choice pays it."""
        return any(node == ALWAYS or node in choice for node in self.chosen) and any(node not in choice for node in self.left)


def price(terms: Sequence[Term], choice: set[Hashable]) -> tuple[int, int]:
    """The cost of a choice, and the number of nodes that it represents."""
    paid = [term for term in terms if term.is_paid(choice)]
    return sum(term.cost for term in paid), sum(term.counts for term in paid)


def cheapest(terms: Sequence[Term]) -> set[Hashable]:
    """The smallest of the choices that cost least.

    Each term is an edge of a network, from or to a vertex of its own where it has several nodes; a minimum cut between `ALWAYS`
    and `NEVER` leaves the chosen nodes on the side of `ALWAYS`. The maximum flow is found along shortest paths (Edmonds and
    Karp, *Theoretical Improvements in Algorithmic Efficiency for Network Flow Problems*, 1972).
    """
    room: dict[Hashable, Counter[Hashable]] = defaultdict(Counter)
    auxiliary: set[Hashable] = {ALWAYS}

    def connect(a: Hashable, b: Hashable, capacity: int) -> None:
        if a != b:
            room[a][b] += capacity
            room[b][a] += 0

    for number, term in enumerate(terms):
        above: Hashable = ("above", number) if len(term.chosen) > 1 else term.chosen[0]
        below: Hashable = ("below", number) if len(term.left) > 1 else term.left[0]
        auxiliary |= {above} - {*term.chosen} | {below} - {*term.left}
        for node in term.chosen:
            connect(node, above, _UNLIMITED)
        for node in term.left:
            connect(below, node, _UNLIMITED)
        connect(above, below, term.cost)
    while True:
        came = _reached(room)
        if NEVER not in came:
            return set(came) - auxiliary
        path: list[Hashable] = [NEVER]
        while path[-1] != ALWAYS:
            path.append(came[path[-1]])
        steps = list(zip(path[1:], path[:-1], strict=True))
        flow = min(room[a][b] for a, b in steps)
        for a, b in steps:
            room[a][b] -= flow
            room[b][a] += flow


def _reached(room: Mapping[Hashable, Mapping[Hashable, int]]) -> dict[Hashable, Hashable]:
    """The vertices that can be reached from `ALWAYS`, each with the one before it on a shortest path."""
    came: dict[Hashable, Hashable] = {ALWAYS: ALWAYS}
    pending: list[Hashable] = [ALWAYS]
    for vertex in pending:
        for following, capacity in room.get(vertex, {}).items():
            if capacity > 0 and following not in came:
                came[following] = vertex
                pending.append(following)
    return came
