"""Find the subgraphs of a few nodes that occur most often in models, by the expression that they
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

_MAX_PERMUTED: Final = 3
"""Maximum number of operands of a commutative operator whose orders are all tried."""


class Leaf(NamedTuple):
    """An operand from outside of the subgraph: a ``value``, ``constant`` or ``text``.

    Equal values and constants have equal keys; the key of a text is the text to show.
    """

    kind: str
    key: int | str


class Inner(NamedTuple):
    """An operand that a node of the subgraph computes: ``place`` is the index of the node, and
    ``output`` the index of the result.
    """

    place: int
    output: int


class PieceCall(NamedTuple):
    """A node of the subgraph."""

    domain: str
    op_type: str
    operands: tuple[Leaf | Inner, ...]


Piece = tuple[PieceCall, ...]
"""The nodes of a subgraph, producers before their consumers."""


def canonical(piece: Piece) -> str:
    """The form of a subgraph.

    It is the lexicographically smallest text, over all orders of the results and of the operands of
    commutative operators.
    """
    producers = {
        operand.place for call in piece for operand in call.operands if isinstance(operand, Inner)
    }
    results = [place for place in range(len(piece)) if place not in producers]
    orders = list(product(*map(_orders, piece)))
    return min(_Text(calls).of(ends) for ends in permutations(results) for calls in orders)


def _orders(call: PieceCall) -> Sequence[PieceCall]:
    """A call with its operands in all orders that compute the same."""
    if len(call.operands) > _MAX_PERMUTED or not is_commutative(call.op_type, call.domain):
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
        """The text: assignments of values that are read more than once, then the results."""
        expressions = [self._call(place) for place in results]
        return "; ".join((*self._lines, *expressions))

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
            text = self._call(place)  # first, as it adds the assignments of its own operands
            self._shared[place] = f"t{len(self._shared) + 1}"
            self._lines.append(f"{self._shared[place]} = {text}")
        return self._shared[place]


def _letter(number: int, first: str) -> str:
    """``a`` to ``z``, then ``a1`` to ``z1``, and so on."""
    suffix, index = divmod(number, 26)
    return chr(ord(first) + index) + (str(suffix) if suffix else "")


_BOOL: Final = onnx.TensorProto.BOOL
MOST_NODES: Final = 5
"""Maximum nodes of a subgraph: each further one makes two to four times as many subgraphs."""
_MAX_LINKS: Final = 8
"""Maximum number of consumers of a node, and of producers of a node, that count as connected.

With more of them, there would be a subgraph for each combination.
"""
_MAX_SUBGRAPHS: Final = 1_000_000
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
    model: str  # the first model in which the form occurs
    # the nodes of the first place in this model: their names, or their first results
    place: tuple[str, ...]
    count: int = 0  # number of places, which may overlap
    exclusive: int = 0  # number of places where no other node reads an intermediate result
    models: int = 0  # number of models in which the form occurs


def mine(models: Iterable[Any], size: int = MOST_NODES) -> list[Motif]:
    """Find the connected subgraphs of models, and count them by form.

    Two nodes are connected when one reads a result of the other. Branches, loop bodies and local
    functions are searched as well; no subgraph crosses the border of such a body. Files are read
    one after the other.

    Args:
        models: models or their files.
        size: maximum number of nodes of a subgraph, from 2 to `MOST_NODES`.

    Returns:
        The forms with most nodes first; those of as many nodes by frequency.

    Raises:
        ModelError: a model cannot be read.
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

    Constant nodes are operands, and have no number.

    Args:
        graph: the graph.
        words: numbers of operators and kinds of operands, shared by all graphs and extended here.
    """

    def __init__(self, graph: Graph, words: dict[Hashable, int]) -> None:
        self._graph = graph
        self._nodes = [node for node in graph.nodes if node.domain or node.op_type != "Constant"]
        numbers = {node: number for number, node in enumerate(self._nodes)}
        self._producers = {
            name: (numbers[node], index)
            for node in self._nodes
            for index, name in enumerate(node.output)
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
                (values.setdefault(name, len(values)), index)
                for index, name in enumerate(node.output)
                if name
            ]
            for node in self._nodes
        ]
        self._rows = [self._row(node, values, words) for node in self._nodes]
        for number, node in enumerate(self._nodes):
            producers = sorted(
                {self._producers[name][0] for name in node.input if name in self._producers}
            )
            for producer in producers if len(producers) <= _MAX_LINKS else ():
                if len(self._readers[producer]) <= _MAX_LINKS:
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
            limit = max(_MAX_SUBGRAPHS // len(self._nodes), 1)
            for first in range(len(self._nodes)):
                neighbors = [number for number in self._neighbours[first] if number > first]
                grown = self._grown((first,), neighbors, {first, *neighbors}, size)
                yield from islice(grown, limit)

    def _grown(
        self, subgraph: tuple[int, ...], neighbors: list[int], excluded: set[int], size: int
    ) -> Iterator[tuple[int, ...]]:
        """All larger subgraphs: ``subgraph`` with one of the neighbors, and what grows from it.

        ``excluded`` has the nodes of the subgraph and all nodes that were its neighbors before.
        """
        for index, number in enumerate(neighbors):
            larger_subgraph = (*subgraph, number)
            yield tuple(sorted(larger_subgraph))
            if len(larger_subgraph) < size:
                new_neighbors = [
                    neighbor
                    for neighbor in self._neighbours[number]
                    if neighbor > subgraph[0] and neighbor not in excluded
                ]
                candidates = [*neighbors[index + 1 :], *new_neighbors]
                all_excluded = {*excluded, *new_neighbors}
                yield from self._grown(larger_subgraph, candidates, all_excluded, size)

    def key(self, places: tuple[int, ...]) -> tuple[int, ...]:
        """A key that is equal for subgraphs of an equal `piece`, and much faster to compute."""
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
            number, output = self._producers.get(name, (-1, 0))
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
        """The number of the operator, and for each operand the numbers of its kind and its value.

        The number of the value is -1 for a kind that has a text, such as a scalar constant.
        """
        operands = []
        for name in node.input:
            kind, text = self._kind(name)
            word = words.setdefault((kind, text), len(words))
            operands.append((word, -1 if text else values.setdefault(name, len(values))))
        return words.setdefault((node.domain, node.op_type, len(operands)), len(words)), operands

    def _kind(self, name: str) -> tuple[str, str]:
        """The kind of an operand, and its text if no letter stands for it."""
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
        """Whether no other node, subgraph or graph output reads the intermediate results."""
        inside = set(places)
        producers = (number for number in places if not inside.isdisjoint(self._readers[number]))
        return all(
            self._readers[number] <= inside and not self._is_read_outside[number]
            for number in producers
        )

    def names(self, places: tuple[int, ...]) -> tuple[str, ...]:
        """The nodes, by name or by their first result."""
        nodes = [self._nodes[number] for number in places]
        return tuple(node.name or next(filter(None, node.output), node.op_type) for node in nodes)
