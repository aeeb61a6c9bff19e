"""The parameters, operations and bytes of a model, by operator and by layer, and the peak of its
memory.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx

from xoptim.facts.dims import Dim, evaluate
from xoptim.facts.dtypes import byte_size
from xoptim.facts.errors import ModelError
from xoptim.facts.operators import operator_label
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.sources import Source
from xoptim.verification.dims import unknown_dimension
from xoptim.verification.sized import SizedModel, evaluated
from xoptim.verification.work import MOST, MemoryNeed, operations

if TYPE_CHECKING:
    from xoptim.diagnose.json_types import CostJson, CostsJson

_DEFAULT: Final = 1
"""Size of a dynamic dimension for which none is given."""


@dataclass(slots=True)
class Cost:
    """The cost of some nodes."""

    nodes: int = 0  # their number
    # elements of the constants that they read; a constant of several nodes counts for the first
    parameters: int = 0
    flops: int = 0  # operations; a multiplication and an addition count as two
    read: int = 0  # bytes of operands, constants included
    written: int = 0  # bytes of results
    unknown: int = 0  # number of nodes with unknown sizes, which count as 0

    def add(self, other: Cost) -> None:
        """Add the cost of further nodes."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> CostJson:
        """All fields as JSON values."""
        return {
            "nodes": self.nodes,
            "parameters": self.parameters,
            "flops": self.flops,
            "read": self.read,
            "written": self.written,
            "unknown": self.unknown,
        }


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of a model."""

    sizes: dict[str, int]  # of the dynamic dimensions
    by_operator: dict[str, Cost]  # cost by operator, the most operations first
    by_layer: dict[str, Cost]  # cost by the beginning of the names of the nodes
    # cost of all nodes of the main graph and of its subgraphs; the bodies of loops count once
    total: Cost
    peak: int  # least bytes of the results that are alive at one time; weights are not among them

    def to_json(self) -> CostsJson:
        """All fields as JSON values."""
        return {
            "sizes": self.sizes,
            "by_operator": {name: each.to_json() for name, each in self.by_operator.items()},
            "by_layer": {name: each.to_json() for name, each in self.by_layer.items()},
            "total": self.total.to_json(),
            "peak_bytes": self.peak,
        }


def costs(
    proto: onnx.ModelProto, sizes: Mapping[str, int], base_dir: Path | None = None, depth: int = 3
) -> Costs:
    """Count what a model costs.

    Dynamic dimensions without a size are 1. A layer is named by ``depth`` parts of the name of a
    node, between slashes or dots. Raises `ModelError` when the inputs have no dimension of a name
    in ``sizes``.
    """
    model = load_model(proto, base_dir)
    graph = model.graph
    dims = [
        dim
        for info in graph.declared_inputs.values()
        for dim in info.shape or ()
        if not isinstance(dim, int)
    ]
    names = {symbol for dim in dims if not dim.is_anonymous for symbol in dim.symbols}
    unknown = next((name for name in sizes if name not in names), None)
    if unknown is not None:
        raise ModelError(unknown_dimension(unknown, sorted(names)))
    chosen = _agreed(
        {name: sizes.get(name, _DEFAULT) for name in sorted(names)}, sizes, model.equal_sizes
    )
    count = _Counter(chosen)
    operators: dict[str, Cost] = {}
    layers: dict[str, Cost] = {}
    total = Cost()
    for node in (node for inner in graph.all_graphs() for node in inner.nodes):
        cost = count.cost(node)
        key = operator_label(node.op_type, node.domain)
        for table, name in ((operators, key), (layers, _layer(node.name, depth))):
            table.setdefault(name, Cost()).add(cost)
        total.add(cost)
    ordered = dict(
        sorted(operators.items(), key=lambda item: (-item[1].flops, -item[1].written, item[0]))
    )
    return Costs(
        chosen, ordered, layers, total, MemoryNeed(SizedModel(proto, base_dir)).at_least(chosen)
    )


def model_costs(path: str | Path, sizes: Mapping[str, int] | None = None) -> Costs:
    """Count what the model of a file costs, whose external weights may be missing; see `costs`."""
    source = Source(path, needs_weights=False)
    return costs(source.proto, sizes or {}, source.base_dir)


def _agreed(
    chosen: Mapping[str, int], given: Mapping[str, int], equal: Mapping[str, Dim]
) -> dict[str, int]:
    """Sizes of dynamic dimensions, those that the model requires to be equal made equal to the
    given one.
    """
    agreed = dict(chosen)
    for name, dim in equal.items():
        if name in given and not isinstance(dim, int) and dim.is_symbol and str(dim) not in given:
            agreed[str(dim)] = given[name]
    for name, dim in equal.items():
        agreed[name] = evaluate(dim, agreed)
        if given.get(name, agreed[name]) != agreed[name]:
            raise ModelError(
                f"dimension {name} is {given[name]}, but a MatMul requires {agreed[name]}"
            )
    return agreed


def _layer(name: str, depth: int) -> str:
    separator = "/" if "/" in name else "."
    return (
        separator.join([part for part in name.split(separator) if part][:-1][:depth]) or "(no name)"
    )


class _Counter:
    """Counts the cost of nodes with these sizes of the dynamic dimensions."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes = sizes
        self._seen: set[str] = set()

    def cost(self, node: Node) -> Cost:
        """The cost of one node, without its subgraphs."""
        assert node.graph is not None
        graph = node.graph
        operands = [self._shape(graph, name) for name in node.input]
        results = [self._shape(graph, name) for name in node.output if name]
        found = Cost(nodes=1)
        for name, shape in zip(node.input, operands, strict=True):
            tensor = graph.tensor(name) if name else None
            if tensor is not None and name not in self._seen:
                self._seen.add(name)
                found.parameters += tensor.size
            found.read += self._bytes(graph, name, shape)
        found.written = sum(
            map(self._bytes, [graph] * len(results), filter(None, node.output), results)
        )
        is_unknown = None in results or any(
            name and s is None for name, s in zip(node.input, operands, strict=True)
        )
        found.unknown = int(is_unknown)
        if results and not is_unknown:
            counted = operations(
                node, [shape or () for shape in operands], [shape or () for shape in results]
            )
            found.flops = min(counted, MOST)
        return found

    def _shape(self, graph: Graph, name: str) -> tuple[int, ...] | None:
        info = graph.info_of(name) if name else None
        if info is None or info.shape is None or not info.is_tensor:
            return None
        shape = [evaluated(dim, self._sizes) for dim in info.shape]
        return None if None in shape else tuple(max(size, 0) for size in shape if size is not None)

    @staticmethod
    def _bytes(graph: Graph, name: str, shape: tuple[int, ...] | None) -> int:
        dtype = graph.info_of(name).dtype if name else 0
        return min(byte_size(dtype, math.prod(shape)), MOST) if dtype and shape is not None else 0
