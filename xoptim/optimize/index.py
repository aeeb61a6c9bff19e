"""Which patterns to try at a node: by its operator, then by the operators that lead to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import Key, PatternOptimization
from xoptim.match.program import CONSTANT


class _Paths:
    """Patterns by what must produce an input of a node, and an input of that, ...: a tree in which a node is looked up.

    Attributes:
        here: patterns that ask for no more than what has led here, by number.
        beyond: patterns that ask for more, by the operator of a producer.
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
        if beyond:
            for name in node.input:
                producer = graph.producer(name)
                if producer is not None:
                    further = beyond.get((producer.domain, producer.op_type))
                    if further is not None:
                        further.collect(graph, producer, found)
                if name and (producer is None or producer.op_type == "Constant" or graph.is_computed(name)):
                    further = beyond.get(CONSTANT)
                    if further is not None:
                        for number in further.here:
                            found[number] = None


class PatternIndex:
    """The patterns of a phase by anchor and path; a pattern that cannot match at a node costs nothing there.

    Args:
        patterns: the patterns, in the order in which they are tried.
        explained: those that are tried at all their anchors, because somebody wants to know why they do not match.
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
        """All nodes of a graph at which some pattern may match, in order, as `candidates` wants them."""
        if self._everywhere:
            return dict.fromkeys(graph.nodes, 0)
        types = graph.types
        nodes = [node for key in sorted(self._by_anchor.keys() & types.keys()) for node in types[key]]
        nodes.sort(key=lambda node: node.label)
        return dict.fromkeys(nodes, 0)

    def candidates(self, graph: Graph, nodes: Mapping[Node, int]) -> dict[int, list[Node]]:
        """The nodes at which each pattern is worth trying, by number of the pattern, both in order.

        Args:
            graph: the graph.
            nodes: nodes to look at, with their distance from the nearest change.
        """
        found: dict[int, list[Node]] = {}
        reach = self.reach
        for node, distance in nodes.items():
            paths = self._by_anchor.get((node.domain, node.op_type))
            if paths is not None:
                numbers: dict[int, None] = {}
                paths.collect(graph, node, numbers)
                for number in numbers:
                    if distance <= reach[number]:
                        found.setdefault(number, []).append(node)
            for number in self._everywhere:
                found.setdefault(number, []).append(node)
        return dict(sorted(found.items()))


@lru_cache(maxsize=256)
def index_of(patterns: tuple[PatternOptimization, ...], explained: tuple[PatternOptimization, ...]) -> PatternIndex:
    """An index that is shared by all graphs with the same patterns; a model may have hundreds of functions and subgraphs.

    A selection needs about 30 of them; the cache has room for several selections in turn.
    """
    return PatternIndex(patterns, explained)


@lru_cache(maxsize=4096)
def defect_of(pattern: PatternOptimization) -> Exception | None:
    """What is raised when a pattern is asked where it is worth trying: its description is wrong; ``None`` when it is right."""
    try:
        pattern.paths()
        pattern.anchor_keys()
        pattern.reach()
    except MemoryError:
        raise
    except Exception as error:  # whatever the code of a pattern may raise
        return error
    return None
