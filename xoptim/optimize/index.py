"""Which patterns to try at a node: by its operator, then by the operators that produce its inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.program import CONSTANT

Key = tuple[str, str]


class PatternIndex:
    """The patterns of a phase by anchor; a pattern that cannot match at a node costs nothing there.

    Args:
        patterns: the patterns, in the order in which they are tried.
        explained: those that are tried at all their anchors, because somebody wants to know why they do not match.
    """

    def __init__(self, patterns: Sequence[PatternOptimization], explained: Collection[PatternOptimization] = ()) -> None:
        self.patterns = list(patterns)
        self.reach = [pattern.reach() for pattern in self.patterns]
        self._everywhere: list[int] = []
        self._by_anchor: dict[Key, list[int]] = {}
        self._by_producer: dict[Key, dict[Key, list[int]]] = {}
        for number, pattern in enumerate(self.patterns):
            self._add(number, pattern.anchor_keys(), () if pattern in explained else pattern.near_keys())

    def _add(self, number: int, anchors: Collection[Key], near: Collection[Key]) -> None:
        if not anchors:
            self._everywhere.append(number)
        for key in sorted(anchors):
            if not near:
                self._by_anchor.setdefault(key, []).append(number)
            for producer in sorted(near):
                self._by_producer.setdefault(key, {}).setdefault(producer, []).append(number)

    @property
    def longest_reach(self) -> int:
        """Largest distance at which a change can make a pattern match."""
        return max(self.reach, default=0)

    def anchors_in(self, graph: Graph) -> dict[Node, int]:
        """All nodes of a graph at which some pattern may match, in order, as `candidates` wants them."""
        if self._everywhere:
            return dict.fromkeys(graph.nodes, 0)
        types = graph.types
        present = sorted((self._by_anchor.keys() | self._by_producer.keys()) & types.keys())
        nodes = [node for key in present for node in types[key]]
        nodes.sort(key=lambda node: node.label)
        return dict.fromkeys(nodes, 0)

    def candidates(self, graph: Graph, nodes: Mapping[Node, int]) -> dict[int, list[Node]]:
        """The nodes at which each pattern is worth trying, by number of the pattern, both in order.

        Args:
            graph: the graph.
            nodes: nodes to look at, with their distance from the nearest change.
        """
        found: dict[int, list[Node]] = {}
        producers = graph.producer
        for node, distance in nodes.items():
            key = (node.domain, node.op_type)
            numbers: Iterable[int] = self._by_anchor.get(key, ())
            by_producer = self._by_producer.get(key)
            if by_producer is not None:
                numbers = list(numbers)
                for name in node.input:
                    producer = producers(name)
                    if producer is not None:
                        more = by_producer.get((producer.domain, producer.op_type), ())
                        numbers += [n for n in more if n not in numbers]
                    if producer is None or producer.op_type == "Constant" or name in graph.computed_constants:
                        more = by_producer.get(CONSTANT, ()) if name else ()
                        numbers += [n for n in more if n not in numbers]
            for number in numbers:
                if distance <= self.reach[number]:
                    found.setdefault(number, []).append(node)
            for number in self._everywhere:
                found.setdefault(number, []).append(node)
        return dict(sorted(found.items()))


@lru_cache(maxsize=64)
def index_of(patterns: tuple[PatternOptimization, ...], explained: tuple[PatternOptimization, ...]) -> PatternIndex:
    """An index that is shared by all graphs with the same patterns; a model may have hundreds of functions and subgraphs."""
    return PatternIndex(patterns, explained)
