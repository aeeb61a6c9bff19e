"""The nodes of a model, with names by which answers are matched, and facts about them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx
from onnx import TensorProto

from xoptim.facts.dtypes import type_name
from xoptim.facts.operators import operator_label
from xoptim.facts.protos import every_node
from xoptim.facts.schema import since_version
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.propagate import quietly
from xoptim.graph.splice import inline_functions
from xoptim.graph.walk import all_nodes, reads
from xoptim.operators.registry import Trait, operators_with

_PREFIX: Final = "xopt_node_"
_NAME: Final = re.compile(rf"{_PREFIX}(\d+)")
_SIZES: Final = operators_with(Trait.MEASURES)


@dataclass(frozen=True, slots=True)
class ListedNode:
    """A node and the facts that a placement needs.

    Attributes:
        name: name of the node in the model, or name of its first result.
        op_type: operator.
        domain: domain of the operator.
        opset: version of the operator set of its domain that the model imports.
        since: version of that set in which the operator last changed, ``opset`` where that is
            unknown.
        types: element types of its operands, 0 where unknown.
        readers: numbers of the nodes that read its results.
        is_constant: whether it depends on constants only, and is computed when the model is loaded.
        is_shape_arithmetic: whether it computes sizes: results of Shape and Size, and small results
            that depend on such results only.
        is_static: whether the shapes of its operands and results are numbers.
        border: the input of the model that it quantizes, or the output that it dequantizes; empty
            for other nodes.
    """

    name: str
    op_type: str
    domain: str
    opset: int
    since: int
    types: tuple[int, ...]
    readers: tuple[int, ...]
    is_constant: bool
    is_shape_arithmetic: bool
    is_static: bool
    border: str = ""

    @property
    def label(self) -> str:
        """The operator with its domain."""
        return operator_label(self.op_type, self.domain)

    def types_text(self) -> str:
        """The element types of its operands, each once."""
        return ", ".join(dict.fromkeys(type_name(dtype) for dtype in self.types if dtype))


def number_in(name: str) -> int | None:
    """The number in a name that onnxruntime derived from a name of `with_numbers`, if any."""
    match = _NAME.search(name)
    return int(match[1]) if match else None


def readable(text: str, nodes: Sequence[ListedNode]) -> str:
    """A message in one line, with the names that the nodes have in the model."""

    def original(match: re.Match[str]) -> str:
        number = int(match[1])
        return nodes[number].name if number < len(nodes) else match[0]

    return _NAME.sub(original, " ".join(text.split()))


def with_numbers(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """A copy of a model whose nodes have their numbers as names, and the names that they had.

    Local functions are expanded, and weights are copied. Raises `ModelError` when a local function
    cannot be expanded.
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(inline_functions(model) if model.functions else model)
    names: list[str] = []
    for number, node in enumerate(every_node(copy.graph.node)):
        names.append(node.name or next(filter(None, node.output), node.op_type))
        node.name = f"{_PREFIX}{number}"
    return copy, names


def named(numbered: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """A copy of a model that `with_numbers` made, with the names that its nodes had."""
    copy = onnx.ModelProto()
    copy.CopyFrom(numbered)
    for node, name in zip(every_node(copy.graph.node), names, strict=True):
        node.name = name
    return copy


def listed(
    numbered: onnx.ModelProto,
    names: Sequence[str],
    base_dir: Path | None = None,
) -> list[ListedNode]:
    """The facts about the nodes of a model that `with_numbers` made, by their numbers."""
    with quietly():
        graph = load_model(numbered, base_dir).graph
    nodes = {_number_of(node): node for node in all_nodes(graph.nodes)}
    makers = {name: number for number, node in nodes.items() for name in node.output if name}
    readers: dict[int, set[int]] = {number: set() for number in nodes}
    sizes: set[int] = set()
    for node in all_nodes(graph.nodes):  # operands before their readers
        number = _number_of(node)
        for name in reads(node):
            if name in makers:
                readers[makers[name]].add(number)
        if _computes_sizes(node, makers, sizes):
            sizes.add(number)
    return [
        _facts(nodes[number], name, sorted(readers[number]), number in sizes)
        for number, name in enumerate(names)
    ]


def _number_of(node: Node) -> int:
    number = number_in(node.name)
    assert number is not None
    return number


def _facts(node: Node, name: str, readers: Sequence[int], is_shape: bool) -> ListedNode:
    graph = _graph_of(node)
    opset = graph.opsets.get(node.domain, 1)
    values = [graph.known(tensor) for tensor in (*node.input, *node.output) if tensor]
    return ListedNode(
        name=name,
        op_type=node.op_type,
        domain=node.domain,
        opset=opset,
        since=since_version(node.op_type, node.domain, opset) or opset,
        types=tuple(graph.info_of(tensor).dtype for tensor in node.input if tensor),
        readers=tuple(readers),
        is_constant=_is_constant(node),
        is_shape_arithmetic=is_shape,
        is_static=all(info is not None and info.static_shape is not None for info in values),
        border=_border(graph, node),
    )


def _border(graph: Graph, node: Node) -> str:
    """The input or output that a node converts between the caller's floats and integers, empty
    where it does not.
    """
    if node.op_type == "QuantizeLinear" and graph.is_input(node.input[0]):
        return f"the input {node.input[0]!r}"
    if node.op_type == "DequantizeLinear" and graph.is_output(node.output[0]):
        return f"the output {node.output[0]!r}"
    return ""


def _is_constant(node: Node) -> bool:
    """Whether the results of a node are stored in it, or depend on constants only."""
    graph = _graph_of(node)
    if node.op_type == "Constant":
        return True
    return all(graph.is_computed(name) for name in node.output if name)


def _computes_sizes(node: Node, makers: dict[str, int], sizes: set[int]) -> bool:
    """Whether a node reads sizes and constants only, and makes a number or a vector of them."""
    if node.op_type in _SIZES and not node.domain:
        return True
    graph = _graph_of(node)
    varying = [name for name in reads(node) if not graph.is_computed(name)]
    operands = [name for name in varying if graph.tensor(name) is None]
    if not operands or any(makers.get(name) not in sizes for name in operands):
        return False
    return all(_is_small(graph, name) for name in node.output if name)


def _is_small(graph: Graph, name: str) -> bool:
    info = graph.info_of(name)
    is_large = info.dtype == TensorProto.FLOAT16 or (info.rank is not None and info.rank > 1)
    return not is_large


def _graph_of(node: Node) -> Graph:
    assert node.graph is not None
    return node.graph


def partitions(
    nodes: Sequence[ListedNode],
    taken: Collection[int],
    left: Collection[int],
) -> dict[int, int]:
    """The partition of each node that is taken, for a provider that runs one node after the other.

    A partition has nodes that depend on each other, and no result of it returns to it through a
    node that is ``left`` to another provider. Nodes that are neither taken nor left are merged into
    their neighbours. Sizes and constants do not connect or separate nodes; those that are taken
    belong to the first partition.
    """
    sizes = {number for number, node in enumerate(nodes) if node.is_shape_arithmetic}
    small = sizes | {number for number, node in enumerate(nodes) if node.is_constant}
    left = set(left) - small
    inner = {number for number in range(len(nodes)) if number not in left and number not in small}
    stage = [0] * len(nodes)
    for number, node in enumerate(nodes):  # in the order of the model, operands first
        for reader in node.readers:
            returns = number in left and reader not in left
            stage[reader] = max(stage[reader], stage[number] + returns)
    links = _Links(len(nodes))
    for number in inner:
        for reader in nodes[number].readers:
            if reader in inner and stage[reader] == stage[number]:
                links.join(number, reader)
    numbers: dict[int, int] = {}
    partition = dict.fromkeys(taken, 0)
    for number in sorted(taken):
        if number in inner:
            partition[number] = numbers.setdefault(links.first(number), len(numbers))
    return partition


class _Links:
    """Sets of numbers that are joined (union-find)."""

    def __init__(self, count: int) -> None:
        self._next = list(range(count))

    def first(self, number: int) -> int:
        """The number that represents the set of a number."""
        while self._next[number] != number:
            self._next[number] = number = self._next[self._next[number]]
        return number

    def join(self, number: int, reader: int) -> None:
        self._next[self.first(reader)] = self.first(number)
