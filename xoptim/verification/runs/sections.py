"""A model that is cut into sections: places to cut at, and a section as a model."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import onnx

from xoptim.facts.dtypes import byte_size
from xoptim.facts.errors import ModelError
from xoptim.facts.protos import UNLISTED_SINCE, fed_inputs, proto_reads
from xoptim.facts.shapes import Info
from xoptim.graph.load import load_model
from xoptim.graph.propagate import quietly


class Cut(NamedTuple):
    """A place between two nodes: the number of nodes before it, and their results that the other
    nodes read.
    """

    end: int
    carried: frozenset[str]


class Piece(NamedTuple):
    """Nodes, by position, that compute the ``wanted`` results from ``reads``.

    ``bytes`` is the size of their weights.
    """

    nodes: list[int]
    reads: frozenset[str]
    wanted: list[str]
    bytes: int


class Pieces:
    """A model to be cut: ``infos`` has types and shapes, ``weights`` has bytes, by name."""

    def __init__(self, proto: onnx.ModelProto, base_dir: Path | None) -> None:
        self.proto = proto
        self.base_dir = base_dir
        graph = proto.graph
        self.inputs = [value.name for value in fed_inputs(proto)]
        self.outputs = [value.name for value in graph.output]
        self.weights = {
            t.name: byte_size(t.data_type, math.prod(t.dims)) for t in graph.initializer
        }
        self.weights |= {
            t.values.name: byte_size(t.values.data_type, math.prod(t.values.dims))
            for t in graph.sparse_initializer
        }
        self._stored = {t.name: t for t in graph.initializer}
        self._sparse = {t.values.name: t for t in graph.sparse_initializer}
        self._declared = {value.name: value for value in graph.input}
        self._reads = [frozenset(filter(None, proto_reads(node))) for node in graph.node]
        self._makers = {
            name: at for at, node in enumerate(graph.node) for name in node.output if name
        }
        try:
            with quietly():
                self.infos: dict[str, Info] = dict(load_model(proto, base_dir).graph.all_known())
        except ModelError:  # without types, there is no place to cut
            self.infos = {}

    def cuts(self, other: Pieces, limit: int) -> list[Cut]:
        """Places to cut at, the end last: as far apart as possible with less than ``limit`` bytes
        of weights in between.

        A section has more weights where there is no such place. The other model must have the
        results at the cuts as well.
        """
        last_reads = {
            name: at
            for at, reads in enumerate(self._reads)
            for name in reads
            if name in self._makers
        }
        cuts: list[Cut] = []
        start = best_end = at = size = unfit = 0
        weights: set[str] = set()
        dying: dict[int, int] = {}  # unfit results, by the node that reads them last
        while at < len(self._reads):
            new_weights = {name for name in self._reads[at] if name in self.weights} - weights
            grown = size + sum(self.weights[name] for name in new_weights)
            if grown > limit and best_end > start:
                cuts.append(self._cut(best_end, last_reads))
                # At a cut, every carried result exists in the other model: counting starts again.
                start, at, size, unfit, weights, dying = best_end, best_end, 0, 0, set(), {}
                continue
            size, weights = grown, weights | new_weights
            unfit += self._count_unfit(at, other, last_reads, dying)
            at += 1
            if not unfit:
                best_end = at
        return [*cuts, Cut(len(self._reads), frozenset())]

    def _count_unfit(
        self, at: int, other: Pieces, last_reads: dict[str, int], dying: dict[int, int]
    ) -> int:
        """The change, at a node, of the number of results that later nodes read and that the other
        model lacks.
        """
        change = -dying.pop(at, 0)
        for name in self.proto.graph.node[at].output:
            if name in last_reads and last_reads[name] > at and not self._is_common(name, other):
                dying[last_reads[name]] = dying.get(last_reads[name], 0) + 1
                change += 1
        return change

    def _is_common(self, name: str, other: Pieces) -> bool:
        if name not in other._makers:
            return False
        left, right = self.infos.get(name), other.infos.get(name)
        if (
            left is None
            or right is None
            or not left.is_tensor
            or not left.dtype
            or left.dtype != right.dtype
        ):
            return False
        if left.shape is None or right.shape is None:
            return True
        pairs = [
            pair
            for pair in zip(left.shape, right.shape, strict=False)
            if all(type(dim) is int for dim in pair)
        ]
        return len(left.shape) == len(right.shape) and all(a == b for a, b in pairs)

    def _cut(self, end: int, last_reads: dict[str, int]) -> Cut:
        return Cut(
            end,
            frozenset(
                name for name, at in last_reads.items() if at >= end and self._makers[name] < end
            ),
        )

    def results(self, start: int, end: int) -> Iterator[str]:
        """Results of the nodes between two places, in order.

        Outputs that no node computes belong to the end.
        """
        for node in self.proto.graph.node[start:end]:
            yield from filter(None, node.output)
        if end == len(self._reads):
            yield from (name for name in self.outputs if name not in self._makers)

    def piece(self, wanted: Sequence[str], known: Collection[str]) -> Piece:
        """The nodes that compute the wanted results from known results."""
        nodes: set[int] = set()
        reads: set[str] = set()
        pending = list(wanted)
        while pending:
            name = pending.pop()
            if name in known or name not in self._makers:
                reads.add(name)
            elif self._makers[name] not in nodes:
                nodes.add(self._makers[name])
                pending.extend(self._reads[self._makers[name]])
        return Piece(
            sorted(nodes),
            frozenset(reads),
            list(wanted),
            sum(self.weights.get(name, 0) for name in reads),
        )

    def model(self, piece: Piece, inputs: Sequence[onnx.ValueInfoProto]) -> onnx.ModelProto:
        """A piece as a model with these inputs; weights in external files stay there."""
        graph = onnx.GraphProto(name=self.proto.graph.name or "section")
        graph.node.extend(self.proto.graph.node[at] for at in piece.nodes)
        graph.input.extend(self._declared.get(value.name, value) for value in inputs)
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in piece.wanted)
        stored = sorted(name for name in piece.reads if name in self.weights)
        graph.initializer.extend(self._stored[name] for name in stored if name in self._stored)
        graph.sparse_initializer.extend(
            self._sparse[name] for name in stored if name in self._sparse
        )
        version = max(self.proto.ir_version, UNLISTED_SINCE)
        model = onnx.ModelProto(
            ir_version=version, opset_import=self.proto.opset_import, graph=graph
        )
        model.functions.extend(self.proto.functions)
        return model
