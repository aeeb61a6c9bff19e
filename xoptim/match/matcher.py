"""Run a program against a graph: bidirectional from the anchor, with backtracking over operand orders and consumers.

An attempt returns a match or ``None``; `xoptim.match.near_miss` runs the same steps again to report why it failed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice, permutations
from typing import Any, TypeAlias

from xoptim.graph.node import Node
from xoptim.match.pairing import Pairing, Tree
from xoptim.match.program import Step
from xoptim.match.refusal import Misfit
from xoptim.match.result import MatchResult
from xoptim.match.trace import PatternNode, Variadic

_MOST_ORDERS = 720
"""Maximal number of orders of operands that are tried, the given one first: all orders of six operands."""
Examine: TypeAlias = Callable[[Pairing], MatchResult | Misfit | None]


class Attempt:
    """One attempt to find a program at one node, with a pairing that is empty at first.

    ``examine`` is called with the pairing when all nodes fit one by one and the registers are filled; unless it returns a
    match, the search continues.
    """

    __slots__ = ("examine", "graph", "pairing")

    def __init__(self, pairing: Pairing, examine: Examine) -> None:
        self.pairing = pairing
        self.graph = pairing.g.graph
        self.examine = examine

    def run(self, anchor: Node) -> MatchResult | None:
        """Search for an assignment that ``examine`` accepts, starting at a node."""
        return self._steps(0) if self.pairing.bind(self.pairing.program.anchor, anchor) else None

    def _steps(self, position: int) -> MatchResult | None:
        pairing = self.pairing
        choices: Iterable[Any]
        fits: Callable[[PatternNode, Any], bool]
        for step in pairing.program.steps[position:]:
            position += 1
            wanted = step.node
            if step.kind == "inputs":
                if not step.is_straight:
                    choices, fits = step.orders or self._orders(wanted), pairing.operands
                    break
                if not pairing.operands(wanted, step.orders[0]):
                    return None
            elif step.kind == "up":
                node = self._producer(self._name(step), wanted)
                if node is None or not pairing.bind(wanted, node):
                    return None
            elif step.kind == "down":
                readers = self._readers(self._name(step), wanted)
                if step.most_readers is not None and self._are_too_many(readers, step.most_readers):
                    return None
                choices, fits = readers, pairing.bind
                break
            else:
                choices, fits = self._trees(wanted), pairing.terms
                break
        else:
            found = self.examine(pairing)
            return found if isinstance(found, MatchResult) else None
        for _ in pairing.alternatives(wanted, choices, fits):
            match = self._steps(position)
            if match is not None:
                return match
        return None

    def _name(self, step: Step) -> str:
        """The result, or the first of the results, from which a step continues; empty when there is none."""
        symbol = step.symbol
        assert symbol is not None
        if symbol.kind is Variadic:
            listed: tuple[str, ...] = self.pairing.attributes[symbol.name]
            return listed[0] if listed else ""
        return self.pairing.names[symbol.index] or ""

    def _orders(self, wanted: PatternNode) -> Iterable[tuple[int, ...]]:
        """Orders of operands that depend on their number: first those that the pattern lists, then the remaining ones."""
        places = range(len(self.pairing.node_of(wanted).input))
        orders: Iterable[tuple[int, ...]]
        if wanted.variadic < 0:
            orders = permutations(places) if len(places) == len(wanted.inputs) else (tuple(range(len(wanted.inputs))),)
        else:
            firsts = permutations(places, len(wanted.inputs) - 1)
            orders = ((*first, *(p for p in places if p not in first)) for first in firsts)
        return islice(orders, _MOST_ORDERS)

    def _producer(self, name: str, wanted: PatternNode) -> Node | None:
        """The node that computes a result; it may be the graph node of ``wanted``."""
        return self.graph.producer(name)

    def _readers(self, name: str, wanted: PatternNode) -> Collection[Node]:
        """Nodes that read a result, directly or, for an associative operator, within a tree of such nodes."""
        readers = self.graph.consumers(name)
        if not wanted.associative:
            return readers
        found = dict.fromkeys(readers)
        edge = list(found)
        for _ in range(len(wanted.inputs) - 2):
            tree = [n for n in edge if n.op_type == wanted.op_type and n.domain == wanted.domain]
            edge = [reader for n in tree for reader in self.graph.consumers(n.output[0]) if reader not in found]
            found.update(dict.fromkeys(edge))
        return found

    def _are_too_many(self, readers: Collection[Node], most: int) -> bool:
        """Whether one of the readers of an interior result is not in the match, which may not be."""
        return len(readers) > most

    def _trees(self, wanted: PatternNode) -> Iterator[Tree]:
        """The operands, in all orders, of all trees of the operator with as many operands as the pattern node."""
        count = len(wanted.inputs)
        pending: list[tuple[tuple[str, ...], tuple[Node, ...], int]] = [(self.pairing.node_of(wanted).input, (), 0)]
        while pending:
            leaves, inner, start = pending.pop()
            if len(leaves) == count:
                yield from ((order, inner) for order in permutations(leaves))
            for place in range(len(leaves) - 1, start - 1, -1):
                node = self.graph.producer(leaves[place])
                if (
                    node is not None
                    and node.op_type == wanted.op_type
                    and node.domain == wanted.domain
                    and node not in inner
                    and len(leaves) - 1 + len(node.input) <= count
                ):
                    pending.append(((*leaves[:place], *node.input, *leaves[place + 1 :]), (*inner, node), place))
