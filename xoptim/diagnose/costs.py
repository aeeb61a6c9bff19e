"""The parameters, operations and bytes of a model, by operator and by layer; its peak memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import onnx

from xoptim.facts.dims import Dim, evaluate
from xoptim.facts.dtypes import byte_size
from xoptim.facts.errors import ModelError
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.operators import operator_label
from xoptim.facts.words import bytes_text, with_unit
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.graph.tensors import Tensor
from xoptim.verification.inputs.dims import unknown_dimension
from xoptim.verification.inputs.sized import SizedModel, evaluated
from xoptim.verification.inputs.work import MAX_COUNT, MemoryNeed, operations

_DEFAULT_SIZE: Final = 1
"""Size of a dynamic dimension that the caller does not set."""


@dataclass(slots=True)
class Cost(JsonResult):
    """The cost of some nodes.

    Attributes:
        nodes: number of nodes.
        parameters: number of elements of the constants that they read.
        flops: number of operations; a multiplication and an addition count as two.
        read: bytes of operands, constants included.
        written: bytes of results.
        unknown: number of nodes with an unknown shape. Their operations count as 0, and so do the
            bytes of each value of unknown shape.
    """

    nodes: int = 0
    parameters: int = 0  # a shared constant counts for its first reader
    flops: int = 0
    read: int = 0
    written: int = 0
    unknown: int = 0

    def add(self, other: Cost) -> None:
        """Add the cost of further nodes."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def texts(self) -> tuple[str, str, str, str, str]:
        """Nodes, parameters, operations, bytes read and bytes written, with their units."""
        return (
            str(self.nodes),
            f"{self.parameters:,}",
            with_unit(self.flops, ("", "k", "M", "G", "T")),
            bytes_text(self.read),
            bytes_text(self.written),
        )


@dataclass(frozen=True, slots=True)
class Costs(JsonResult):
    """The cost of a model.

    Attributes:
        sizes: sizes of the symbolic dimensions.
        by_operator: cost by operator, the most operations first.
        by_layer: cost by prefix of the node names.
        total: cost of all nodes; bodies of loops count once.
        peak: lower bound of the bytes of results alive at one time, without weights.
    """

    __json__ = JsonForm("sizes by_operator by_layer total peak_bytes=peak")
    sizes: dict[str, int]
    by_operator: dict[str, Cost]
    by_layer: dict[str, Cost]
    total: Cost  # nodes of subgraphs included
    peak: int


def costs(
    proto: onnx.ModelProto, sizes: Mapping[str, int], base_dir: Path | None = None, depth: int = 3
) -> Costs:
    """Compute the cost of a model.

    Dynamic dimensions that ``sizes`` does not name are 1. A layer is named by the first ``depth``
    parts of its nodes' names, which are separated by slashes or dots. The last part names the node,
    and does not count. Raises `ModelError` when no input has a dimension that ``sizes`` names.
    """
    return node_costs(load_model(proto, base_dir), proto, sizes, base_dir, depth)[0]


def node_costs(
    model: Model,
    proto: onnx.ModelProto,
    sizes: Mapping[str, int],
    base_dir: Path | None = None,
    depth: int = 3,
) -> tuple[Costs, dict[Node, Cost]]:
    """The `costs` of a model that is loaded from ``proto``, and the cost of each of its nodes."""
    graph = model.graph
    resolved = _resolved(model, sizes)
    counter = _Counter(resolved)
    operators: dict[str, Cost] = {}
    layers: dict[str, Cost] = {}
    total = Cost()
    nodes = {node: counter.cost(node) for inner in graph.all_graphs() for node in inner.nodes}
    for node, cost in nodes.items():
        key = operator_label(node.op_type, node.domain)
        for table, name in ((operators, key), (layers, _layer(node.name, depth))):
            table.setdefault(name, Cost()).add(cost)
        total.add(cost)
    ordered = dict(
        sorted(operators.items(), key=lambda item: (-item[1].flops, -item[1].written, item[0]))
    )
    peak = MemoryNeed(SizedModel(proto, base_dir)).at_least(resolved)
    return Costs(resolved, ordered, layers, total, peak), nodes


def _resolved(model: Model, sizes: Mapping[str, int]) -> dict[str, int]:
    """The size of each named dimension of the inputs.

    Raises `ModelError` when no input has a dimension that ``sizes`` names.
    """
    dims = [
        dim
        for info in model.graph.declared_inputs.values()
        for dim in info.shape or ()
        if not isinstance(dim, int)
    ]
    names = {symbol for dim in dims if not dim.is_anonymous for symbol in dim.symbols}
    unknown = next((name for name in sizes if name not in names), None)
    if unknown is not None:
        raise ModelError(unknown_dimension(unknown, sorted(names)))
    return _with_equal_sizes(
        {name: sizes.get(name, _DEFAULT_SIZE) for name in sorted(names)}, sizes, model.equal_sizes
    )


def model_costs(path: str | Path, sizes: Mapping[str, int] | None = None) -> Costs:
    """The `costs` of a model file, whose external weights may be missing."""
    source = Source(path, needs_weights=False)
    return costs(source.proto, sizes or {}, source.base_dir)


def _with_equal_sizes(
    sizes: Mapping[str, int], chosen_sizes: Mapping[str, int], equal_dims: Mapping[str, Dim]
) -> dict[str, int]:
    """The sizes, changed so that dimensions that a MatMul or Gemm requires to be equal are equal.

    They get the size that the caller chose for one of them, if any. Raises `ModelError` when
    ``chosen_sizes`` contradicts the model.
    """
    resolved = dict(sizes)
    for name, dim in equal_dims.items():
        if (
            name in chosen_sizes
            and not isinstance(dim, int)
            and dim.is_symbol
            and str(dim) not in chosen_sizes
        ):
            resolved[str(dim)] = chosen_sizes[name]
    for name, dim in equal_dims.items():
        resolved[name] = evaluate(dim, resolved)
        if chosen_sizes.get(name, resolved[name]) != resolved[name]:
            raise ModelError(
                f"dimension {name} is {chosen_sizes[name]}, but a MatMul or Gemm requires "
                f"{resolved[name]}"
            )
    return resolved


def _layer(name: str, depth: int) -> str:
    separator = "/" if "/" in name else "."
    return (
        separator.join([part for part in name.split(separator) if part][:-1][:depth]) or "(no name)"
    )


class _Counter:
    """Computes the cost of nodes for these sizes of the dynamic dimensions."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._seen: set[Tensor] = set()

    def cost(self, node: Node) -> Cost:
        """The cost of one node, without its subgraphs."""
        assert node.graph is not None
        graph = node.graph
        operands = [self._shape(graph, name) for name in node.input]
        results = [self._shape(graph, name) for name in node.output if name]
        cost = Cost(nodes=1)
        for name, shape in zip(node.input, operands, strict=True):
            tensor = graph.tensor(name) if name else None
            if tensor is not None and tensor not in self._seen:
                self._seen.add(tensor)
                cost.parameters += tensor.size
            cost.read += self._bytes(graph, name, shape)
        cost.written = sum(
            map(self._bytes, [graph] * len(results), filter(None, node.output), results)
        )
        is_unknown = None in results or any(
            name and s is None for name, s in zip(node.input, operands, strict=True)
        )
        cost.unknown = int(is_unknown)
        if results and not is_unknown:
            flops = operations(
                node, [shape or () for shape in operands], [shape or () for shape in results]
            )
            cost.flops = min(flops, MAX_COUNT)
        return cost

    def _shape(self, graph: Graph, name: str) -> tuple[int, ...] | None:
        info = graph.info_of(name) if name else None
        if info is None or info.shape is None or not info.is_tensor:
            return None
        shape = [evaluated(dim, self._sizes) for dim in info.shape]
        return None if None in shape else tuple(max(size, 0) for size in shape if size is not None)

    @staticmethod
    def _bytes(graph: Graph, name: str, shape: tuple[int, ...] | None) -> int:
        dtype = graph.info_of(name).dtype if name else 0
        return (
            min(byte_size(dtype, math.prod(shape)), MAX_COUNT) if dtype and shape is not None else 0
        )
