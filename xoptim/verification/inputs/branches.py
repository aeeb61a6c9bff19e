"""The branches of an If, and the numbers of trips of a Loop, that the runs of a model reach.

A copy of the model counts them. In the copy, each If, Loop and Scan returns one more result: a
vector with the number of runs of each of its bodies, and of the bodies inside them. The only output
of the copy concatenates these vectors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.protos import every_node
from xoptim.graph.splice import inline_functions

COUNTS: Final = "xoptim.branches.counts"
"""Name of the output with the counters."""
_PREFIX: Final = "xoptim.branches."
MAX_BODIES: Final = 1 << 14
"""Largest number of subgraphs that are counted: the model is loaded once more for that."""
_MAX_NOTES: Final = 8  # about branches that never ran
_MAX_OPERANDS: Final = 64  # of one Concat
_TRIPS: Final = ("no trip", "one trip", "several trips")


class Coverage(NamedTuple):
    """The branches and loop bodies of a model that its runs reach."""

    missed: tuple[str, ...] = ()
    """Branches and numbers of trips that no run reached, as notes."""
    unreached: tuple[str, ...] = ()
    """The branches and loop bodies that no run reached, by name."""
    uncounted: str = ""
    """The reason why runs of bodies were not counted; empty if they were."""

    @property
    def notes(self) -> list[str]:
        """Lines for the first missed cases, the number of others, and why runs were not counted."""
        lines = [*self.missed[:_MAX_NOTES], *filter(None, [self.uncounted])]
        if len(self.missed) > _MAX_NOTES:
            count = len(self.missed) - _MAX_NOTES
            lines.append(f"never ran: {count} more branches and trip counts")
        return lines


class Body(NamedTuple):
    """A subgraph: the name of its node (or of the node's first result), and of the attribute that
    holds it.
    """

    owner: str
    op_type: str
    name: str
    is_counted: bool = False
    """Whether computed values decide how often it runs."""

    def matters(self, count: int) -> bool:
        """Whether a run with this number of trips (0, 1, or 2 for more) adds to the coverage.

        0 does so only where computed values decide the number of trips.
        """
        return count > 0 or self.is_counted

    def __str__(self) -> str:
        if self.op_type == "If":
            return f"branch {self.name.removesuffix('_branch')!r} of If {self.owner!r}"
        return f"the body of {self.op_type} {self.owner!r}"

    def missed(self, counts: Collection[int]) -> list[str]:
        """The branches and numbers of trips that no run reached.

        ``counts``: how often this body ran (0, 1, or 2 for more) in each run of the model.
        """
        if not self.is_counted:
            return [] if has_run(counts) else [str(self)]
        return [
            f"{text} of Loop {self.owner!r}"
            for trips, text in enumerate(_TRIPS)
            if trips not in counts
        ]


def has_run(counts: Collection[int]) -> bool:
    """Whether a subgraph ran, by how often (0, 1, or 2 for more) in each run of the model."""
    return not {1, 2}.isdisjoint(counts)


class Counted(NamedTuple):
    """A model that counts the runs of its subgraphs: ``bodies`` in the order of the counters."""

    proto: onnx.ModelProto
    bodies: tuple[Body, ...]


def count_bodies(model: onnx.ModelProto) -> int:
    """The number of subgraphs of the main graph, at every depth."""
    return sum(len(_bodies_of(node)) for node in every_node(model.graph.node))


def inlined(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model, its local functions inlined if one of them has a subgraph.

    Raises `ModelError` when they cannot be inlined.
    """
    nodes = every_node(node for function in model.functions for node in function.node)
    return inline_functions(model) if any(map(_bodies_of, nodes)) else model


def counting(model: onnx.ModelProto) -> Counted | None:
    """A copy of a model whose only output is the counters.

    ``None`` when the main graph has no subgraph, too many, or an old Scan.
    """
    if not 0 < count_bodies(model) <= MAX_BODIES or has_old_scan(model):
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    bodies = list(_listed(copy.graph.node, _constant_names(copy.graph)))
    _Counter().instrument(copy.graph)
    del copy.graph.output[:]
    copy.graph.output.append(
        helper.make_tensor_value_info(COUNTS, TensorProto.INT64, [len(bodies)])
    )
    return Counted(copy, tuple(bodies))


def _constant_names(graph: GraphProto) -> set[str]:
    """The names of constants, and the empty name of an absent operand."""
    constants = {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    return {"", *constants, *(tensor.name for tensor in graph.initializer)}


def _bodies_of(node: NodeProto) -> list[AttributeProto]:
    """The attributes that hold the subgraphs of a control-flow operator of ONNX."""
    if node.op_type not in ("If", "Loop", "Scan") or node.domain not in ("", "ai.onnx"):
        return []
    return [attribute for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]


def _listed(nodes: Iterable[NodeProto], constants: Collection[str]) -> Iterator[Body]:
    """The subgraphs, the outer ones first: the order of the counters."""
    for node in nodes:
        for attribute in _bodies_of(node):
            is_counted = node.op_type == "Loop" and any(
                name not in constants for name in node.input[:2]
            )
            yield Body(
                node.name or next(filter(None, node.output), ""),
                node.op_type,
                attribute.name,
                is_counted,
            )
            yield from _listed(attribute.g.node, constants)


class _Counter:
    """Lets a model return a counter for each subgraph, in the order of `_listed`.

    A node with subgraphs returns a vector with the counters of its bodies, and of those within, so
    that the work grows with the number of bodies times their depth.
    """

    def __init__(self) -> None:
        self._serial = 0
        self._zeros: dict[int, str] = {}

    def instrument(self, graph: GraphProto) -> None:
        """Add the counters of the main graph, and all of them as a result."""
        parts, _ = self._counters(graph)
        joined = self._concat(graph, parts)
        graph.node.append(helper.make_node("Identity", [joined], [COUNTS]))
        for size, name in self._zeros.items():
            graph.initializer.append(numpy_helper.from_array(np.zeros(size, np.int64), name))

    def _counters(self, graph: GraphProto) -> tuple[list[str], int]:
        """Let the nodes of a graph return counters.

        Returns the names of the vectors, and their total size.
        """
        names: list[str] = []
        total = 0
        for node in graph.node:
            bodies = [attribute.g for attribute in _bodies_of(node)]
            if bodies:
                name, size = self._count(node, bodies)
                names.append(name)
                total += size
        return names, total

    def _count(self, node: NodeProto, bodies: Sequence[GraphProto]) -> tuple[str, int]:
        """Let a node return the counters of its bodies.

        Returns the name and the size of the vector.
        """
        states = _states(node, bodies[0])
        body_counters = [self._counters(body) for body in bodies]
        sizes = [1 + size for _, size in body_counters]
        before, total = 0, sum(sizes)
        for body, (names, _), size in zip(bodies, body_counters, sizes, strict=True):
            counters = self._joined(body, names, before, total - before - size)
            self._return_from_body(node, body, states, counters, total)
            before += size
        return self._return_from_node(node, states, total), total

    def _joined(self, body: GraphProto, names: Sequence[str], before: int, after: int) -> str:
        """The counters of one run of a body: 1 for itself, those of the bodies inside it, and 0
        for the node's other bodies.
        """
        counter = self._name("own")
        array = np.array([0] * before + [1], np.int64)
        value = numpy_helper.from_array(array, counter)
        body.node.insert(0, helper.make_node("Constant", [], [counter], value=value))
        parts = [counter, *names]
        if after:
            parts.append(self._zero(after))
        return self._concat(body, parts)

    def _concat(self, graph: GraphProto, parts: Sequence[str]) -> str:
        """Join vectors, a few at a time: onnxruntime takes quadratic time for many operands."""
        while len(parts) > 1:
            starts = range(0, len(parts), _MAX_OPERANDS)
            groups = [parts[start : start + _MAX_OPERANDS] for start in starts]
            joined = [self._name("joined") for _ in groups]
            for group, name in zip(groups, joined, strict=True):
                graph.node.append(helper.make_node("Concat", group, [name], axis=0))
            parts = joined
        return parts[0]

    def _return_from_body(
        self, node: NodeProto, body: GraphProto, states: int, counters: str, size: int
    ) -> None:
        """Let a body return its counters: in a loop, the sum of all iterations so far."""
        result = counters
        if node.op_type != "If":
            former, result = self._name("former"), self._name("sum")
            place = _FIRST_INPUT[node.op_type] + states
            body.input.insert(place, _port(former, size))
            body.node.append(helper.make_node("Add", [former, counters], [result]))
        body.output.insert(_FIRST_OUTPUT[node.op_type] + states, _port(result, size))

    def _return_from_node(self, node: NodeProto, states: int, size: int) -> str:
        """Let a node return the counters of its bodies; a loop starts from zero."""
        counts = self._name("counts")
        if node.op_type != "If":
            first = _FIRST_INPUT[node.op_type] + states
            node.input.extend([""] * (first - len(node.input)))
            node.input.insert(first, self._zero(size))
        node.output.extend([""] * (states - len(node.output)))
        node.output.insert(states, counts)
        return counts

    def _zero(self, size: int) -> str:
        """The name of a constant of the main graph that holds zeros."""
        return self._zeros.setdefault(size, f"{_PREFIX}zeros.{size}")

    def _name(self, word: str) -> str:
        self._serial += 1
        return f"{_PREFIX}{word}.{self._serial}"


def _port(name: str, size: int) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.INT64, [size])


_FIRST_INPUT: Final = {"Loop": 2, "Scan": 0}
"""The first state among the inputs of a loop and of its body."""
_FIRST_OUTPUT: Final = {"If": 0, "Loop": 1, "Scan": 0}
"""The first state among the outputs of a body; the node itself returns its states first."""


def _states(node: NodeProto, body: GraphProto) -> int:
    """The number of values that a loop hands from one iteration to the next.

    For an If, all its results.
    """
    if node.op_type == "If":
        return len(body.output)
    if node.op_type == "Loop":
        return len(body.input) - 2
    scanned = next((int(a.i) for a in node.attribute if a.name == "num_scan_inputs"), 0)
    return len(body.input) - scanned


def has_old_scan(model: onnx.ModelProto) -> bool:
    """Whether a Scan may be of opset 8, which has one more operand."""
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    return any(version < 9 for version in versions) and any(
        node.op_type == "Scan" for node in every_node(model.graph.node)
    )
