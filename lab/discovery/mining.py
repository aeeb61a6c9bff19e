"""The subgraphs of a few nodes that occur most often in models, by the expression that they
compute.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from pathlib import Path
from typing import Any, Final, NamedTuple

import onnx

from xoptim.facts.dtypes import is_float, is_integer
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.operators import operator_label
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.operators.registry import is_commutative

_MOST_ORDERED: Final = 3
"""Operands of a commutative operator with more than these are taken in the order of the node."""


class Leaf(NamedTuple):
    """An operand from outside: a ``value``, ``constant`` or ``text``.

    Equal values and constants have equal keys; the key of a text is the text to show.
    """

    kind: str
    key: int | str


class Inner(NamedTuple):
    """An operand that a node of the subgraph computes: its place, and the number of its result."""

    place: int
    output: int


class PieceCall(NamedTuple):
    """A node of the subgraph."""

    domain: str
    op_type: str
    operands: tuple[Leaf | Inner, ...]


Piece = tuple[PieceCall, ...]
"""The nodes of a subgraph, producers before their readers."""


def canonical(piece: Piece) -> str:
    """The form of a subgraph.

    Of all texts for all orders of the results, and of the operands of commutative operators, the
    least one.
    """
    read = {
        operand.place for call in piece for operand in call.operands if isinstance(operand, Inner)
    }
    results = [place for place in range(len(piece)) if place not in read]
    orders = list(product(*map(_orders, piece)))
    return min(_Text(calls).of(ends) for ends in permutations(results) for calls in orders)


def _orders(call: PieceCall) -> Sequence[PieceCall]:
    """A call with its operands in all orders that compute the same."""
    if len(call.operands) > _MOST_ORDERED or not is_commutative(call.op_type, call.domain):
        return (call,)
    orders = dict.fromkeys(permutations(call.operands))
    return [call._replace(operands=operands) for operands in orders]


class _Text:
    """Writes a subgraph as an expression."""

    def __init__(self, calls: Sequence[PieceCall]) -> None:
        self._calls = calls
        self._uses = Counter(
            operand.place
            for call in calls
            for operand in call.operands
            if isinstance(operand, Inner)
        )
        self._leaves: dict[str, dict[Leaf, str]] = {"value": {}, "constant": {}}
        self._shared: dict[int, str] = {}
        self._lines: list[str] = []

    def of(self, results: Sequence[int]) -> str:
        """The expressions of values that are read more than once, then of the results."""
        last = [self._call(place) for place in results]
        return "; ".join((*self._lines, *last))

    def _call(self, place: int) -> str:
        call = self._calls[place]
        label = operator_label(call.op_type, call.domain)
        return f"{label}({', '.join(self._operands(call))})"

    def _operands(self, call: PieceCall) -> Iterator[str]:
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


_BOOL: Final = onnx.TensorProto.BOOL
MOST_NODES: Final = 5
"""Maximum nodes of a subgraph: each further one makes two to four times as many subgraphs."""
_MOST_LINKS: Final = 8
"""A result with more readers, or a node that reads more results, links nothing: it would link them
in all combinations.
"""
_MOST_SUBGRAPHS: Final = 1_000_000
"""Maximum subgraphs of one graph, divided equally among the nodes at which a search starts."""


@dataclass(slots=True)
class Motif(JsonResult):
    """Subgraphs of one form."""

    __json__ = JsonForm("form nodes count exclusive models model place")
    # The expression that they compute, without attributes: ``Mul(a, Sigmoid(a))``. Several results
    # are separated by semicolons. Small letters are computed values, capital letters constants,
    # ``t1`` is a result that is read twice inside; a constant of one element is written as its
    # number, an operand that is left out as ``_``
    form: str
    nodes: int
    model: str  # a model with such a place, the first one that was given
    # the nodes of a place in it, by name, or by their first result if they have none
    place: tuple[str, ...]
    count: int = 0  # number of places, which may overlap
    exclusive: int = 0  # number of places where nothing else reads the results inside
    models: int = 0


def mine(models: Iterable[Any], size: int = MOST_NODES) -> list[Motif]:
    """Find the connected subgraphs of models, and count those of one form together: largest first,
    then most frequent first.

    Two nodes are connected when one reads a result of the other. Nodes of branches, loops and local
    functions count too; no subgraph reaches beyond such a body, or has more than ``size`` nodes,
    from 2 to `MOST_NODES`. Files are read one after the other. Raises `ModelError` when a model
    cannot be read.
    """
    motifs: dict[str, Motif] = {}
    forms: dict[tuple[int, ...], str] = {}
    words: dict[Hashable, int] = {}
    for number, model in enumerate(models):
        source = Source(model)
        label = str(model) if isinstance(model, (str, Path)) else f"model {number}"
        model_forms: set[str] = set()
        for graph in load_model(source.proto, source.base_dir).graphs():
            links = _Links(graph, words)
            for places in links.subgraphs(size):
                key = links.key(places)
                form = forms.get(key) or forms.setdefault(key, canonical(links.piece(places)))
                motif = motifs.get(form) or motifs.setdefault(
                    form, Motif(form, len(places), label, links.names(places))
                )
                motif.count += 1
                motif.exclusive += links.are_exclusive(places)
                model_forms.add(form)
        for form in model_forms:
            motifs[form].models += 1
    return sorted(
        motifs.values(),
        key=lambda motif: (-motif.nodes, -motif.exclusive, -motif.count, motif.form),
    )


class _Links:
    """The nodes of a graph, numbered in its order, and which of them are connected.

    Its Constant nodes count as constants.

    ``words`` numbers operators and kinds of operands, the same for all graphs.
    """

    def __init__(self, graph: Graph, words: dict[Hashable, int]) -> None:
        self._graph = graph
        self._nodes = [node for node in graph.nodes if node.domain or node.op_type != "Constant"]
        numbers = {node: number for number, node in enumerate(self._nodes)}
        self._made = {
            name: (numbers[node], place)
            for node in self._nodes
            for place, name in enumerate(node.output)
            if name
        }
        self._readers = [
            {numbers[r] for name in filter(None, node.output) for r in graph.consumers(name)}
            for node in self._nodes
        ]
        self._is_read_outside = [
            any(map(self._leaves, filter(None, node.output))) for node in self._nodes
        ]
        self._neighbours: list[list[int]] = [[] for _ in self._nodes]
        values: dict[str, int] = {}
        self._kinds: dict[str, tuple[str, str]] = {}
        self._results = [
            [
                (values.setdefault(name, len(values)), place)
                for place, name in enumerate(node.output)
                if name
            ]
            for node in self._nodes
        ]
        self._rows = [self._row(node, values, words) for node in self._nodes]
        for number, node in enumerate(self._nodes):
            producers = sorted({self._made[name][0] for name in node.input if name in self._made})
            for producer in producers if len(producers) <= _MOST_LINKS else ():
                if len(self._readers[producer]) <= _MOST_LINKS:
                    self._neighbours[producer].append(number)
                    self._neighbours[number].append(producer)

    def _leaves(self, name: str) -> bool:
        return self._graph.is_output(name) or self._graph.is_captured(name)

    def subgraphs(self, size: int) -> Iterator[tuple[int, ...]]:
        """All connected sets of 2 to ``size`` nodes, each once, as numbers in ascending order.

        Each set is found from its first node, and grows by nodes that were not neighbours of it
        before (the enumeration of Wernicke, "Efficient detection of network motifs", 2006).
        """
        if self._nodes:
            limit = max(_MOST_SUBGRAPHS // len(self._nodes), 1)
            for first in range(len(self._nodes)):
                later = [number for number in self._neighbours[first] if number > first]
                yield from islice(self._grown((first,), later, {first, *later}, size), limit)

    def _grown(
        self, chosen: tuple[int, ...], neighbors: list[int], seen: set[int], size: int
    ) -> Iterator[tuple[int, ...]]:
        for place, number in enumerate(neighbors):
            larger = (*chosen, number)
            yield tuple(sorted(larger))
            if len(larger) < size:
                new_neighbors = [
                    neighbor
                    for neighbor in self._neighbours[number]
                    if neighbor > chosen[0] and neighbor not in seen
                ]
                remaining = [*neighbors[place + 1 :], *new_neighbors]
                yield from self._grown(larger, remaining, {*seen, *new_neighbors}, size)

    def key(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers that are equal for subgraphs of equal `piece`.

        Found much faster than the piece itself.
        """
        local: dict[int, int] = {}
        for place, number in enumerate(places):
            for value, output in self._results[number]:
                local[value] = -1 - place - len(places) * output
        inside = len(local)
        key = []
        for number in places:
            label, operands = self._rows[number]
            key.append(label)
            for word, value in operands:
                key.append(word)
                if value >= 0:
                    key.append(local.setdefault(value, len(local) - inside))
        return tuple(key)

    def piece(self, places: tuple[int, ...]) -> Piece:
        """The nodes of a subgraph with what they read."""
        inside = {number: place for place, number in enumerate(places)}
        leaves: dict[str, Leaf] = {}
        return tuple(self._call(self._nodes[number], inside, leaves) for number in places)

    def _call(self, node: Node, inside: Mapping[int, int], leaves: dict[str, Leaf]) -> PieceCall:
        operands: list[Leaf | Inner] = []
        for name in node.input:
            number, output = self._made.get(name, (-1, 0))
            kind, text = self._kind(name)
            operands.append(
                Inner(inside[number], output)
                if number in inside
                else leaves.setdefault(name, Leaf(kind, text or len(leaves)))
            )
        return PieceCall(node.domain, node.op_type, tuple(operands))

    def _row(
        self, node: Node, values: dict[str, int], words: dict[Hashable, int]
    ) -> tuple[int, list[tuple[int, int]]]:
        """The number of the operator, and for each operand the number of its kind and its own.

        Its own number is -1 if the kind says all.
        """
        operands = []
        for name in node.input:
            kind, text = self._kind(name)
            word = words.setdefault((kind, text), len(words))
            operands.append((word, -1 if text else values.setdefault(name, len(values))))
        return words.setdefault((node.domain, node.op_type, len(operands)), len(words)), operands

    def _kind(self, name: str) -> tuple[str, str]:
        """The kind of a leaf, and its text if it is not named by a letter."""
        if name not in self._kinds:
            self._kinds[name] = self._find_kind(name)
        return self._kinds[name]

    def _find_kind(self, name: str) -> tuple[str, str]:
        tensor = self._graph.tensor(name) if name else None
        if tensor is None:
            return ("value", "") if name else ("text", "_")
        if tensor.size != 1 or not (
            is_float(tensor.dtype) or is_integer(tensor.dtype) or tensor.dtype == _BOOL
        ):
            return "constant", ""
        return "text", f"{float(tensor.numpy().item()):g}"

    def are_exclusive(self, places: tuple[int, ...]) -> bool:
        """Whether nothing but these nodes reads the results that they read themselves."""
        inside = set(places)
        read = (number for number in places if not inside.isdisjoint(self._readers[number]))
        return all(
            self._readers[number] <= inside and not self._is_read_outside[number] for number in read
        )

    def names(self, places: tuple[int, ...]) -> tuple[str, ...]:
        """The nodes, by name or by their first result."""
        nodes = [self._nodes[number] for number in places]
        return tuple(node.name or next(filter(None, node.output), node.op_type) for node in nodes)
