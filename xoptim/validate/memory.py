"""Least memory of a run of a model."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import onnx

from xoptim.facts.dtypes import byte_size, is_float
from xoptim.facts.info import Info
from xoptim.facts.protos import is_external
from xoptim.graph.graph import Graph
from xoptim.system.memory import available_memory
from xoptim.validate.errors import RunError
from xoptim.validate.protos import tensor_bytes
from xoptim.validate.sized import SizedModel, Sizing

COPIES: Final = 2
"""Copies of the weights of a model in memory while it runs: as they are stored, and as they are packed."""
_MOST_PACKED: Final = 1 << 28
"""Bytes of weights above which packing takes longer than the few runs of a proof gain by it."""


def weight_bytes(proto: onnx.ModelProto) -> int:
    """Bytes of the initializers of the main graph, those in external files included."""
    return sum(map(tensor_bytes, proto.graph.initializer))


def is_large(proto: onnx.ModelProto, limit: int | None = None) -> bool:
    """Whether a model should run without copies of its weights: there is no memory for them, or they take long to make.

    ``limit``: bytes that may be used, ``None`` for the free memory.
    """
    packed = sum(tensor_bytes(t) for t in proto.graph.initializer if is_float(t.data_type))
    return packed > _MOST_PACKED or not fits_into_memory(proto, limit)


def is_mapped(proto: onnx.ModelProto) -> bool:
    """Whether most of the weights of a model are in external files, which are mapped when nothing is packed."""
    return 2 * sum(tensor_bytes(t) for t in proto.graph.initializer if is_external(t)) > weight_bytes(proto)


def fits_into_memory(proto: onnx.ModelProto, limit: int | None = None, copies: int = COPIES) -> bool:
    """Whether some copies of the weights of a model fit into memory: ``limit`` bytes, ``None`` for the free ones."""
    free = available_memory() if limit is None else limit
    return free is None or copies * weight_bytes(proto) <= free


class MemoryNeed:
    """The least memory of the results of a model, by their inferred shapes; ``limit``: bytes that a run may use."""

    def __init__(self, model: SizedModel, limit: int | None = None) -> None:
        self._limit = limit
        self._graph = model.graph
        self._model = model
        graphs = self._graph.all_graphs() if self._graph is not None else ()
        self._kinds = Counter((info.dtype, info.shape) for graph in graphs for _, info in graph.all_known() if info.is_tensor)

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `RunError` unless a run with these sizes of the open dimensions can fit into memory."""
        free = available_memory() if self._limit is None else self._limit
        if free is not None and self.total(sizes) > free and (needed := self.at_least(sizes)) > free:
            raise RunError(f"a run needs at least {size_text(needed)} of memory, {size_text(free)} is free")

    def at_least(self, sizes: Mapping[str, int]) -> int:
        """Bytes of all results that are alive at the same time, where their sizes are known; the others count as 0."""
        return 0 if self._graph is None else _peak(self._graph, self._model.at(sizes))

    def total(self, sizes: Mapping[str, int]) -> int:
        """Bytes of all results, alive at the same time or not: much faster to compute."""
        known = self._model.at(sizes)
        return sum(count * _bytes(known, Info(dtype, shape)) for (dtype, shape), count in self._kinds.items())


def _bytes(sizes: Sizing, info: Info | None) -> int:
    """Bytes of a tensor of rank 1 or more, 0 when unknown."""
    shape = sizes.shape(info)
    return byte_size(info.dtype, math.prod(shape)) if info is not None and shape else 0


def _peak(graph: Graph, sizes: Sizing) -> int:
    kept = set(graph.outputs)
    live = peak = sum(_bytes(sizes, graph.info_of(name)) for name in graph.inputs)
    uses = {name: graph.use_count(name) for node in graph.nodes for name in node.output if name and not graph.is_captured(name)}
    for node in graph.nodes:
        live += sum(_bytes(sizes, graph.known(name)) for name in node.output)
        peak = max(peak, live + max((_peak(body, sizes) for body in node.bodies.values()), default=0))
        for name in node.input:
            if name in uses:
                uses[name] -= 1
                if not uses[name] and name not in kept:
                    live -= _bytes(sizes, graph.known(name))
    return peak


def size_text(size: int) -> str:
    """A number of bytes, for people."""
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):,.1f} MiB"
