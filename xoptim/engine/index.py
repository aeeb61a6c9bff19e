"""Select the patterns to try at a node: by its operator, then by the operators that lead to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from onnx import TensorProto

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import Key, PatternOptimization
from xoptim.match.program import CONSTANT, LITERAL, literal_key

_EXACT = frozenset(
    (
        *(
            TensorProto.FLOAT,
            TensorProto.DOUBLE,
            TensorProto.FLOAT16,
            TensorProto.BOOL,
            TensorProto.INT8,
            TensorProto.INT16,
        ),
        *(
            TensorProto.INT32,
            TensorProto.INT64,
            TensorProto.UINT8,
            TensorProto.UINT16,
            TensorProto.UINT32,
            TensorProto.UINT64,
        ),
    )
)
"""Element types in which a literal is compared without being rounded first."""


class _Paths:
    """Patterns by the operators of a chain of producers, as a tree: a producer of the node, a
    producer of that one, ...
    """

    __slots__ = ("beyond", "here", "literals")

    def __init__(self) -> None:
        self.here: list[int] = []  # numbers of the patterns whose path ends here
        # patterns with a longer path, by the operator of the next producer
        self.beyond: dict[Key, _Paths] = {}
        self.literals: list[Key] = []  # its keys for constants of one value

    def add(self, number: int, path: Sequence[Key]) -> None:
        """Add a pattern."""
        place = self
        for key in path:
            if key[0] == LITERAL and key not in place.beyond:
                place.literals.append(key)
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
            if not name or (constant is None and not self.literals):
                continue
            if producer is None or producer.op_type == "Constant" or graph.is_computed(name):
                if constant is not None:
                    found.update(dict.fromkeys(constant.here))
                for key in self._literals_of(graph, name) if self.literals else ():
                    found.update(dict.fromkeys(beyond[key].here))

    def _literals_of(self, graph: Graph, name: str) -> Sequence[Key]:
        """The literals that a constant may be: its value if that is stored in a type that holds it
        exactly, else all.
        """
        tensor = graph.tensor(name)
        if tensor is None:
            return () if graph.is_input(name) else self.literals
        if tensor.dtype not in _EXACT:
            return self.literals
        value = tensor.uniform()
        return [
            key for key in self.literals if value is not None and key == literal_key(value.item())
        ]


class PatternIndex:
    """The patterns of a phase by anchor and path.

    A pattern whose path does not fit at a node is not tried there.

    Patterns are given in the order in which they are tried; ``explained`` ones are tried at all
    their anchors, to report why they do not match.
    """

    def __init__(
        self,
        patterns: Sequence[PatternOptimization],
        explained: Collection[PatternOptimization] = (),
    ) -> None:
        self.patterns = list(patterns)
        self.reach = [pattern.reach() for pattern in self.patterns]
        # largest distance at which a change can make a pattern match
        self.longest_reach = max(self.reach, default=0)
        self._explained = frozenset(explained)
        self._everywhere: list[int] = []
        self._numbers: dict[Key, list[int]] = {}  # numbers of the patterns of each anchor
        # the largest reach of the patterns of each anchor
        self._farthest: dict[Key, int] = {}
        self._trees: dict[Key, _Paths] = {}  # of the anchors that were looked up so far
        for number, pattern in enumerate(self.patterns):
            anchors = pattern.anchor_keys()
            if not anchors:
                self._everywhere.append(number)
            for anchor in anchors:
                self._numbers.setdefault(anchor, []).append(number)
                self._farthest[anchor] = max(self._farthest.get(anchor, 0), self.reach[number])

    def _tree(self, anchor: Key) -> _Paths:
        """The patterns of an anchor by the operators that must lead to it."""
        tree = self._trees.get(anchor)
        if tree is None:
            tree = self._trees[anchor] = _Paths()
            for number in self._numbers[anchor]:
                pattern = self.patterns[number]
                paths = ((),) if pattern in self._explained else _paths_to(pattern)[anchor]
                for path in paths:
                    tree.add(number, path)
        return tree

    def anchors_in(self, graph: Graph) -> dict[Node, int]:
        """All nodes of a graph at which a pattern may match, in order.

        An argument for `candidates`.
        """
        if self._everywhere:
            return dict.fromkeys(graph.nodes, 0)
        types = graph.types
        nodes = [node for key in sorted(self._numbers.keys() & types.keys()) for node in types[key]]
        nodes.sort(key=lambda node: node.label)
        return dict.fromkeys(nodes, 0)

    def candidates(self, graph: Graph, nodes: Mapping[Node, int]) -> dict[int, list[Node]]:
        """The nodes, with their distances from the nearest change, at which each pattern is to be
        tried, by its number.
        """
        found: defaultdict[int, list[Node]] = defaultdict(list)
        reach = self.reach
        for node, distance in nodes.items():
            anchor = node.domain, node.op_type
            numbers: dict[int, None] = {}
            if distance <= self._farthest.get(anchor, -1):
                self._tree(anchor).collect(graph, node, numbers)
            for number in numbers:
                if distance <= reach[number]:
                    found[number].append(node)
            for number in self._everywhere:
                found[number].append(node)
        return dict(sorted(found.items()))


@lru_cache(maxsize=4096)
def _paths_to(pattern: PatternOptimization) -> dict[Key, list[tuple[Key, ...]]]:
    """The operators that must lead to each anchor of a pattern, in a fixed order."""
    found: dict[Key, list[tuple[Key, ...]]] = {}
    for anchor, path in sorted(pattern.paths()):
        found.setdefault(anchor, []).append(path)
    return found


@lru_cache(maxsize=256)
def index_of(
    patterns: tuple[PatternOptimization, ...], explained: tuple[PatternOptimization, ...]
) -> PatternIndex:
    """An index, shared by all graphs with the same patterns.

    A model may have hundreds of functions and subgraphs.

    A selection needs about 30 of them; the cache has room for several selections in turn.
    """
    return PatternIndex(patterns, explained)


@lru_cache(maxsize=4096)
def defect_of(pattern: PatternOptimization) -> Exception | None:
    """The error that a pattern raises when its anchors, paths or reach are computed.

    ``None`` when it raises none.
    """
    try:
        pattern.paths()
        pattern.anchor_keys()
        pattern.reach()
    except MemoryError:
        raise
    except Exception as error:  # the code of a pattern may raise anything
        return error
    return None
