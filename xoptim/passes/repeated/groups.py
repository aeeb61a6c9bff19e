"""Groups of nodes of one level with equal settings, and the order of their lanes.

A *lane* is an index of the batch dimension along which the nodes of a group are stacked. A sum that
is written as several Adds counts as one node.
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
_SOFTMAXES: Final = operators_with(Trait.SOFTMAX)
LANE: Final = -1
"""The label of the axis of lanes, the batch dimension."""
STACKABLE: Final = _PLAIN | _WITH_PARAMETERS | _SOFTMAXES


class LaneOperand(NamedTuple):
    """Properties that the operands of a group of nodes have in common."""

    dtype: int  # element type
    shape: tuple[Hashable, ...]  # the shape of each; dimensions may be symbolic
    is_constant: bool  # whether they are stored


class Settings(NamedTuple):
    """Properties that nodes which are computed together have in common."""

    own: tuple[Hashable, ...]  # operator, attributes, types and shapes of the results
    # for each operand its type and shape, the value of a parameter such as axes, "" if omitted
    operands: tuple[Hashable, ...]


def settings(graph: Graph, node: Node, terms: Sequence[str] | None = None) -> Settings | None:
    """The settings of a node, ``None`` if it cannot be stacked.

    ``terms`` replace its operands: the last Add of a sum stands for the complete sum.
    """
    if node.domain or node.op_type not in STACKABLE or node.bodies or not all(node.output):
        return None
    results = [graph.info_of(name) for name in node.output]
    if not all(map(_is_known, results)) or not _is_allowed(graph, node):
        return None
    operands: list[Hashable] = []
    for place, name in enumerate(node.input if terms is None else terms):
        operand = (
            ""
            if not name
            else _parameter(graph, name)
            if is_parameter(node, place)
            else _operand(graph, name)
        )
        if operand is None:
            return None
        operands.append(operand)
    attributes = tuple(sorted((key, _frozen(value)) for key, value in node.attribute.items()))
    return Settings(
        (node.op_type, attributes, *((info.dtype, info.shape) for info in results)), tuple(operands)
    )


def is_parameter(node: Node, place: int) -> bool:
    """Whether an operand of a stackable operator is a parameter: equal for all nodes of a group."""
    return place > 0 and node.op_type in _WITH_PARAMETERS


def _is_known(info: Info) -> bool:
    return info.is_tensor and bool(info.dtype) and info.shape is not None


def _is_allowed(graph: Graph, node: Node) -> bool:
    """Whether a stack can express the attributes of a node."""
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


_SUM_TYPES: Final = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
)
"""Element types of sums: onnxruntime reduces few integer types, and computes these in float64."""


@dataclass(eq=False, slots=True)
class _Sum:
    """The terms of an Add, and of the Adds that it adds up."""

    # the common level and operator of most terms, ``None`` for an Add of two different terms
    kind: Hashable | None
    peers: list[str]  # the terms of that kind
    other_terms: list[str]  # all other terms
    nodes: list[Node]  # the Adds
    level: int  # the highest level of a term

    def merged(self, addend: _Sum) -> _Sum:
        """Merge two sums into the larger one, so that all merges take nearly linear time."""
        small, large = sorted((self, addend), key=lambda item: len(item.nodes))
        large.peers += small.peers
        large.other_terms += small.other_terms
        large.nodes += small.nodes
        large.level = max(large.level, small.level)
        return large


@dataclass(eq=False)
class Sums:
    """The levels of the nodes of a graph; a sum that is written as several Adds is one node.

    The Adds of ``((a + b) + c) + d``, or of ``(a + b) + (c + d)``, are one sum if terms are on one
    level and results of one operator, and nothing else reads the partial sums. Other terms may come
    anywhere: ``((x + a) + b) + c``.
    """

    graph: Graph
    # number of nodes on the longest path to each node; Adds within a sum have no entry
    levels: dict[Node, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._level: dict[str, int] = {}
        self._sums: dict[Node, _Sum] = {}
        for node in self.graph.nodes:
            total = (
                self._sum(node)
                if node.op_type == "Add" and not node.domain and len(node.input) == 2
                else None
            )
            if total is not None:
                self._sums[node] = total
                level = total.level + 1
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
        # the last Add of the sum, for each Add before it
        self._last: dict[Node, Node] = {}
        for last, total in self._sums.items():
            for node in total.nodes:
                if node is not last:
                    self._last[node] = last
                    del self.levels[node]

    def is_sum(self, node: Node) -> bool:
        """Whether a node adds floating-point numbers."""
        return node in self._sums or (
            node.op_type == "Sum" and not node.domain and node in self.levels
        )

    def terms(self, node: Node) -> Sequence[str]:
        """The operands of a node: the last Add of a sum reads all terms."""
        total = self._sums.get(node)
        return (
            node.input
            if total is None or len(total.nodes) == 1
            else (*total.peers, *total.other_terms)
        )

    def parts(self, node: Node) -> Sequence[Node]:
        """The node itself, and the Adds before it in a sum."""
        total = self._sums.get(node)
        return (node,) if total is None else total.nodes

    def readers(self, names: Iterable[str]) -> list[Node]:
        """The nodes that read any of some values, each once."""
        nodes: dict[Node, None] = {}
        for name in names:
            for reader in self.graph.consumers(name):
                nodes[self._last.get(reader, reader)] = None
        return list(nodes)

    # ---------------------------------------------------------------- the sweep

    def _sum(self, node: Node) -> _Sum | None:
        """The sum that ends with an Add, ``None`` for integers; the sums within it are removed."""
        first, second = node.input
        if self.graph.info_of(node.output[0]).dtype not in _SUM_TYPES:
            return None
        for name, peer in ((first, second), (second, first)):
            kind = self._kind(name)
            if kind is None:
                continue
            if kind == self._kind(peer):
                return self._closed(
                    node, self._as_sum(first, kind).merged(self._as_sum(second, kind))
                )
            pair = self._inner(peer)
            if pair is not None and pair.kind is None and first != second:
                for term, other_term in (pair.peers, pair.peers[::-1]):
                    if self._kind(term) == kind:
                        return self._closed(
                            node,
                            self._unpaired(pair, term, other_term, kind).merged(
                                self._as_sum(name, kind)
                            ),
                        )
        return _Sum(
            None,
            [first, second],
            [],
            [node],
            max(self._level.get(first, 0), self._level.get(second, 0)),
        )

    def _closed(self, node: Node, total: _Sum) -> _Sum:
        total.nodes.append(node)
        return total

    def _inner(self, name: str) -> _Sum | None:
        """The sum that computes a value, if only one Add reads it."""
        graph, producer = self.graph, self.graph.producer(name)
        if (
            producer not in self._sums
            or graph.use_count(name) != 1
            or graph.is_output(name)
            or graph.is_captured(name)
        ):
            return None
        return self._sums[producer]

    def _kind(self, name: str) -> Hashable | None:
        """Level and operator of a value, or of the terms of a sum; ``None`` if the operator is not
        stackable.
        """
        inner = self._inner(name)
        if inner is not None and inner.kind is not None:
            return inner.kind
        producer = self.graph.producer(name)
        stackable = producer is not None and not producer.domain and producer.op_type in STACKABLE
        return (self._level[name], producer.op_type) if producer is not None and stackable else None

    def _as_sum(self, name: str, kind: Hashable) -> _Sum:
        """A value as a sum of terms of a kind: the sum that computes it, or a single term."""
        inner = self._inner(name)
        if inner is None or inner.kind is None:
            return _Sum(kind, [name], [], [], self._level[name])
        producer = self.graph.producer(name)
        assert producer is not None
        return self._sums.pop(producer)

    def _unpaired(self, pair: _Sum, term: str, other_term: str, kind: Hashable) -> _Sum:
        """Two terms as a sum whose kind is that of ``term``."""
        del self._sums[pair.nodes[0]]
        total, inner = self._as_sum(term, kind), self._inner(other_term)
        if inner is None or inner.kind is None:
            return total.merged(
                _Sum(kind, [], [other_term], pair.nodes, self._level.get(other_term, 0))
            )
        del self._sums[inner.nodes[-1]]
        return total.merged(
            _Sum(kind, [], inner.peers + inner.other_terms, inner.nodes + pair.nodes, inner.level)
        )


_NONE: Final = None
"""The class of values that no stackable node computes."""


@dataclass(eq=False)
class Group:
    """Nodes that are computed together."""

    # number of nodes on the longest path to each of them; equal for all, so that none depends on
    # another
    level: int
    # The operands of each node, in the order of the lanes. Operands of commutative operators are
    # sorted so that they correspond; the last Add of a sum has all its terms
    operands: dict[Node, tuple[str, ...]] = field(default_factory=dict)
    # for each result its index among the results of its node, and its lane
    lane: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes in the order of the lanes."""
        return self.operands

    def __len__(self) -> int:
        return len(self.operands)

    def arrange(self, order: Iterable[Node]) -> None:
        """Fix the order of the lanes: nodes in ``order`` first, then the rest in present order."""
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
    """The groups of a graph, lower levels first: at least ``fewest`` nodes of one level with equal
    settings and corresponding operands.

    The colour of a node is the number of its class: equal settings, level, and colours of the
    operands. One sweep from the lowest level up determines all colours, in time proportional to the
    number of operands. Settings are much slower to compute than levels: only nodes with a peer of
    their operator and level are compared.
    """
    graph, groups = sums.graph, dict[Hashable, Group]()
    colours = _Colours(graph)
    for level, nodes in _with_peers(sums, fewest):
        for node in nodes:
            terms = sums.terms(node)
            node_settings = settings(graph, node, terms)
            if node_settings is None:
                colours.learn(node, _NONE)
                continue
            operands = [
                (colours.of(name), operand, name)
                for name, operand in zip(terms, node_settings.operands, strict=True)
            ]
            if is_commutative(node.op_type, node.domain):
                # by `repr`, because hashes differ between processes
                operands.sort(key=lambda operand: (operand[0], repr(operand[1])))
            key = (node_settings.own, level, *(operand[:2] for operand in operands))
            colours.learn(node, key)
            groups.setdefault(key, Group(level)).operands[node] = tuple(
                name for *_, name in operands
            )
    return [group for group in groups.values() if len(group) >= fewest]


def _with_peers(sums: Sums, fewest: int) -> list[tuple[int, list[Node]]]:
    """The levels and nodes of operators with ``fewest`` nodes or more on a level, lower levels
    first.
    """
    groups: dict[tuple[int, str], list[Node]] = {}
    for node, level in sums.levels.items():
        if node.op_type in STACKABLE:
            groups.setdefault((level, node.op_type), []).append(node)
    return sorted(
        ((level, nodes) for (level, _), nodes in groups.items() if len(nodes) >= fewest),
        key=itemgetter(0),
    )


class _Colours:
    """The colours of results: the class of the node, and the index among its results.

    All results of a node without a peer have one colour: parallel branches read the parts of one
    Split. Slices of one value have one colour as well.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._classes: dict[Hashable, int] = {_NONE: 0}
        # the colour of each Slice without a peer, as a part of its value
        self._parts: dict[int, int] = {}
        self._colours: dict[str, tuple[int, int]] = {}
        self._members: Counter[int] = Counter()

    def learn(self, node: Node, key: Hashable) -> None:
        """Give a node the class of a key."""
        colour = self._classes.setdefault(key, len(self._classes))
        self._members[colour] += 1
        self._colours.update((name, (colour, place)) for place, name in enumerate(node.output))

    def of(self, name: str) -> tuple[int, int]:
        """The colour of a value; all nodes of its class must have been learned.

        A stackable node without a peer is a class of its own.
        """
        if name not in self._colours:
            producer = self.graph.producer(name)
            if producer is None:
                return 0, 0
            self.learn(producer, _NONE if settings(self.graph, producer) is None else producer)
        colour, place = self._colours[name]
        if not colour or self._members[colour] > 1:
            return colour, place if colour else 0
        return self._part(name, colour), 0

    def _part(self, name: str, colour: int) -> int:
        """The colour of a result that is alone in its class; Slices of one value share a colour."""
        if colour not in self._parts:
            key = part_of(self.graph, name)
            self._parts[colour] = (
                colour if key is None else self._classes.setdefault(key, len(self._classes))
            )
        return self._parts[colour]


def part_of(graph: Graph, name: str) -> Hashable | None:
    """The operand of a Slice, and type and shape of its result; ``None`` for other operators."""
    producer = graph.producer(name)
    if producer is None or producer.op_type != "Slice" or producer.domain:
        return None
    info = graph.info_of(name)
    return producer.input[0], info.dtype, info.shape


def by_result(groups: Iterable[Group]) -> dict[str, Group]:
    """The group of each result."""
    return {name: group for group in groups for node in group.nodes for name in node.output}


def arrange(groups: list[Group]) -> None:
    """Order the lanes of all groups, the last level first, so that the consumers of a group read
    adjacent lanes.
    """
    group_of = by_result(groups)
    orders: dict[Group, list[Node]] = {}
    producers = {name: node for group in groups for node in group.nodes for name in node.output}
    for group in sorted(groups, key=lambda group: -group.level):
        group.arrange(orders.get(group, ()))
        for column in group.columns:
            for name in column:
                if name in group_of:
                    orders.setdefault(group_of[name], []).append(producers[name])
