"""Prove changes of a model by the nodes that were removed and those that took their places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import onnx

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.protos import UNLISTED_SINCE
from xoptim.facts.schema import since_version
from xoptim.graph.assumed import fitting
from xoptim.graph.export import export_node, value_info
from xoptim.graph.fragment import tensor_proto
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor
from xoptim.proof.grades import GRADES, Grade
from xoptim.proof.indices import Unproved
from xoptim.proof.proving import Proof, prove_models
from xoptim.proof.renaming import digest_without_names

_MAX_BYTES: Final = 1 << 20
"""Bytes of the largest constant that is stored in both sides; a larger one is an input."""
_MAX_NODES: Final = 300
"""Maximal number of nodes that are compared at once."""
RAISE: Final = "raise_operator_set"
"""Name of the pass that brings a model to a newer operator set."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A node before the change: its operands and results."""

    node: Node
    operands: tuple[str, ...]
    results: tuple[str, ...]


class Change:
    """A model before it changes, to be compared with the same model afterwards.

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
    def has_raised(self) -> bool:
        """Whether the model has another operator set now."""
        return self._opsets != dict(self._model.opsets)

    def of_stacks(self) -> Proof:
        """The proof that horizontally fused nodes compute the same results as the removed nodes.

        Raises `Unproved` where there is none.
        """
        self._require_plain("subgraphs or local functions")
        graph = self._model.graph
        removed_links = [link for link in self._links if link.node.graph is not graph]
        kept_links = [link for link in self._links if link.node.graph is graph]
        if self.has_raised or not all(map(_is_as_before, kept_links)):
            raise Unproved("nodes that were changed")
        before = {link.node for link in self._links}
        new_nodes = [node for node in graph.nodes if node not in before]
        if len(removed_links) + len(new_nodes) > _MAX_NODES:
            raise Unproved(f"more than {_MAX_NODES} nodes that were changed")
        names_read = {name for node in graph.nodes for name in node.input} | {*graph.outputs}
        results = [
            name
            for link in removed_links
            for name in link.results
            if name in names_read and graph.producer(name) is not None
        ]
        return self._proved([link.node for link in removed_links], new_nodes, results, {}, "stacks")

    def of_operator_set(self) -> Grade:
        """Prove each node by its definitions in both operator sets; returns the weakest grade.

        Raises `Unproved` where a node is not proved.
        """
        self._require_plain("subgraphs or local functions in another operator set")
        names = {*self._constants, *self._ports[0]}
        names.update(name for link in self._links for name in link.results)
        proofs: dict[bytes, Proof] = {}
        grades = [self._grade_of(link, names, proofs) for link in self._links]
        return max(grades, key=GRADES.index, default=GRADES[0])

    def _require_plain(self, reason: str) -> None:
        graph = self._model.graph
        if not self._is_plain or self._model.functions or len([*graph.all_graphs()]) > 1:
            raise Unproved(reason)
        if self._ports != ([*graph.declared_inputs], [*graph.outputs]):
            raise Unproved("inputs or outputs that were changed")

    def _grade_of(self, link: _Link, names: set[str], proofs: dict[bytes, Proof]) -> Grade:
        graph, old = self._model.graph, link.node
        is_kept = old.graph is graph
        if is_kept and _is_as_before(link) and self._is_defined_alike(old):
            return GRADES[0]
        results = [name for name in link.results if name and graph.producer(name) is not None]
        nodes = [old] if is_kept else self._replacement(results, names)
        title = f"{old.op_type} in another operator set"
        return self._proved([old], nodes, results, proofs, title).grade

    def _is_defined_alike(self, node: Node) -> bool:
        """Whether both operator sets have the same version of an operator."""
        versions = [
            since_version(node.op_type, node.domain, opsets.get(node.domain, 1))
            for opsets in (self._opsets, self._model.opsets)
        ]
        return bool(node.domain) or (versions[0] is not None and versions[0] == versions[1])

    def _replacement(self, results: Sequence[str], names: set[str]) -> list[Node]:
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

    def _proved(
        self,
        old: Sequence[Node],
        new: Sequence[Node],
        results: Sequence[str],
        proofs: dict[bytes, Proof],
        title: str,
    ) -> Proof:
        """The proof that old nodes compute the same results as new ones."""
        sides = self._sides(old, new, results)
        assumptions = Assumptions.of(fitting(self._model.assumptions.texts, sides[0])[0])
        key = digest_without_names(sides, assumptions.texts)
        if key not in proofs:
            proofs[key] = prove_models(*sides, assumptions)
        if not proofs[key].is_proved:
            raise Unproved(f"{title}: {proofs[key].reason}")
        return replace(proofs[key], elements=None)

    def _sides(
        self, old: Sequence[Node], new: Sequence[Node], results: Sequence[str]
    ) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        graph = self._model.graph
        operands = dict.fromkeys((*_read_by(old), *_read_by(new)))
        stored: dict[str, Tensor] = {}
        for name in operands:
            before, after = self._constants.get(name), graph.initializers.get(name)
            tensor = before if after is None else after
            if before is not None and tensor is not before:
                raise Unproved(f"the constant {name!r} was changed")
            if tensor is not None and tensor.nbytes <= _MAX_BYTES and tensor.is_readable():
                stored[name] = tensor
        inputs = [
            value_info(name, self._constants[name].info())
            if name in self._constants
            else value_info(name, graph.info_of(name))
            for name in operands
            if name not in stored
        ]
        outputs = [value_info(name, graph.info_of(name)) for name in results]

        def side(nodes: Iterable[Node], opsets: dict[str, int]) -> onnx.ModelProto:
            fragment_nodes = [*nodes]
            body = onnx.GraphProto(name="fragment", node=map(export_node, fragment_nodes))
            used = {name for node in fragment_nodes for name in node.input}
            body.initializer.extend(tensor_proto(n, t) for n, t in stored.items() if n in used)
            body.input.extend(inputs)
            body.output.extend(outputs)
            imports = [onnx.helper.make_opsetid(domain, v) for domain, v in opsets.items()]
            version = max(self._model.ir_version, UNLISTED_SINCE)
            return onnx.helper.make_model(body, opset_imports=imports, ir_version=version)

        return side(old, self._opsets), side(new, dict(self._model.opsets))


def _is_as_before(link: _Link) -> bool:
    return (tuple(link.node.input), tuple(link.node.output)) == (link.operands, link.results)


def _read_by(nodes: Sequence[Node]) -> list[str]:
    """The names that nodes read and do not compute."""
    results = {name for node in nodes for name in node.output}
    return [name for node in nodes for name in node.input if name and name not in results]
