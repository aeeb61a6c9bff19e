"""Which branches of an If, and how many trips of a Loop, the runs of a model reach.

A copy of the model counts: each If, Loop and Scan gets one more result, a vector with a counter for each body of the model,
that says how often each of them ran within the node. The counters of nested nodes are added up from the inside out, so that the
main graph has one more output, with all counts of a run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, helper, numpy_helper

from xoptim.facts.protos import every_node

COUNTS: Final = "xoptim.branches.counts"
"""Name of the further output."""
_PREFIX: Final = "xoptim.branches."
_MOST: Final = 256
"""Subgraphs of a model: each of them gets counters for all."""
_TRIPS: Final = ("no trip", "one trip", "several trips")


class Body(NamedTuple):
    """A subgraph: the name of its node, or of the node's first result, and its place among the subgraphs of the node."""

    owner: str
    op_type: str
    name: str
    is_counted: bool = False
    """Whether values decide how often it runs."""

    def matters(self, count: int) -> bool:
        """Whether a run in which it ran so often (0, 1, or 2 for more) shows something that no other number does."""
        return count > 0 or self.is_counted

    def missed(self, seen: Collection[int]) -> list[str]:
        """The branches and numbers of trips that no run reached.

        ``seen`` are the numbers of its runs, 2 for more, each within a run of the model.
        """
        if self.op_type == "If":
            branch = self.name.removesuffix("_branch")
            return [] if {1, 2} & {*seen} else [f"branch {branch!r} of If {self.owner!r}"]
        if not self.is_counted:
            return [] if {1, 2} & {*seen} else [f"the body of {self.op_type} {self.owner!r}"]
        return [f"{text} of Loop {self.owner!r}" for count, text in enumerate(_TRIPS) if count not in seen]


class Counted(NamedTuple):
    """A model that counts the runs of its subgraphs: ``bodies`` in the order of the counters."""

    proto: onnx.ModelProto
    bodies: tuple[Body, ...]


def count_bodies(model: onnx.ModelProto) -> int:
    """The number of subgraphs of the main graph, at every depth."""
    return sum(len(_bodies_of(node)) for node in every_node(model.graph.node))


def counting(model: onnx.ModelProto) -> Counted | None:
    """A copy of a model that counts, and has no other output; ``None`` when no node has a subgraph, or too many have."""
    if not 0 < count_bodies(model) <= _MOST or _has_old_scan(model):
        return None
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    bodies = list(_listed(copy.graph.node, _constant_names(copy.graph)))
    _Counter(len(bodies)).instrument(copy.graph)
    del copy.graph.output[:]
    copy.graph.output.append(helper.make_tensor_value_info(COUNTS, TensorProto.INT64, [len(bodies)]))
    return Counted(copy, tuple(bodies))


def _constant_names(graph: GraphProto) -> set[str]:
    """The names of constants, and the empty name of an absent operand."""
    made = {name for node in graph.node if node.op_type == "Constant" for name in node.output}
    return {"", *made, *(tensor.name for tensor in graph.initializer)}


def _bodies_of(node: NodeProto) -> list[AttributeProto]:
    """The attributes that hold the subgraphs of a control-flow operator of ONNX."""
    if node.op_type not in ("If", "Loop", "Scan") or node.domain not in ("", "ai.onnx"):
        return []
    return [attribute for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]


def _listed(nodes: Iterable[NodeProto], constants: Collection[str]) -> Iterator[Body]:
    """The subgraphs, the outer ones first: the order of the counters."""
    for node in nodes:
        for attribute in _bodies_of(node):
            is_counted = node.op_type == "Loop" and any(name not in constants for name in node.input[:2])
            yield Body(node.name or next(filter(None, node.output), ""), node.op_type, attribute.name, is_counted)
            yield from _listed(attribute.g.node, constants)


class _Counter:
    """Adds counters to the subgraphs of a model, one after the other."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._next = 0
        self._serial = 0

    def instrument(self, graph: GraphProto) -> None:
        """Add the counters of the main graph, and their sum as a result."""
        graph.initializer.append(numpy_helper.from_array(np.zeros(self._size, np.int64), _ZERO))
        self._add_up(graph, [_ZERO, *self._counters(graph)], COUNTS)

    def _counters(self, graph: GraphProto) -> list[str]:
        """The counters that the nodes of a graph return, which are added here."""
        found: list[str] = []
        for node in graph.node:
            bodies = _bodies_of(node)
            states = _states(node, bodies[0].g) if bodies else 0
            for attribute in bodies:
                self._count(node, attribute.g, states)
            if bodies:
                found.append(self._returned(node, states))
        return found

    def _count(self, node: NodeProto, body: GraphProto, states: int) -> None:
        """Let a body return how often it, and the bodies within, ran: a loop in all iterations so far."""
        own = np.zeros(self._size, np.int64)
        own[self._next] = 1
        self._next += 1
        one, after = self._name("own"), self._name("after")
        parts = [one, *self._counters(body)]
        body.node.insert(0, helper.make_node("Constant", [], [one], value=numpy_helper.from_array(own, one)))
        if node.op_type != "If":
            before = self._name("before")
            body.input.insert(_FIRST_INPUT[node.op_type] + states, self._port(before))
            parts.append(before)
        self._add_up(body, parts, after)
        body.output.insert(_FIRST_OUTPUT[node.op_type] + states, self._port(after))

    def _returned(self, node: NodeProto, states: int) -> str:
        """Let a node return the counters of its bodies; a loop starts from zero."""
        made = self._name("counts")
        if node.op_type != "If":
            first = _FIRST_INPUT[node.op_type] + states
            node.input.extend([""] * (first - len(node.input)))
            node.input.insert(first, _ZERO)
        node.output.extend([""] * (states - len(node.output)))
        node.output.insert(states, made)
        return made

    def _add_up(self, graph: GraphProto, parts: Sequence[str], result: str) -> None:
        """Add nodes that compute the sum of some counters under a name."""
        total = parts[0]
        for part in parts[1:]:
            added = self._name("added")
            graph.node.append(helper.make_node("Add", [total, part], [added]))
            total = added
        graph.node.append(helper.make_node("Identity", [total], [result]))

    def _port(self, name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.INT64, [self._size])

    def _name(self, word: str) -> str:
        self._serial += 1
        return f"{_PREFIX}{word}.{self._serial}"


_ZERO: Final = f"{_PREFIX}zero"
_FIRST_INPUT: Final = {"Loop": 2, "Scan": 0}
"""The first state among the inputs of a loop and of its body."""
_FIRST_OUTPUT: Final = {"If": 0, "Loop": 1, "Scan": 0}
"""The same among the outputs of a body; the node itself returns its states first."""


def _states(node: NodeProto, body: GraphProto) -> int:
    """The number of values that a loop hands from one iteration to the next; for an If, all its results."""
    if node.op_type == "If":
        return len(body.output)
    if node.op_type == "Loop":
        return len(body.input) - 2
    scanned = next((int(a.i) for a in node.attribute if a.name == "num_scan_inputs"), 0)
    return len(body.input) - scanned


def _has_old_scan(model: onnx.ModelProto) -> bool:
    """Whether a Scan may be of the first version, which has one operand more."""
    versions = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    return any(version < 9 for version in versions) and any(node.op_type == "Scan" for node in every_node(model.graph.node))
