"""The work and the memory of a run, and the time for the runs of a verification."""

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import onnx

from xoptim.facts.dims import Dim
from xoptim.facts.dtypes import byte_size, is_float
from xoptim.facts.protos import is_external
from xoptim.facts.shapes import Info, Shape
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.operators.costs import KnownShapes, one_per_element
from xoptim.operators.registry import operator_of
from xoptim.system.machine import available_memory
from xoptim.verification.errors import RunError
from xoptim.verification.inputs.sized import SizedModel, Sizing
from xoptim.verification.runs.protos import tensor_bytes

COPIES: Final = 2
"""Copies of the weights in memory while a model runs: as they are stored, and prepacked."""
MAX_COUNT: Final = 1 << 200
"""Largest count of bytes or operations; more may be too many for a float."""
_MAX_PACKED: Final = 1 << 28
"""Bytes of weights above which prepacking takes longer than it saves in a verification."""


class SkippedRun(NamedTuple):
    """A run that was skipped because of its cost.

    Attributes:
        dims: sizes of the symbolic dimensions.
        reason: the reason, as the end of a sentence.
    """

    dims: Mapping[str, int]
    reason: str


def weight_bytes(proto: onnx.ModelProto) -> int:
    """Bytes of the initializers of the main graph, those in external files included."""
    return sum(map(tensor_bytes, proto.graph.initializer))


def is_large(proto: onnx.ModelProto, limit: int | None = None) -> bool:
    """Whether a model should run without copies of its weights: there is no memory for them, or
    they take long to make.

    ``limit``: bytes that may be used, ``None`` for the free memory.
    """
    packed = sum(tensor_bytes(t) for t in proto.graph.initializer if is_float(t.data_type))
    return packed > _MAX_PACKED or not fits_into_memory(proto, limit)


def is_mapped(proto: onnx.ModelProto) -> bool:
    """Whether most of the weights of a model are in external files, which are memory-mapped
    unless they are prepacked.
    """
    return 2 * sum(
        tensor_bytes(t) for t in proto.graph.initializer if is_external(t)
    ) > weight_bytes(proto)


def fits_into_memory(
    proto: onnx.ModelProto, limit: int | None = None, copies: int = COPIES
) -> bool:
    """Whether some copies of the weights of a model fit into ``limit`` bytes, by default the free
    memory.
    """
    free = available_memory() if limit is None else limit
    return free is None or copies * weight_bytes(proto) <= free


class MemoryNeed:
    """A lower bound of the memory for the results of a model, by their inferred shapes.

    ``limit``: bytes that a run may use.
    """

    def __init__(self, model: SizedModel, limit: int | None = None) -> None:
        self._limit = limit
        self._graph = model.graph
        self._model = model
        graphs = self._graph.all_graphs() if self._graph is not None else ()
        self._kinds = Counter(
            (info.dtype, info.shape)
            for graph in graphs
            for _, info in graph.all_known()
            if info.is_tensor
        )

    def check(self, sizes: Mapping[str, int]) -> None:
        """Raise `RunError` unless a run with these sizes can fit into memory."""
        free = available_memory() if self._limit is None else self._limit
        if free is not None and self.total(sizes) > free and (size := self.at_least(sizes)) > free:
            raise RunError(
                f"a run needs at least {size_text(size)} of memory, {size_text(free)} is free"
            )

    def at_least(self, sizes: Mapping[str, int]) -> int:
        """Bytes of all results that are alive at the same time; unknown sizes count as 0."""
        return 0 if self._graph is None else _peak(self._graph, self._model.at(sizes))

    def total(self, sizes: Mapping[str, int]) -> int:
        """Bytes of all results, alive at the same time or not: much faster to compute."""
        sizing = self._model.at(sizes)
        return sum(
            count * _bytes(sizing, Info(dtype, shape))
            for (dtype, shape), count in self._kinds.items()
        )


def _bytes(sizes: Sizing, info: Info | None) -> int:
    """Bytes of a tensor of rank 1 or more, 0 when unknown."""
    shape = sizes.shape(info)
    return (
        min(byte_size(info.dtype, math.prod(shape)), MAX_COUNT) if info is not None and shape else 0
    )


def _peak(graph: Graph, sizes: Sizing) -> int:
    outputs = set(graph.outputs)
    live = peak = sum(_bytes(sizes, graph.info_of(name)) for name in graph.inputs)
    uses = {
        name: graph.use_count(name)
        for node in graph.nodes
        for name in node.output
        if name and not graph.is_captured(name)
    }
    for node in graph.nodes:
        live += sum(_bytes(sizes, graph.known(name)) for name in node.output)
        peak = max(
            peak, live + max((_peak(body, sizes) for body in node.bodies.values()), default=0)
        )
        for name in node.input:
            if name in uses:
                uses[name] -= 1
                if not uses[name] and name not in outputs:
                    live -= _bytes(sizes, graph.known(name))
    return peak


_COUNTLESS: Final = 1 << 90
"""From this many bytes on, a message gives a fixed text: the number may not fit a float."""


def size_text(size: int) -> str:
    """A number of bytes, for people."""
    if size >= _COUNTLESS:
        return "2^60 GiB"
    return f"{size / (1 << 30):,.1f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):,.1f} MiB"


_MIN_SECONDS: Final = 5.0
"""The smallest default budget."""
_RUNS: Final = 5
"""The number of runs, each as long as the first one, that the default budget allows at least."""
_RELIABLE: Final = 0.05  # seconds; the time of a shorter run is not in proportion to its work
_WORTH: Final = 1 << 20  # operations; a busy machine delays a run of less work out of proportion
_SLOWEST: Final = 2e-10  # seconds per operation; upper limit of an estimate from such a run


class RunBudget:
    """The time for the runs of the original: some seconds, ``None`` for the larger of 5 s and five
    runs like the first one.

    The seconds ``spent`` include failures.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._first: float | None = None
        self._largest_work = 0
        self._price = 0.0
        self.spent = 0.0

    @property
    def limit(self) -> float:
        """The budget in seconds."""
        return self._seconds if self._seconds is not None else self.patience or _MIN_SECONDS

    @property
    def patience(self) -> float | None:
        """Seconds after which a further run is stopped, since a loop may not end.

        ``None`` before the first run.
        """
        return None if self._first is None else max(_MIN_SECONDS, _RUNS * self._first)

    @property
    def is_spent(self) -> bool:
        """Whether no further run is allowed."""
        return not self.allows(0)

    def spend(self, seconds: float) -> None:
        """Note the time of a run that failed, or the overhead of a run."""
        self.spent += seconds

    def charge(self, work: int, seconds: float) -> None:
        """Note a run; the run with the most work gives the time of an operation."""
        self.spent += seconds
        if self._first is None:
            self._first = seconds
        if work and work >= self._largest_work:
            price = seconds / work
            is_reliable = seconds >= _RELIABLE and work >= _WORTH
            self._largest_work, self._price = work, price if is_reliable else min(price, _SLOWEST)

    def estimate(self, work: int) -> float:
        """Seconds that a run is expected to take."""
        return work * self._price

    def allows(self, work: int) -> bool:
        """Whether a run fits into the remaining budget; the first run always does."""
        return self._first is None or self.spent + self.estimate(work) <= self.limit


_ELEMENT: Final = 16
"""Operations of a MatMul that take as long as writing one element."""
NODE: Final = 1 << 12
"""Operations that take as long as it takes onnxruntime to start a node: about a microsecond."""


def operations(node: Node, operands: KnownShapes, results: KnownShapes) -> int:
    """The operations of a node; a multiplication and an addition count as two.

    The shape of an absent operand is ``()``. An operator of another domain counts as the standard
    operator of its name, an unknown one as elementwise.
    """
    specific = operator_of(node.domain, node.op_type).operations
    formula = specific or operator_of("", node.op_type).operations or one_per_element
    return formula(node, operands, results)


class Work:
    """The work of a run of a model, in operations.

    Writing results and starting nodes count as well.
    """

    def __init__(self, model: SizedModel) -> None:
        self._model = model
        self._kinds: dict[tuple[object, ...], tuple[Node, list[Info], list[Info], Shape]] = {}
        self._counts: dict[tuple[object, ...], int] = {}
        self._totals: dict[tuple[tuple[str, int], ...], int] = {}
        for node, times in _nodes(model.graph, ()) if model.graph is not None else ():
            self._add(node, times)

    def _add(self, node: Node, times: Shape) -> None:
        assert node.graph is not None
        operands = [node.graph.info_of(name) if name else Info(shape=()) for name in node.input]
        results = [node.graph.info_of(name) for name in node.output if name]
        key = (
            node.op_type,
            node.domain,
            *((info.shape, info.container) for info in (*operands, *results)),
            times,
        )
        self._kinds.setdefault(key, (node, operands, results, times))
        self._counts[key] = self._counts.get(key, 0) + 1

    def of(self, sizes: Mapping[str, int]) -> int:
        """The work of a run with these sizes of the dynamic dimensions.

        An unknown axis is as long as the longest of these dimensions.
        """
        key = tuple(sorted(sizes.items()))
        if key not in self._totals:
            sizing = self._model.at(sizes, max(sizes.values(), default=1))
            parts = (
                count * self._of(sizing, *self._kinds[key]) for key, count in self._counts.items()
            )
            self._totals[key] = sum(parts)
        return self._totals[key]

    def _of(
        self, sizing: Sizing, node: Node, operands: list[Info], results: list[Info], times: Shape
    ) -> int:
        operand_shapes, result_shapes = (
            [sizing.shape(info) for info in infos] for infos in (operands, results)
        )
        shapes = [shape or () for shape in result_shapes]
        work = NODE + _ELEMENT * sum(math.prod(shape) for shape in shapes)
        if None not in operand_shapes and None not in result_shapes and shapes:
            with contextlib.suppress(IndexError):  # shapes that the operator does not take
                work += operations(node, [shape or () for shape in operand_shapes], shapes)
        return min(work * math.prod(map(sizing.size, times)), MAX_COUNT)


def _nodes(graph: Graph, times: Shape) -> Iterator[tuple[Node, Shape]]:
    """The nodes of a graph and of its subgraphs, each with the numbers of iterations of the loops
    around it.
    """
    for node in graph.nodes:
        yield node, times
        for body in node.bodies.values():
            yield from _nodes(body, (*times, *iterations(node)))


def iterations(node: Node) -> tuple[Dim, ...]:
    """The number of iterations of a loop, if it is known, as factors."""
    assert node.graph is not None
    if node.op_type == "Loop" and node.input[0]:
        return (node.graph.info_of(node.input[0]).data or ())[:1]
    if node.op_type != "Scan":
        return ()
    shape = node.graph.info_of(node.input[-1]).shape or ()
    if node.opset < 9:
        return shape[:2]  # batch and sequence
    axis = [0, *(node.get_attribute("scan_input_axes", None) or ())][-1]
    return shape[axis:][:1]
