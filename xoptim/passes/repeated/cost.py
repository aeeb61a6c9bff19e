"""The time that nodes take in onnxruntime, estimated from measured constants."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from xoptim.facts.symbolic import SymbolicDim, substituted
from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.operators.costs import CostKind
from xoptim.operators.registry import Trait, operator_of, operators_with


class Costs(NamedTuple):
    """Nanoseconds that parts of the work of a node take on an execution provider."""

    launch: float  # a node
    handled: float  # a node that first computes shapes or indices (Gather, Concat, reductions, ...)
    port: float  # each operand and result after the first of a variadic operator
    lane: float  # a Gather of a single index
    matmul: float  # a MatMul
    matrix: float  # each matrix of a MatMul whose right operand has several
    light: float  # each element of an operator such as Add
    heavy: float  # each element of an operator such as Tanh
    copied: float  # each element that is copied
    reduced: float  # each element that is reduced
    run: float  # each run of elements that is copied, or combined with an operand that is broadcast
    spilled: float  # added for each element of a tensor that does not fit into the cache
    read: float  # each element of the right matrix of a MatMul
    # added to ``read`` if the left matrix has several rows, and the right one is not packed at load
    packed: float
    multiplied: float  # each multiplication of a MatMul

    def of_element(self, kind: CostKind) -> float:
        """Nanoseconds for each element of a node that is neither a view nor a MatMul."""
        if kind is CostKind.REDUCED:
            return self.reduced
        if kind is CostKind.COPIED:
            return self.copied
        return self.light if kind is CostKind.LIGHT else self.heavy


COSTS: Final[Mapping[str, Costs]] = {
    # python -m benchmarks.folding --constants, 2026-11-22: onnxruntime 1.32.0, one thread, Intel(R)
    # Xeon(R) Processor @ 2.50GHz
    "cpu": Costs(400, 550, 290, 1300, 750, 200, 0.14, 0.44, 0.09, 0.92, 24, 0.28, 0.08, 0.66, 0.015)
}
"""The costs of each execution provider on which they were measured."""

_SIZES: Final = (1, 16, 128, 1024)
"""Values that are tried for unknown sizes."""
_CACHE_ELEMENTS: Final = 1 << 18
"""Elements of 32 bits that fit into the cache of a core."""
_RUN_ELEMENTS: Final = 16
"""A Transpose of the last axis copies this many elements in the time of one run."""
_GATHER_ND_RUNS: Final = 3
"""GatherND copies one run in the time in which other operators copy this many."""
_VARIADIC: Final = operators_with(Trait.VARIADIC)
_PLAIN: Final = operators_with(Trait.ELEMENTWISE, Trait.BROADCASTS)
_BROADCASTING: Final = operators_with(Trait.BROADCASTS)
_ACTIVATIONS: Final = frozenset(("LeakyRelu", "Relu", "Sigmoid", "Tanh"))
"""Operators that onnxruntime fuses with the preceding MatMul."""


class Estimate:
    """The time of nodes of a graph or an edit, if all unknown sizes are ``size``."""

    def __init__(self, scope: Graph, costs: Costs, size: int) -> None:
        self.scope = scope
        self.costs = costs
        self.size = size

    def launches(self, nodes: Collection[Node]) -> float:
        """Nanoseconds that the nodes take at any size; none if onnxruntime fuses them."""
        fused = set(_fused_nodes(self.scope, nodes))
        return sum(self._launch(node) for node in nodes if node not in fused)

    def time(self, nodes: Collection[Node]) -> float:
        """Nanoseconds that the nodes take; infinite if the shape of a tensor is unknown."""
        return self.launches(nodes) + sum(map(self._work, nodes))

    def _launch(self, node: Node) -> float:
        costs = self.costs
        kind = _kind(node)
        if kind is CostKind.MATMUL:
            return costs.matmul
        if node.op_type == "Gather" and not self._shape(node.input[1]):
            return costs.lane
        ports = len(node.input) + len(node.output) - 2 if node.op_type in _VARIADIC else 0
        is_plain = kind is CostKind.VIEW or node.op_type in _PLAIN
        return (costs.launch if is_plain else costs.handled) + ports * costs.port

    def _work(self, node: Node) -> float:
        costs, kind = self.costs, _kind(node)
        if kind is CostKind.VIEW:
            return 0
        if kind is CostKind.MATMUL:
            return self._matmul(node)
        reads_all = kind is CostKind.REDUCED or node.op_type in ("Mean", "Sum")
        names = node.input if reads_all else node.output
        sizes = [math.prod(self._shape(name)) for name in names if name]
        rate = costs.of_element(kind)
        return sum(
            size * (rate + (costs.spilled if size > _CACHE_ELEMENTS else 0)) for size in sizes
        ) + costs.run * self._runs(node)

    def _matmul(self, node: Node) -> float:
        """Each matrix of the right operand is read once, and multiplied by its rows."""
        costs, right = self.costs, self._shape(node.input[1])
        result = self._shape(node.output[0])
        matrices, elements, width = math.prod(right[:-2]), math.prod(right), result[-1] or 1
        rows = math.prod(result) / width / (matrices or 1)
        is_stacked = len(right) > 2
        is_packed = rows > 1 and (is_stacked or self.scope.tensor(node.input[1]) is None)
        read = elements * (costs.read + (costs.packed if is_packed else 0))
        return matrices * costs.matrix * is_stacked + read + costs.multiplied * elements * rows

    def _runs(self, node: Node) -> float:
        """Number of runs of elements in which a node copies, or broadcasts, its operands."""
        shape = self._shape(node.output[0])
        size, kind = math.prod(shape), node.op_type
        if not size:
            return 0
        if kind == "Transpose":
            keeps_last = node.attribute.get("perm", (0,))[-1] == len(shape) - 1
            return size / (shape[-1] if keeps_last else _RUN_ELEMENTS)
        if kind == "Gather":
            table = self._shape(node.input[0])
            return size / (math.prod(table[node.get_attribute("axis") % len(table) + 1 :]) or 1)
        if kind in ("Concat", "Split"):
            return (
                len(node.input)
                * len(node.output)
                * math.prod(shape[: node.get_attribute("axis") % len(shape)])
            )
        if kind in ("GatherND", "Slice"):
            return size / shape[-1] * (_GATHER_ND_RUNS if kind == "GatherND" else 1)
        is_broadcast = kind in _BROADCASTING and any(
            1 < math.prod(self._shape(name)) < size for name in node.input if name
        )
        return size / shape[-1] if is_broadcast else 0

    def _shape(self, name: str) -> list[float]:
        shape = self.scope.info_of(name).shape
        return [math.inf] if shape is None else [_sized(dim, self.size) for dim in shape]


def slowest(
    before: tuple[Graph, Collection[Node]],
    after: tuple[Graph, Collection[Node]],
    near: Collection[Node],
    costs: Costs,
) -> tuple[float, float]:
    """Nanoseconds before and after a replacement, at the size at which it is relatively slowest.

    ``near`` are the producers and consumers of the nodes: onnxruntime may fuse the original nodes
    with them, but not the stacked ones.
    """
    sizes = _SIZES if _is_dynamic(*before) or _is_dynamic(*after) else _SIZES[:1]
    times = []
    for size in sizes:
        near_time = Estimate(before[0], costs, size).time(near)
        apart, together = (
            Estimate(scope, costs, size).time([*nodes, *near]) - near_time
            for scope, nodes in (before, after)
        )
        times.append((apart, together))
    return max(times, key=lambda pair: pair[1] / pair[0])


def launches_and_times(
    scope: Graph, nodes: Collection[Node], costs: Costs
) -> Iterator[tuple[float, float]]:
    """Nanoseconds of the launches of nodes, and their total time, at several sizes."""
    for size in _SIZES if _is_dynamic(scope, nodes) else _SIZES[:1]:
        estimate = Estimate(scope, costs, size)
        yield estimate.launches(nodes), estimate.time(nodes)


def is_matmul(node: Node) -> bool:
    """Whether a node multiplies matrices."""
    return _kind(node) is CostKind.MATMUL


def _kind(node: Node) -> CostKind:
    """The kind of work of a node for each element.

    An unregistered operator of another domain counts as the standard one of its name.
    """
    kind = operator_of(node.domain, node.op_type).cost
    return kind or operator_of("", node.op_type).cost or CostKind.HEAVY


def _is_dynamic(scope: Graph, nodes: Iterable[Node]) -> bool:
    """Whether a dimension of a tensor is symbolic."""
    shapes = (
        scope.info_of(name).shape for node in nodes for name in (*node.input, *node.output) if name
    )
    return any(isinstance(dim, SymbolicDim) for shape in shapes for dim in shape or ())


def _sized(dim: object, size: int) -> float:
    """The value of a dimension if all symbols are ``size``; ``size`` if there is no value."""
    if isinstance(dim, SymbolicDim):
        dim = substituted(dim, dict.fromkeys(dim.symbols, size))
    return max(dim, 0) if isinstance(dim, int) else size


def _fused_nodes(scope: Graph, nodes: Collection[Node]) -> Iterator[Node]:
    """Nodes that onnxruntime fuses with the preceding node: biases and activations of MatMuls,
    x · Sigmoid(x).
    """
    producers = {name: node for node in nodes for name in node.output}
    reads = Counter(name for node in nodes for name in node.input)
    fused: dict[Node, None] = {}
    for node in nodes:
        for operand in map(producers.get, node.input):
            if operand is None or (reads[operand.output[0]] > 1 and operand.op_type != "Sigmoid"):
                continue
            is_matrix = is_matmul(operand) and len(scope.info_of(operand.input[1]).shape or ()) == 2
            is_biased = node.op_type == "Add" and is_matrix and operand.op_type == "MatMul"
            is_activated = node.op_type in _ACTIVATIONS and (is_matrix or operand in fused)
            is_gated = (
                node.op_type == "Mul"
                and operand.op_type == "Sigmoid"
                and operand.input[0] in node.input
            )
            if is_biased or is_activated or is_gated:
                fused[node] = None
    yield from fused
