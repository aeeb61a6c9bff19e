"""Prove rewrites that keep nodes and move them in and out of branches: equal operators have equal
operands, whatever their ranks are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import onnx

from xoptim.facts.protos import inner_graphs
from xoptim.graph.graph import Graph
from xoptim.graph.load import load_model
from xoptim.graph.node import Node
from xoptim.graph.walk import all_nodes
from xoptim.operators.registry import is_deterministic
from xoptim.proof.chain import Reader, Scope, inner_scope
from xoptim.proof.indices import Unproved, check_time
from xoptim.proof.values import Value, Values

_Roots: TypeAlias = set[Value]
_Choice: TypeAlias = tuple[Value, Mapping[bool, Graph]]
"""The condition of an If, and its branches."""


def has_subgraphs(model: onnx.ModelProto) -> bool:
    """Whether nodes of a model have subgraphs."""
    return any(True for _ in inner_graphs(model.graph.node))


def require_same_values(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """Raise `Unproved` unless both models apply the same operators to equal operands, and each node
    of the result runs only where the original runs an equal one.

    Neither inferred nor declared shapes are used.
    """
    if _ports(before) != _ports(after):
        raise Unproved("the inputs or outputs differ")
    values = Values()
    original, result = (_Side(values, model) for model in (before, after))
    for name in original.graph.outputs:
        if not original.value(original.graph, name).is_same(result.value(result.graph, name)):
            raise Unproved(f"output {name!r} is not found equal")
    _Comparison(original, result).run()


def _ports(model: onnx.ModelProto) -> list[bytes | str]:
    inputs = (value.SerializeToString(deterministic=True) for value in model.graph.input)
    return [*inputs, *(value.name for value in model.graph.output)]


class _Side(Reader):
    """The values of a model, those of its subgraphs included."""

    def __init__(self, values: Values, proto: onnx.ModelProto) -> None:
        super().__init__(values, {}, {}, reads_weights=True)
        self.scopes: dict[Graph, Scope] = {}
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        for graph in (copy.graph, *inner_graphs(copy.graph.node)):
            graph.ClearField("value_info")
        model = load_model(copy, infer=False)
        self.graph = model.graph
        if model.functions or self.graph.overridable:
            raise Unproved("local functions, or an input with a default")
        for node in all_nodes(self.graph.nodes):
            if not is_deterministic(node.op_type, node.domain):
                raise Unproved(f"operator {node.op_type} may be random")
        self.read(self.graph, {})

    def read(
        self,
        graph: Graph,
        scope: Scope,
        depth: int = 0,
        operands: Mapping[str, Value] | None = None,
    ) -> None:
        """Add the values of a graph to ``scope``, which is kept."""
        if graph.parent is not None and graph.declared_inputs:
            raise Unproved("a loop")
        if graph.parent is not None and any(_is_outside(graph, name) for name in _names_of(graph)):
            raise Unproved("a name that a subgraph defines again")
        super().read(graph, scope, depth, operands)
        self.scopes[graph] = scope

    def _results(
        self,
        graph: Graph,
        node: Node,
        operands: list[Value | None],
        scope: Scope,
        depth: int,
    ) -> Sequence[Value]:
        check_time()
        truth = self.truth(graph, node, operands[0] if operands else None)
        if truth is None:
            return super()._results(graph, node, operands, scope, depth)
        branches = _branches(node)
        for body in branches.values():
            self.read(body, inner_scope(scope), depth + 1)
        return [self.value(branches[truth], name) for name in branches[truth].outputs]

    def truth(self, graph: Graph, node: Node, condition: Value | None = None) -> bool | None:
        """The condition of an If that is a constant; ``None`` for other conditions and nodes."""
        if not _is_choice(node):
            return None
        value = self.value(graph, node.input[0]) if condition is None else condition
        tensor = value.root.tensor
        if tensor is None or tensor.shape not in ((), (1,)):
            return None
        return bool(tensor.numpy().all())

    def value(self, graph: Graph, name: str) -> Value:
        """A value that a graph reads or computes."""
        return self.scopes[graph][name].root

    def computed(self, graph: Graph) -> Iterator[tuple[Node, Value]]:
        """The nodes of a graph except Constant and Identity, each with its first result."""
        for node in graph.nodes:
            names = [name for name in node.output if name]
            if names and (node.domain or node.op_type not in ("Constant", "Identity")):
                yield node, self.value(graph, names[0])

    def running(self, graph: Graph) -> _Roots:
        """The values that are computed wherever a graph runs."""
        roots: _Roots = set()
        for node, value in self.computed(graph):
            roots.add(value)
            if not _is_choice(node):
                continue
            truth = self.truth(graph, node)
            if truth is None:
                then, otherwise = map(self.running, _branches(node).values())
                roots |= then & otherwise
            else:
                roots |= self.running(_branches(node)[truth])
        return roots

    def choices(self, graph: Graph) -> Iterator[_Choice]:
        """The If nodes that run wherever a graph runs."""
        for node, _ in self.computed(graph):
            if not _is_choice(node):
                continue
            truth = self.truth(graph, node)
            if truth is None:
                yield self.value(graph, node.input[0]), _branches(node)
            else:
                yield from self.choices(_branches(node)[truth])


class _Comparison:
    """Checks that the nodes of the result run only where the original runs equal ones."""

    def __init__(self, original: _Side, result: _Side) -> None:
        self.original = original
        self.result = result
        self.valid = {
            value
            for graph in (original.graph, *_bodies(original.graph))
            for _, value in original.computed(graph)
        }

    def run(self) -> None:
        """Raise `Unproved` for a node of the result that may fail where the original does not."""
        if not {*_declared(self.result)} <= {*_declared(self.original)}:
            raise Unproved("a subgraph that declares other outputs")
        original = self.original
        start = original.running(original.graph), [*original.choices(original.graph)]
        self._require(self.result.graph, *start)

    def _require(self, graph: Graph, available: _Roots | None, choices: Sequence[_Choice]) -> None:
        """Raise `Unproved` for a node of a graph of the result that computes a value which is not
        available.

        Args:
            graph: a graph of the result.
            available: what the original computes wherever the graph runs; ``None`` for a graph that
                never runs, whose nodes have to be valid so that the model loads.
            choices: the If nodes that the original runs there.
        """
        for node, value in self.result.computed(graph):
            if _is_choice(node):
                self._require_branches(graph, node, value, available, choices)
            elif value not in (self.valid if available is None else available):
                raise Unproved(f"{node.op_type} runs in the result only")

    def _require_branches(
        self,
        graph: Graph,
        node: Node,
        value: Value,
        available: _Roots | None,
        choices: Sequence[_Choice],
    ) -> None:
        truth = self.result.truth(graph, node)
        if truth is None and available is not None and value not in available:
            raise Unproved("an If runs in the result only")
        condition = self.result.value(graph, node.input[0])
        for answer, body in _branches(node).items():
            if available is None or truth not in (None, answer):
                self._require(body, None, [])
                continue
            bodies = [branches[answer] for test, branches in choices if test.is_same(condition)]
            inner = [choice for branch in bodies for choice in self.original.choices(branch)]
            roots = available.union(*map(self.original.running, bodies))
            self._require(body, roots, [*choices, *inner])


def _declared(side: _Side) -> Iterator[tuple[Value, bytes]]:
    """The outputs of all subgraphs, each with the type that is declared."""
    for body in _bodies(side.graph):
        source = None if body.source is None else body.source.output
        if source is None or len(source) != len(body.outputs):
            raise Unproved("a subgraph that was changed")
        for name, value in zip(body.outputs, source, strict=True):
            yield side.value(body, name), value.type.SerializeToString(deterministic=True)


def _is_choice(node: Node) -> bool:
    return not node.domain and node.op_type == "If"


def _branches(node: Node) -> dict[bool, Graph]:
    """The branches of an If, by its condition."""
    return {True: node.bodies["then_branch"], False: node.bodies["else_branch"]}


def _bodies(graph: Graph) -> Iterator[Graph]:
    return (body for body in graph.all_graphs() if body is not graph)


def _names_of(graph: Graph) -> Iterator[str]:
    """The names that a graph defines."""
    yield from graph.initializers
    yield from (name for node in graph.nodes for name in node.output if name)


def _is_outside(graph: Graph, name: str) -> bool:
    """Whether a graph around a graph defines a name."""
    parent = graph.parent
    return parent is not None and (parent.defines(name) or _is_outside(parent, name))
