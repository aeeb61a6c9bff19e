"""Select the patterns to try at a node by the operators of the node and of its producers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

from onnx import TensorProto

from xoptim.catalogue.entries import short
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.pattern import CONSTANT, Key, PatternOptimization
from xoptim.match.program import LITERAL, literal_key

_EXACT_TYPES = frozenset(
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
    """A tree of patterns by the operators of a chain of producers, the nearest one first."""

    __slots__ = ("children", "literals", "numbers")

    def __init__(self) -> None:
        self.numbers: list[int] = []  # of the patterns whose path ends here
        # patterns with a longer path, by the operator of the next producer
        self.children: dict[Key, _Paths] = {}
        self.literals: list[Key] = []  # the keys of children for constants of one value

    def add(self, number: int, path: Sequence[Key]) -> None:
        """Add a pattern."""
        tree = self
        for key in path:
            if key[0] == LITERAL and key not in tree.children:
                tree.literals.append(key)
            tree = tree.children.setdefault(key, _Paths())
        tree.numbers.append(number)

    def collect(self, graph: Graph, node: Node, numbers: dict[int, None]) -> None:
        """Add the numbers of the patterns that may match at a node."""
        for number in self.numbers:
            numbers[number] = None
        children = self.children
        if not children:
            return
        constant = children.get(CONSTANT)
        for name in node.input:
            producer = graph.producer(name)
            if producer is not None:
                child = children.get((producer.domain, producer.op_type))
                if child is not None:
                    child.collect(graph, producer, numbers)
            if not name or (constant is None and not self.literals):
                continue
            if producer is None or producer.op_type == "Constant" or graph.is_computed(name):
                if constant is not None:
                    numbers.update(dict.fromkeys(constant.numbers))
                for key in self._literals_of(graph, name) if self.literals else ():
                    numbers.update(dict.fromkeys(children[key].numbers))

    def _literals_of(self, graph: Graph, name: str) -> Sequence[Key]:
        """The literals that a value may equal: all of them if it is unknown or was rounded."""
        tensor = graph.tensor(name)
        if tensor is None:
            return () if graph.is_input(name) else self.literals
        if tensor.dtype not in _EXACT_TYPES:
            return self.literals
        value = tensor.uniform()
        return [
            key for key in self.literals if value is not None and key == literal_key(value.item())
        ]


class PatternIndex:
    """Patterns by anchor and path, in the order in which they are tried.

    A pattern is not tried at nodes that its paths do not fit. Patterns in ``explained`` are tried
    at all their anchors, to report why they do not match.
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
        # for each pattern, the first number of its group of equal priority, and the next group's
        self._groups: list[range] = []
        for _, group in groupby(self.patterns, key=lambda p: (p.phase, p.priority)):
            start, size = len(self._groups), len(list(group))
            self._groups += [range(start, start + size)] * size
        self._number_by_name = {pattern.name(): n for n, pattern in enumerate(self.patterns)}
        self._leaders = _leaders(self.patterns)
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
        """All nodes of a graph at which a pattern may match, in order, for `candidates`."""
        if self._everywhere:
            return dict.fromkeys(graph.nodes, 0)
        types = graph.types
        nodes = [node for key in sorted(self._numbers.keys() & types.keys()) for node in types[key]]
        nodes.sort(key=lambda node: node.label)
        return dict.fromkeys(nodes, 0)

    def candidates(self, graph: Graph, nodes: Mapping[Node, int]) -> dict[int, list[Node]]:
        """The nodes at which to try each pattern, by its number.

        ``nodes`` come with their distances from the nearest change.
        """
        anchors: defaultdict[int, list[Node]] = defaultdict(list)
        reach = self.reach
        for node, distance in nodes.items():
            numbers: dict[int, None] = {}
            if distance <= self._farthest.get((node.domain, node.op_type), -1):
                numbers = self._numbers_at(graph, node)
            for number in numbers:
                if distance <= reach[number]:
                    anchors[number].append(node)
            for number in self._everywhere:
                anchors[number].append(node)
        return dict(sorted(anchors.items()))

    def has_candidates(self, graph: Graph) -> bool:
        """Whether there is a node at which a pattern may match."""
        return any(
            self._everywhere or self._numbers_at(graph, node) for node in self.anchors_in(graph)
        )

    def later_candidates(
        self, graph: Graph, nodes: Iterable[Node], number: int
    ) -> dict[int, list[Node]]:
        """The nodes at which to try each pattern after that of a number, in its group of equal
        priority.

        A pattern is not tried where another pattern may match that has to run before it, and has
        had its turn.
        """
        later = range(number + 1, self._groups[number].stop)
        anchors: defaultdict[int, list[Node]] = defaultdict(list)
        for node in nodes if later else ():
            candidates = {*self._numbers_at(graph, node), *self._everywhere}
            for candidate in candidates.intersection(later):
                leaders = candidates.intersection(self._leaders.get(candidate, ()))
                if not leaders or min(leaders) > number:
                    anchors[candidate].append(node)
        return anchors

    def earlier_candidates(
        self, graph: Graph, node: Node, pattern: PatternOptimization
    ) -> list[PatternOptimization]:
        """The patterns of earlier phases and lower priorities that may match at a node."""
        start = self._groups[self._number_by_name[pattern.name()]].start
        numbers = sorted({*self._numbers_at(graph, node), *self._everywhere})
        return [self.patterns[number] for number in numbers if number < start]

    def are_equal(self, first: int, second: int) -> bool:
        """Whether two patterns, by their numbers, are in one group of equal priority."""
        return self._groups[first] == self._groups[second]

    def _numbers_at(self, graph: Graph, node: Node) -> dict[int, None]:
        numbers: dict[int, None] = {}
        anchor = node.domain, node.op_type
        if anchor in self._numbers:
            self._tree(anchor).collect(graph, node, numbers)
        return numbers


def _leaders(patterns: Sequence[PatternOptimization]) -> dict[int, set[int]]:
    """The numbers of the patterns that say that they run before a pattern, or that the pattern says
    it runs after, by its number.
    """
    numbers = {pattern.name(): number for number, pattern in enumerate(patterns)}
    leaders: defaultdict[int, set[int]] = defaultdict(set)
    for number, pattern in enumerate(patterns):
        for word in pattern.before:
            if (follower := numbers.get(short(word))) is not None:
                leaders[follower].add(number)
        for word in pattern.after:
            if (leader := numbers.get(short(word))) is not None:
                leaders[number].add(leader)
    return leaders


@lru_cache(maxsize=4096)
def _paths_to(pattern: PatternOptimization) -> dict[Key, list[tuple[Key, ...]]]:
    """The operators that must lead to each anchor of a pattern, in a fixed order."""
    paths: dict[Key, list[tuple[Key, ...]]] = {}
    for anchor, path in sorted(pattern.paths()):
        paths.setdefault(anchor, []).append(path)
    return paths


@lru_cache(maxsize=256)
def index_of(
    patterns: tuple[PatternOptimization, ...], explained: tuple[PatternOptimization, ...]
) -> PatternIndex:
    """An index, shared by graphs with the same patterns: a model may have hundreds of subgraphs.

    A selection needs about 30 indexes; the cache holds the indexes of several selections.
    """
    return PatternIndex(patterns, explained)


@lru_cache(maxsize=4096)
def defect_of(pattern: PatternOptimization) -> Exception | None:
    """The error that a pattern raises when its anchors, paths or reach are computed, if any."""
    try:
        pattern.paths()
        pattern.anchor_keys()
        pattern.reach()
    except MemoryError:
        raise
    except Exception as error:  # the code of a pattern may raise anything
        return error
    return None
