"""Prove that a model computes the same in another operator set: each node that the set defines
anew, and the nodes that take its place, by the definitions in both sets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.protos import UNLISTED_SINCE
from xoptim.facts.schema import since_version
from xoptim.graph.assumed import fitting
from xoptim.graph.export import export_node, value_info
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.proof.grades import GRADES, Grade
from xoptim.proof.indices import Unproved
from xoptim.proof.proving import Proof, prove_models
from xoptim.proof.renaming import digest_without_names

_MAX_BYTES: Final = 1 << 20
"""Bytes of the largest constant that is stored in both sides; a larger one is an input."""
RAISE: Final = "raise_operator_set"
"""Name of the pass that brings a model to a newer operator set."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A node before the change: its operator set, operands and results."""

    node: Node
    operands: tuple[str, ...]
    results: tuple[str, ...]


class OpsetChange:
    """A model before its operator set changes, to be compared with the same model afterwards.

    Args:
        model: the model, which is changed later.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._opsets = dict(model.opsets)
        self._links = [
            _Link(node, tuple(node.input), tuple(node.output)) for node in model.graph.nodes
        ]
        self._constants = dict(model.graph.initializers)
        self._ports = [*model.graph.declared_inputs], [*model.graph.outputs]
        self._is_plain = not model.functions and len([*model.graph.all_graphs()]) == 1

    @property
    def is_complete(self) -> bool:
        """Whether the model has another operator set now."""
        return self._opsets != dict(self._model.opsets)

    def weakest(self) -> Grade:
        """The weakest grade of the proofs of all nodes; raises `Unproved` where one is missing."""
        graph = self._model.graph
        if not self._is_plain or len([*graph.all_graphs()]) > 1:
            raise Unproved("subgraphs or local functions in another operator set")
        if self._ports != ([*graph.declared_inputs], [*graph.outputs]):
            raise Unproved("other inputs or outputs")
        names = {*self._constants, *graph.declared_inputs}
        names.update(name for link in self._links for name in link.results)
        proofs: dict[bytes, Proof] = {}
        grades = [self._grade_of(link, names, proofs) for link in self._links]
        return max(grades, key=GRADES.index, default=GRADES[0])

    def _grade_of(self, link: _Link, names: set[str], proofs: dict[bytes, Proof]) -> Grade:
        graph, old = self._model.graph, link.node
        is_kept = old.graph is graph
        is_as_before = (tuple(old.input), tuple(old.output)) == (link.operands, link.results)
        if is_kept and is_as_before and self._is_defined_alike(old):
            return GRADES[0]
        results = [name for name in link.results if name and graph.producer(name) is not None]
        nodes = [old] if is_kept else self._replacement(link, results, names)
        sides = self._sides(link, nodes, results)
        assumptions = Assumptions.of(fitting(self._model.assumptions.texts, sides[0])[0])
        key = digest_without_names(sides, assumptions.texts)
        if key not in proofs:
            proofs[key] = prove_models(*sides, assumptions)
        if not proofs[key].is_proved:
            raise Unproved(f"{old.op_type} in another operator set: {proofs[key].reason}")
        return proofs[key].grade

    def _is_defined_alike(self, node: Node) -> bool:
        """Whether both operator sets have the same version of an operator."""
        versions = [
            since_version(node.op_type, node.domain, opsets.get(node.domain, 1))
            for opsets in (self._opsets, self._model.opsets)
        ]
        return bool(node.domain) or (versions[0] is not None and versions[0] == versions[1])

    def _replacement(self, link: _Link, results: Sequence[str], names: set[str]) -> list[Node]:
        """The new nodes that compute the results of an old one from values that were there."""
        graph = self._model.graph
        nodes: dict[Node, None] = {}
        pending = [*results]
        while pending:
            producer = graph.producer(pending.pop())
            if producer is None or producer in nodes:
                continue
            nodes[producer] = None
            pending += (name for name in producer.input if name and name not in names)
        return sorted(nodes, key=lambda node: node.label)

    def _sides(
        self, link: _Link, nodes: Sequence[Node], results: Sequence[str]
    ) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        graph = self._model.graph
        made = {name for node in nodes for name in node.output}
        read = [name for node in nodes for name in node.input if name and name not in made]
        operands = dict.fromkeys(name for name in (*link.operands, *read) if name)
        stored: dict[str, Tensor] = {}
        for name in operands:
            tensor = graph.initializers.get(name)
            tensor = self._constants.get(name) if tensor is None else tensor
            before = self._constants.get(name)
            if before is not None and tensor is not before:
                raise Unproved(f"the constant {name!r} was changed")
            if tensor is not None and not tensor.is_external and tensor.nbytes <= _MAX_BYTES:
                stored[name] = tensor
        inputs = [
            value_info(name, self._constants[name].info())
            if name in self._constants
            else value_info(name, graph.info_of(name))
            for name in operands
            if name not in stored
        ]
        outputs = [value_info(name, graph.info_of(name)) for name in results]

        def side(chosen: Iterable[Node], opsets: dict[str, int]) -> onnx.ModelProto:
            own = [*chosen]
            body = onnx.GraphProto(name="fragment", node=map(export_node, own))
            used = {name for node in own for name in node.input}
            body.initializer.extend(t.to_proto(n) for n, t in stored.items() if n in used)
            body.input.extend(inputs)
            body.output.extend(outputs)
            imports = [onnx.helper.make_opsetid(domain, v) for domain, v in opsets.items()]
            version = max(self._model.ir_version, UNLISTED_SINCE)
            return onnx.helper.make_model(body, opset_imports=imports, ir_version=version)

        return side([link.node], self._opsets), side(nodes, dict(self._model.opsets))
