"""Select the patterns to try at a node: by its operator, then by the operators that lead to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import Key, PatternOptimization
from xoptim.match.program import CONSTANT


class _Paths:
    """Patterns by the operators of a chain of producers, as a tree: a producer of the node, a producer of that one, and so on.

    Attributes:
        here: numbers of the patterns whose path ends here.
        beyond: patterns with a longer path, by the operator of the next producer.
    """

    __slots__ = ("beyond", "here")

    def __init__(self) -> None:
        self.here: list[int] = []
        self.beyond: dict[Key, _Paths] = {}

    def add(self, number: int, path: Sequence[Key]) -> None:
        """Add a pattern."""
        place = self
        for key in path:
            place = place.beyond.setdefault(key, _Paths())
        place.here.append(number)

    def collect(self, graph: Graph, node: Node, found: dict[int, None]) -> None:
        """Find the patterns that may match at a node."""
        for number in self.here:
            found[number] = None
        beyond = self.beyond
        if not beyond:
            return
        constant = beyond.get(CONSTANT)
        for name in node.input:
            producer = graph.producer(name)
            if producer is not None:
                further = beyond.get((producer.domain, producer.op_type))
                if further is not None:
                    further.collect(graph, producer, found)
            if constant is None or not name:
                continue
            if producer is None or producer.op_type == "Constant" or graph.is_computed(name):
                found.update(dict.fromkeys(constant.here))


class PatternIndex:
    """The patterns of a phase by anchor and path; a pattern whose path does not fit at a node is not tried there.

    Args:
        patterns: the patterns, in the order in which they are tried.
        explained: patterns that are tried at all their anchors, to report why they do not match.
    """

    def __init__(self, patterns: Sequence[PatternOptimization], explained: Collection[PatternOptimization] = ()) -> None:
        self.patterns = list(patterns)
        self.reach = [pattern.reach() for pattern in self.patterns]
        self._everywhere: list[int] = []
        self._by_anchor: dict[Key, _Paths] = {}
        for number, pattern in enumerate(self.patterns):
            paths = pattern.paths()
            if pattern in explained:
                paths = frozenset((anchor, ()) for anchor in pattern.anchor_keys())
            if not paths:
                self._everywhere.append(number)
            for anchor, path in sorted(paths):
                self._by_anchor.setdefault(anchor, _Paths()).add(number, path)

    @property
    def longest_reach(self) -> int:
        """Largest distance at which a change can make a pattern match."""
        return max(self.reach, default=0)

    def anchors_in(self, graph: Graph) -> dict[Node, int]:
        """All nodes of a graph at which a pattern may match, in order; an argument for `candidates`."""
        if self._everywhere:
            return dict.fromkeys(graph.nodes, 0)
        types = graph.types
        nodes = [node for key in sorted(self._by_anchor.keys() & types.keys()) for node in types[key]]
        nodes.sort(key=lambda node: node.label)
        return dict.fromkeys(nodes, 0)

    def candidates(self, graph: Graph, nodes: Mapping[Node, int]) -> dict[int, list[Node]]:
        """The nodes at which each pattern is to be tried, by number of the pattern, both in order.

        Args:
            graph: the graph.
            nodes: the nodes, with their distances from the nearest change.
        """
        found: defaultdict[int, list[Node]] = defaultdict(list)
        reach = self.reach
        for node, distance in nodes.items():
            paths = self._by_anchor.get((node.domain, node.op_type))
            numbers: dict[int, None] = {}
            if paths is not None:
                paths.collect(graph, node, numbers)
            for number in numbers:
                if distance <= reach[number]:
                    found[number].append(node)
            for number in self._everywhere:
                found[number].append(node)
        return dict(sorted(found.items()))


@lru_cache(maxsize=256)
def index_of(patterns: tuple[PatternOptimization, ...], explained: tuple[PatternOptimization, ...]) -> PatternIndex:
    """An index, shared by all graphs with the same patterns; a model may have hundreds of functions and subgraphs.

    A selection needs about 30 of them; the cache has room for several selections in turn.
    """
    return PatternIndex(patterns, explained)


@lru_cache(maxsize=4096)
def defect_of(pattern: PatternOptimization) -> Exception | None:
    """The error that a pattern raises when its anchors, paths or reach are computed; ``None`` when it raises none."""
    try:
        pattern.paths()
        pattern.anchor_keys()
        pattern.reach()
    except MemoryError:
        raise
    except Exception as error:  # the code of a pattern may raise anything
        return error
    return None
