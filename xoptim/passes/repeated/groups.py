"""Groups of nodes of one level with equal settings, the order of their lanes.

Several Adds in a row are one node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from onnx import TensorProto

from xoptim.facts.shapes import Info
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.graph.walk import reads
from xoptim.match import GraphView
from xoptim.operators.registry import Trait, axes_of, is_commutative, operators_with

_PLAIN: Final = operators_with(Trait.BROADCASTS) | {
    "MatMul",
    "Gemm",
    "Concat",
    "Gather",
    "LayerNormalization",
}
_WITH_PARAMETERS: Final = operators_with(Trait.ELEMENTWISE, Trait.REDUCES) | {
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Slice",
    "Split",
    "Transpose",
}
_NORMALIZED: Final = operators_with(Trait.SOFTMAX)
LANE: Final = -1
"""The label of the axis of lanes."""
STACKABLE: Final = _PLAIN | _WITH_PARAMETERS | _NORMALIZED


class LaneOperand(NamedTuple):
    """Properties that the operands of a group of nodes have in common."""

    dtype: int  # element type
    shape: tuple[Hashable, ...]  # the shape of each, known but for the names of its sizes
    is_constant: bool  # whether they are stored


class Settings(NamedTuple):
    """Properties that nodes which are computed together have in common."""

    own: tuple[Hashable, ...]  # operator, attributes, types and shapes of the results
    # for each operand its type and shape, or its value if it is a parameter, such as axes; "" for
    # one omitted
    operands: tuple[Hashable, ...]


def settings(graph: Graph, node: Node, terms: Sequence[str] | None = None) -> Settings | None:
    """The settings of a node, ``None`` if it cannot be stacked.

    ``terms`` are its operands if it does not read them itself: the last Add of a sum represents the
    whole sum.
    """
    if node.domain or node.op_type not in STACKABLE or node.bodies or not all(node.output):
        return None
    results = [graph.info_of(name) for name in node.output]
    if not all(map(_is_known, results)) or not _is_allowed(graph, node):
        return None
    operands: list[Hashable] = []
    for place, name in enumerate(node.input if terms is None else terms):
        found = (
            ""
            if not name
            else _parameter(graph, name)
            if is_parameter(node, place)
            else _operand(graph, name)
        )
        if found is None:
            return None
        operands.append(found)
    attributes = tuple(sorted((key, _frozen(value)) for key, value in node.attribute.items()))
    return Settings(
        (node.op_type, attributes, *((each.dtype, each.shape) for each in results)), tuple(operands)
    )


def is_parameter(node: Node, place: int) -> bool:
    """Whether an operand of a stackable operator is a parameter, which all nodes of a group must
    have in common.
    """
    return place > 0 and node.op_type in _WITH_PARAMETERS


def _is_known(info: Info) -> bool:
    return info.is_tensor and bool(info.dtype) and info.shape is not None


def _is_allowed(graph: Graph, node: Node) -> bool:
    """Whether the attributes of a node are among those that a stack can express."""
    get, rank = node.get_attribute, graph.info_of(node.input[0]).rank or 0
    has_stored = len(node.input) > 1 and graph.tensor(node.input[1]) is not None
    match node.op_type:
        case "Gemm":
            return has_stored and get("alpha") == get("beta") == 1.0 and not get("transA")
        case "Gather":
            return get("axis") == 0 and rank > 0
        case "LayerNormalization":
            return has_stored and len(node.output) == 1 and get("axis") in (-1, rank - 1)
    axes = axes_of(GraphView(graph), node) if not get("noop_with_empty_axes", 0) else None
    return axes is not None and axes.inserted(LANE) is not None


def _operand(graph: Graph, name: str) -> LaneOperand | None:
    info = graph.info_of(name)
    if not _is_known(info) or info.shape is None:
        return None
    return LaneOperand(info.dtype, info.shape, graph.tensor(name) is not None)


def _parameter(graph: Graph, name: str) -> Hashable | None:
    tensor = graph.tensor(name)
    return None if tensor is None else tensor.key()


def _frozen(value: object) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    assert isinstance(value, Hashable), "no stackable operator has tensors as attributes"
    return value


_SUMMED: Final = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
)
"""Element types of sums: onnxruntime reduces integers of few types only, and those as floats of 64
bits.
"""


@dataclass(eq=False, slots=True)
class _Sum:
    """The terms of an Add, and of the Adds that it adds up."""

    # level and operator that most terms have in common; ``None`` for an Add of two terms that have
    # nothing in common
    kind: Hashable | None
    like: list[str]  # the terms of that kind
    others: list[str]  # all other terms
    nodes: list[Node]  # the Adds
    level: int  # the highest level of a term

    def take(self, other: _Sum) -> _Sum:
        """This sum with all of another one.

        The smaller one is copied, so that all sums take linear time or nearly so.
        """
        small, large = sorted((self, other), key=lambda each: len(each.nodes))
        large.like += small.like
        large.others += small.others
        large.nodes += small.nodes
        large.level = max(large.level, small.level)
        return large


@dataclass(eq=False)
class Sums:
    """The levels of the nodes of a graph, where a sum that is written as several Adds is one node.

    The Adds of ``((a + b) + c) + d``, or of ``(a + b) + (c + d)``, are one sum if terms are on one
    level and results of one operator, and nothing else reads what is between them. Other terms may
    come at any place: ``((x + a) + b) + c``.
    """

    graph: Graph
    # number of nodes on the longest path to each node; those within a sum have none
    levels: dict[Node, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._level: dict[str, int] = {}
        self._found: dict[Node, _Sum] = {}
        for node in self.graph.nodes:
            found = (
                self._sum(node)
                if node.op_type == "Add" and not node.domain and len(node.input) == 2
                else None
            )
            if found is not None:
                self._found[node] = found
                level = found.level + 1
            else:
                level = 1 + max(
                    (
                        self._level.get(name, 0)
                        for name in (reads(node) if node.bodies else node.input)
                    ),
                    default=0,
                )
            self.levels[node] = level
            self._level.update(dict.fromkeys(node.output, level))
        # the last Add of each sum of several, for those before it
        self._whole: dict[Node, Node] = {}
        for last, found in self._found.items():
            for node in found.nodes:
                if node is not last:
                    self._whole[node] = last
                    del self.levels[node]

    def is_sum(self, node: Node) -> bool:
        """Whether a node adds floating-point numbers."""
        return node in self._found or (
            node.op_type == "Sum" and not node.domain and node in self.levels
        )

    def terms(self, node: Node) -> Sequence[str]:
        """The operands of a node: the last Add of a sum reads all terms."""
        found = self._found.get(node)
        return (
            node.input if found is None or len(found.nodes) == 1 else (*found.like, *found.others)
        )

    def parts(self, node: Node) -> Sequence[Node]:
        """The node itself, and the Adds before it in a sum."""
        found = self._found.get(node)
        return (node,) if found is None else found.nodes

    def readers(self, names: Iterable[str]) -> list[Node]:
        """The nodes that read any of some values, each once."""
        found: dict[Node, None] = {}
        for name in names:
            for reader in self.graph.consumers(name):
                found[self._whole.get(reader, reader)] = None
        return list(found)

    # ---------------------------------------------------------------- the sweep

    def _sum(self, node: Node) -> _Sum | None:
        """The sum that ends with an Add; ``None`` for integers.

        Those that it contains are no longer found.
        """
        first, second = node.input
        if self.graph.info_of(node.output[0]).dtype not in _SUMMED:
            return None
        for name, other in ((first, second), (second, first)):
            kind = self._kind(name)
            if kind is None:
                continue
            if kind == self._kind(other):
                return self._closed(node, self._taken(first, kind).take(self._taken(second, kind)))
            pair = self._inner(other)
            if pair is not None and pair.kind is None and first != second:
                for own, rest in (pair.like, pair.like[::-1]):
                    if self._kind(own) == kind:
                        return self._closed(
                            node,
                            self._unpaired(pair, own, rest, kind).take(self._taken(name, kind)),
                        )
        return _Sum(
            None,
            [first, second],
            [],
            [node],
            max(self._level.get(first, 0), self._level.get(second, 0)),
        )

    def _closed(self, node: Node, found: _Sum) -> _Sum:
        found.nodes.append(node)
        return found

    def _inner(self, name: str) -> _Sum | None:
        """The sum whose result a value is, if nothing but one Add reads it."""
        graph, producer = self.graph, self.graph.producer(name)
        if (
            producer not in self._found
            or graph.use_count(name) != 1
            or graph.is_output(name)
            or graph.is_captured(name)
        ):
            return None
        return self._found[producer]

    def _kind(self, name: str) -> Hashable | None:
        """Level and operator of a value, or of the terms of a sum.

        ``None`` for one that no stackable operator computes.
        """
        inner = self._inner(name)
        if inner is not None and inner.kind is not None:
            return inner.kind
        producer = self.graph.producer(name)
        stackable = producer is not None and not producer.domain and producer.op_type in STACKABLE
        return (self._level[name], producer.op_type) if producer is not None and stackable else None

    def _taken(self, name: str, kind: Hashable) -> _Sum:
        """A value as a sum of terms of a kind: the sum that it is the result of, or one term."""
        inner = self._inner(name)
        if inner is None or inner.kind is None:
            return _Sum(kind, [name], [], [], self._level[name])
        producer = self.graph.producer(name)
        assert producer is not None
        return self._found.pop(producer)

    def _unpaired(self, pair: _Sum, own: str, rest: str, kind: Hashable) -> _Sum:
        """Two terms as a sum of terms of the kind of the first one."""
        del self._found[pair.nodes[0]]
        found, inner = self._taken(own, kind), self._inner(rest)
        if inner is None or inner.kind is None:
            return found.take(_Sum(kind, [], [rest], pair.nodes, self._level.get(rest, 0)))
        del self._found[inner.nodes[-1]]
        return found.take(
            _Sum(kind, [], inner.like + inner.others, inner.nodes + pair.nodes, inner.level)
        )


_NONE: Final = None
"""The class of values that no stackable node computes."""


@dataclass(eq=False)
class Group:
    """Nodes that are computed together."""

    # number of nodes on the longest path to each of them; equal for all, so that none depends on
    # another
    level: int
    # For each node, in the order of the lanes, its operands; if the operator is commutative, in the
    # order in which they are alike. The last Add of a sum has all terms of it
    operands: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    # For each result its place among the results of its node, and its lane
    lane: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes in the order of the lanes."""
        return self.operands

    def __len__(self) -> int:
        return len(self.operands)

    def arrange(self, order: Iterable[Node]) -> None:
        """Fix the order of the lanes: the given ones first, then the others as they are."""
        self.operands = {node: self.operands[node] for node in dict.fromkeys((*order, *self.nodes))}
        self.lane = {
            name: (place, lane)
            for lane, node in enumerate(self.nodes)
            for place, name in enumerate(node.output)
        }

    @property
    def first(self) -> Node:
        """One of the nodes, for what they have in common."""
        return next(iter(self.operands))

    @property
    def columns(self) -> list[tuple[str, ...]]:
        """For each operand the names that the lanes read."""
        return list(zip(*self.operands.values(), strict=True))


def find_groups(sums: Sums, fewest: int = 2) -> list[Group]:
    """The groups of a graph, lower levels first: ``fewest`` nodes of one level or more with equal
    settings and operands alike.

    The colour of a node is the number of its class: equal settings, level, and colours of the
    operands. One sweep from the lowest level up finds all colours, in time proportional to the
    number of operands. Settings take much longer to find than levels: only nodes with a peer of
    their operator and level are compared.
    """
    graph, found = sums.graph, dict[Hashable, Group]()
    colours = _Colours(graph)
    for level, nodes in _side_by_side(sums, fewest):
        for node in nodes:
            terms = sums.terms(node)
            alike = settings(graph, node, terms)
            if alike is None:
                colours.learn(node, _NONE)
                continue
            operands = [
                (colours.of(name), operand, name)
                for name, operand in zip(terms, alike.operands, strict=True)
            ]
            if is_commutative(node.op_type, node.domain):
                # (hashes differ between processes)
                operands.sort(key=lambda operand: (operand[0], repr(operand[1])))
            key = (alike.own, level, *(operand[:2] for operand in operands))
            colours.learn(node, key)
            found.setdefault(key, Group(level)).operands[node] = tuple(
                name for *_, name in operands
            )
    return [group for group in found.values() if len(group) >= fewest]


def _side_by_side(sums: Sums, fewest: int) -> list[tuple[int, list[Node]]]:
    """Nodes of one operator and level, where there are several, with their level.

    Lower levels first.
    """
    found: dict[tuple[int, str], list[Node]] = {}
    for node, level in sums.levels.items():
        if node.op_type in STACKABLE:
            found.setdefault((level, node.op_type), []).append(node)
    return sorted(
        ((level, nodes) for (level, _), nodes in found.items() if len(nodes) >= fewest),
        key=itemgetter(0),
    )


class _Colours:
    """The colours of results: the class of the node, and the place among its results.

    Results of one node without a peer are alike, whatever their places are: towers read the parts
    of one Split. So are parts of one value that a Slice each takes.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._classes: dict[Hashable, int] = {_NONE: 0}
        # the colour of each Slice without a peer, as a part of its value
        self._parts: dict[int, int] = {}
        self._found: dict[str, tuple[int, int]] = {}
        self._members: Counter[int] = Counter()

    def learn(self, node: Node, key: Hashable) -> None:
        """Give a node the class of a key."""
        colour = self._classes.setdefault(key, len(self._classes))
        self._members[colour] += 1
        self._found.update((name, (colour, place)) for place, name in enumerate(node.output))

    def of(self, name: str) -> tuple[int, int]:
        """The colour of a value, whose class is complete.

        A stackable node without a peer is a class of its own.
        """
        if name not in self._found:
            producer = self.graph.producer(name)
            if producer is None:
                return 0, 0
            self.learn(producer, _NONE if settings(self.graph, producer) is None else producer)
        colour, place = self._found[name]
        if not colour or self._members[colour] > 1:
            return colour, place if colour else 0
        return self._part(name, colour), 0

    def _part(self, name: str, colour: int) -> int:
        """The colour of a result that is alone in its class: all parts of a value have one colour
        if it is a Slice.
        """
        if colour not in self._parts:
            key = part_of(self.graph, name)
            self._parts[colour] = (
                colour if key is None else self._classes.setdefault(key, len(self._classes))
            )
        return self._parts[colour]


def part_of(graph: Graph, name: str) -> Hashable | None:
    """The value that a Slice takes a part of, and the type and shape of the part.

    ``None`` for results of other operators.
    """
    producer = graph.producer(name)
    if producer is None or producer.op_type != "Slice" or producer.domain:
        return None
    info = graph.info_of(name)
    return producer.input[0], info.dtype, info.shape


def by_result(groups: Iterable[Group]) -> dict[str, Group]:
    """The group of each result."""
    return {name: group for group in groups for node in group.nodes for name in node.output}


def arrange(groups: list[Group]) -> None:
    """Order the lanes of all groups from the last level up, so that the readers of a group find
    their operands side by side.
    """
    group_of = by_result(groups)
    wanted: dict[Group, list[Node]] = {}
    producers = {name: node for group in groups for node in group.nodes for name in node.output}
    for group in sorted(groups, key=lambda group: -group.level):
        group.arrange(wanted.get(group, ()))
        for column in group.columns:
            for name in column:
                if name in group_of:
                    wanted.setdefault(group_of[name], []).append(producers[name])
