"""The differences of two models: nodes by structure and by name, constants, inputs and outputs."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.facts.dims import is_anonymous
from xoptim.facts.dtypes import type_name
from xoptim.facts.json_results import JsonResult
from xoptim.facts.operators import operator_label
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor

Kind: TypeAlias = Literal["added", "removed", "changed"]


@dataclass(frozen=True, slots=True)
class Difference(JsonResult):
    """One difference of a model from another.

    Attributes:
        kind: the kind of the difference.
        part: ``node``, ``initializer``, ``input``, ``output``, ``function`` or ``operator set``.
        name: name of the part; the first result of a node without a name.
        detail: operator of a node, or description of the change.
    """

    kind: Kind
    part: str
    name: str
    detail: str

    def __str__(self) -> str:
        sign = {"added": "+", "removed": "-", "changed": "~"}[self.kind]
        return f"{sign} {self.part} {self.name!r}: {self.detail}"


def differences(first: Model, second: Model) -> list[Difference]:
    """The differences of the second model from the first one, in the order of their nodes.

    Two nodes are equal when their operators, attributes, subgraphs and operands are. Operands are
    equal if they are results of equal nodes, equal constants, or inputs at the same position; names
    do not count. The remaining nodes are compared in pairs: two nodes of one operator that have the
    same name, or a result of the same name.
    """
    entries: list[Difference] = []
    entries += _of_tables("operator set", _opsets(first), _opsets(second))
    for part, names in (("input", "inputs"), ("output", "outputs")):
        tables = [
            {name: _type(model.graph, name) for name in getattr(model.graph, names)}
            for model in (first, second)
        ]
        entries += _of_tables(part, *tables)
    entries += _of_tables("function", _functions(first), _functions(second))
    entries += _of_nodes(first.graph, second.graph)
    entries += _of_tables("initializer", _constants(first.graph), _constants(second.graph))
    return entries


def _of_tables(
    part: str, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Difference]:
    for name in dict.fromkeys((*before, *after)):
        if name not in after:
            yield Difference("removed", part, name, before[name])
        elif name not in before:
            yield Difference("added", part, name, after[name])
        elif before[name] != after[name]:
            yield Difference("changed", part, name, f"{before[name]} → {after[name]}")


def _opsets(model: Model) -> dict[str, str]:
    return {domain or "ai.onnx": str(version) for domain, version in model.opsets.items()}


def _functions(model: Model) -> dict[str, str]:
    return {
        "::".join(filter(None, function.key)): _short(_Keys(function.body).of_outputs())
        for function in model.functions
    }


def _type(graph: Graph, name: str) -> str:
    info = graph.info_of(name)
    shape = (
        "[...]"
        if info.shape is None
        else f"[{', '.join('?' if is_anonymous(dim) else str(dim) for dim in info.shape)}]"
    )
    return f"{type_name(info.dtype)}{shape}"


def _constants(graph: Graph) -> dict[str, str]:
    return {
        name: f"{type_name(tensor.dtype)}{list(tensor.shape)}, content {_short(_content(tensor))}"
        for name, tensor in graph.initializers.items()
    }


def _content(tensor: Tensor) -> str:
    head = f"{tensor.dtype}{list(tensor.shape)}".encode()
    return (
        hashlib.sha256(head + tensor.to_raw()).hexdigest()
        if tensor.dtype != TensorProto.STRING
        else _text(tensor.numpy())
    )


def _short(key: str) -> str:
    return key[:16]


def _text(value: Any) -> str:
    """A text that is equal for equal attribute values."""
    if isinstance(value, np.ndarray) and value.dtype.kind != "O" and value.size > 8:
        return (
            f"{value.dtype}{list(value.shape)} "
            f"{_short(hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest())}"
        )
    return (
        f"{value.dtype}{list(value.shape)} {value.tolist()!r}"
        if isinstance(value, np.ndarray)
        else repr(value)
    )


class _Keys:
    """Keys of the values of a graph, equal for equal computations.

    ``outer`` gives the key of a value of the enclosing graph.
    """

    def __init__(self, graph: Graph, outer: Callable[[str], str] = str, depth: int = 0) -> None:
        self._outer = outer
        self._graph = graph
        self._depth = depth
        self.of_value = {name: f"input {depth}.{index}" for index, name in enumerate(graph.inputs)}
        self.of_value.update(
            (name, _content(tensor)) for name, tensor in graph.initializers.items()
        )
        self.of_node: dict[Node, str] = {}
        for node in graph.nodes:
            key = self.of_node[node] = self._key(node)
            self.of_value.update(
                (name, f"{key}:{index}") for index, name in enumerate(node.output) if name
            )

    def value(self, name: str) -> str:
        """The key of a value."""
        key = self.of_value.get(name)
        return self._outer(name) if key is None else key

    def of_outputs(self) -> str:
        """The key of the graph's outputs."""
        return _hash(self.value(name) for name in self._graph.outputs)

    def _key(self, node: Node) -> str:
        operands = (self.value(name) if name else "" for name in node.input)
        attributes = (f"{name}={value}" for name, value in sorted(attributes_of(node).items()))
        bodies = (
            f"{name}={_Keys(body, self.value, self._depth + 1).of_outputs()}"
            for name, body in sorted(node.bodies.items())
        )
        return _hash(
            (node.domain, node.op_type, *operands, *attributes, *bodies, str(len(node.output)))
        )


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def attributes_of(node: Node) -> dict[str, str]:
    """The attributes of a node as texts, without subgraphs."""
    return {name: _text(value) for name, value in node.attribute.items() if name not in node.bodies}


def _of_nodes(first: Graph, second: Graph) -> Iterator[Difference]:
    first_keys, second_keys = _Keys(first), _Keys(second)
    candidates: defaultdict[str, list[Node]] = defaultdict(list)
    for node, key in second_keys.of_node.items():
        candidates[key].append(node)
    removed = []
    for node, key in first_keys.of_node.items():
        if candidates[key]:
            candidates[key].pop(0)
        else:
            removed.append(node)
    added = {node: None for nodes in candidates.values() for node in nodes}
    by_name = {_name(node): node for node in added}
    by_result = {name: node for node in added for name in node.output if name}
    matched: set[Node] = set()
    for node in removed:
        candidate_twins = (by_name.get(_name(node)), *map(by_result.get, node.output))
        twins = (
            twin
            for twin in candidate_twins
            if twin is not None
            and twin not in matched
            and (twin.domain, twin.op_type) == (node.domain, node.op_type)
        )
        twin = next(twins, None)
        if twin is None:
            yield Difference("removed", "node", _name(node), _operator(node))
            continue
        matched.add(twin)
        detail = _changes(node, twin)
        if detail:
            yield Difference("changed", "node", _name(node), f"{_operator(node)}: {detail}")
    for node in sorted(added.keys() - matched, key=lambda node: node.label):
        yield Difference("added", "node", _name(node), _operator(node))


def _name(node: Node) -> str:
    return node.name or next(filter(None, node.output), "")


def _operator(node: Node) -> str:
    return operator_label(node.op_type, node.domain)


def _changes(node: Node, twin: Node) -> str:
    """Differences of two nodes of one operator.

    Empty when only the values of their operands differ.
    """
    before, after = attributes_of(node), attributes_of(twin)
    texts = [
        f"{name} {before.get(name, 'absent')} → {after.get(name, 'absent')}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    if node.input != twin.input:
        texts.append(f"operands {', '.join(node.input)} → {', '.join(twin.input)}")
    if len(node.output) != len(twin.output):
        texts.append(f"{len(node.output)} → {len(twin.output)} results")
    pairs = {
        name: (body, twin.bodies[name]) for name, body in node.bodies.items() if name in twin.bodies
    }
    changed_bodies = [
        name
        for name, pair in pairs.items()
        if len({_Keys(body, lambda name: name).of_outputs() for body in pair}) > 1
    ]
    return "; ".join([*texts, *(f"subgraph {name}" for name in changed_bodies)])


def common_results(first: Model, second: Model) -> list[str]:
    """The results of nodes of the main graphs that have the same name in both models, in the order
    of the first.
    """
    return [
        name
        for node in first.graph.nodes
        for name in node.output
        if name and second.graph.producer(name) is not None
    ]
