"""Compute results that depend on constants only, each maximal region once."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import is_float
from xoptim.graph.constants import EvaluationView, longest_result
from xoptim.graph.expanded import ExpandedTensor, expanded, views_of
from xoptim.graph.facts import can_fold
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.propagate import is_refused_with, refresh, spread_constness
from xoptim.graph.tensors import Tensor
from xoptim.graph.walk import is_read_beyond
from xoptim.match.rewrite import Step
from xoptim.operators.evaluate.regions import RegionResult, evaluate_with_onnxruntime
from xoptim.operators.inference.values import known_value
from xoptim.operators.registry import Trait, operator_of, operators_with
from xoptim.passes.cleanup import GraphPass
from xoptim.passes.fold_conditions import (
    is_unsure,
    known_sizes,
    may_be_constant,
    may_repeat,
    stays,
    widens,
)
from xoptim.passes.growth import Growth, copied, freed, stored_bytes, write_expanded

Send: TypeAlias = Callable[..., None]
"""Sends an event: its kind, the name of the pass, and details."""
_CRASHING = operators_with(Trait.RECURRENT) | {
    "SequenceAt",
    "SequenceInsert",
    "SequenceErase",
    "SplitToSequence",
    "STFT",
}
"""Operators whose kernels crash the process on some invalid operands, instead of raising an
error.
"""
_EVALUATED = ("", "com.microsoft", "ai.onnx.ml")
EXTERNAL_LIMIT = 1 << 26
"""External tensors of more bytes are not read for folding."""
EXTERNAL_BUDGET = 1 << 29
"""Maximal number of bytes of external data that folding reads."""
_TOO_LARGE = "the result would make the model larger than max_growth allows"
_REFUSED = "a node of the subgraph would fail for certain, so that no runtime would load it"


class FoldConstants(GraphPass):
    """Computes results that depend on constants only.

    ``send`` gets an event for each folded node, and for each refusal.
    """

    title = "constant_folding"
    exactness = "rounding"

    def __init__(self, growth: Growth, send: Send) -> None:
        self.growth = growth
        # Whether a run has stored floating-point results: runtimes sum MatMuls of stored matrices
        # in another order than MatMuls of computed ones
        self.rounds = False
        self._send = send

    def run_on(self, graph: Graph) -> int:
        """Fold the constants of a graph, small results first.

        Returns the number of nodes folded.
        """
        folder = Folder(graph, self.growth, self._send)
        self.growth.is_sparing, self.growth.has_postponed = True, False
        count = folder.run()
        self.growth.is_sparing = False
        if self.growth.has_postponed:
            count = self._run_again(folder, count)
        self.rounds |= folder.rounds
        return count

    def _run_again(self, folder: "Folder", before: int) -> int:
        """Fold what was postponed, until nothing changes: a constant that loses a reader may make
        room for another result.
        """
        count = folder.run()
        while count > before and self.growth.unfolded() is not None:
            before, count = count, folder.run()
        return count


class WriteExpanded(Step):
    """Writes partly held constants as nodes where they do not fit whole into the model, after all
    folding.
    """

    title = "write_expanded"

    def __init__(self, growth: Growth, send: Send) -> None:
        self.growth = growth
        self._send = send

    def run(self, model: Model) -> int:
        """Write the constants; returns how many."""
        growth, before = self.growth, stored_bytes(model)
        written = write_expanded(model, growth.limit)
        growth.added += stored_bytes(model) - before
        for node, size in written.items():
            growth.refuse(node, size - (0 if node.graph is None else freed(node.graph, [node], {})))
            self._send("refused", "fold", node=node, text=_TOO_LARGE, level=10)
        return len(written)


class Folder:
    """Folds the constants of one graph.

    ``send`` gets an event for each folded node, and for each refusal with its reason.
    """

    def __init__(self, graph: Graph, growth: Growth, send: Send) -> None:
        self.graph = graph
        self._send = send
        self.count = 0
        self.rounds = False
        """Whether floating-point results were stored: runtimes sum MatMuls of stored matrices in
        another order.
        """
        self._readers: dict[Node, None] = {}
        self._region: dict[Node, None] = {}
        # bytes of the results of the region that is not computed yet
        self._pending: dict[str, int] = {}
        self._longest: dict[str, int] = {}  # characters of the texts in these results, at most
        self._tentative = 0  # bytes that this region adds
        self._external = 0  # bytes of external data that were read
        self._growth = growth

    def run(self) -> int:
        """Fold all constant nodes; returns the number of nodes folded, in former runs too."""
        # a rewrite may have replaced the operand that could not be computed
        self.graph.retry_failures()
        self._fold()
        while self._learn():
            self._fold()
        self.graph.sweep()
        return self.count

    def _fold(self) -> None:
        graph = self.graph
        for node in graph.nodes:
            if node.op_type == "Constant" and not node.domain:
                self._store_constant(node)
            elif not may_be_constant(graph, node, self._pending) or not can_fold(node):
                continue
            elif any(node.output) and not self._from_shapes(node):
                self._settle(node)
                self._visit(node)
        self._flush()

    def _flush(self) -> None:
        """Compute the nodes collected so far."""
        region, self._region = list(self._region), {}
        self._pending.clear()
        self._tentative = 0
        if region:
            self._run_region(region)

    def _learn(self) -> bool:
        """Infer the readers of the new constants again: a shape may follow from their values.

        Returns whether facts changed.
        """
        graph, readers, self._readers = self.graph, self._readers, {}
        spread_constness(graph, readers)  # of outputs, for instance, which are not folded
        unsure = [
            n
            for n in readers
            if n.graph is graph and any(is_unsure(graph.known(name)) for name in n.output)
        ]
        known = [(name, graph.known(name)) for node in unsure for name in node.output]
        refresh(graph, sorted(unsure, key=lambda node: node.label))
        return any(graph.known(name) is not info for name, info in known)

    def _store_constant(self, node: Node) -> None:
        name = node.output[0]
        tensor = self.graph.tensor(name)
        # Not all runtimes support an initializer that is an output, so such a constant stays a
        # node, or becomes one.
        if tensor is not None and not self.graph.is_output(name):
            self.graph.remove(node)
            self.graph.add_initializer(name, tensor)

    def _from_shapes(self, node: Node) -> bool:
        info = self.graph.known(node.output[0]) if len(node.output) == 1 else None
        value = None if info is None or info.data is None else known_value(info)
        values = {} if value is None else {node.output[0]: Tensor.from_array(value)}
        if not values or stays(self.graph, node) or is_refused_with(self.graph, values):
            return False
        self._store(node, values)
        return True

    def _settle(self, node: Node) -> None:
        """Compute the pending operands of a node whose result has an unknown size: folding it
        depends on the size.
        """
        waits = any(name in self._pending for name in node.input)
        infos = (self.graph.known(name) for name in node.output if name and waits)
        if any(info is None or (info.is_tensor and info.static_shape is None) for info in infos):
            self._flush()
            refresh(self.graph, [node])

    def _visit(self, node: Node) -> None:
        graph = self.graph
        operands = _operands(graph, node, self._pending)
        if operands is None or stays(graph, node):
            return None
        if node in self._growth.oversized:
            return self._leave(node)
        if widens(node, operands[0], self._growth.narrow):
            return self._refuse(
                node, "a narrow type, such as float16, would be stored in a wider one"
            )
        waits = any(name in self._pending for name in node.input)
        views = None if waits else views_of(graph, node, operands)
        if views is not None:
            return self._replace(node, views)
        external = [
            tensor.nbytes for tensor in operands if tensor is not None and tensor.is_external
        ]
        if (
            max(external, default=0) > EXTERNAL_LIMIT
            or self._external + sum(external) > EXTERNAL_BUDGET
        ):
            return self._refuse(node, "an operand is large external data")
        self._external += sum(external)
        inputs = (
            [] if waits else [None if tensor is None else tensor.numpy() for tensor in operands]
        )
        repeating = None if waits else self._repeating(node, inputs)
        if repeating is not None:
            return self._replace(node, [repeating])
        longest = _longest(node, operands, self._longest)
        sizes = known_sizes(graph, node, longest)
        more = self._tentative + sum(sizes.values()) - freed(graph, [node], self._pending)
        if not self._growth.admits(node, more, copied(graph, node, sum(sizes.values()))):
            return self._leave(node)
        results = None if waits else self._compute(node, inputs)
        if results is not None:
            return self._replace(node, list(map(Tensor.from_array, results)))
        if node.domain in _EVALUATED and node.op_type not in _CRASHING:
            self._region[node] = None
            self._pending.update(sizes)
            self._longest.update(dict.fromkeys(sizes, longest))
            self._tentative = more
        return None

    def _replace(self, node: Node, results: Sequence[Tensor]) -> None:
        """Put the results of a node in its place, if the model may hold them."""
        size = sum(tensor.stored_bytes for tensor in results)
        more = size - freed(self.graph, [node], self._pending)
        if not self._growth.admits(node, self._tentative + more, copied(self.graph, node, size)):
            return self._leave(node)
        values = {name: tensor for name, tensor in zip(node.output, results, strict=False) if name}
        if is_refused_with(self.graph, values):
            return self._leave(node, _REFUSED)
        self._growth.added += more
        return self._store(node, values)

    def _repeating(self, node: Node, inputs: list[np.ndarray | None]) -> ExpandedTensor | None:
        """The result of a node if it repeats along axes because operands do: the model needs to
        hold a part of it only.
        """
        results = self._compute(node, inputs) if may_repeat(self.graph, node) else None
        return (
            None if results is None else expanded(self.graph, Tensor.from_array(results[0]), node)
        )

    def _compute(self, node: Node, inputs: list[np.ndarray | None]) -> list[np.ndarray] | None:
        """The results of a node by numpy, ``None`` when there is no kernel for it, or the kernel
        raises.
        """
        kernel = operator_of(node.domain, node.op_type).kernel
        try:
            return None if kernel is None else kernel(EvaluationView(node), inputs)
        except MemoryError:
            raise
        except Exception as error:  # numpy may raise anything for invalid operands
            self._refuse(node, f"{type(error).__name__}: {error}")
            return None

    def _refuse(self, node: Node, reason: str) -> None:
        self._send("refused", "fold", node=node, text=reason, level=10)

    def _store(self, node: Node, values: Mapping[str, Tensor]) -> None:
        """Put the values of the results that are needed in the place of a node."""
        graph, place = self.graph, node.previous
        graph.remove(node)
        for name in (name for name in node.output if name in values and graph.is_needed(name)):
            self._add(name, values[name], node, place)
        self.count += 1
        self._send("folded", "fold", node=node, removed=(node,), level=10)

    def _add(self, name: str, tensor: Tensor, node: Node, place: Node | None) -> None:
        """Store the value of a result of a node.

        An output becomes a Constant in the place of the node.
        """
        if self.graph.is_output(name):
            self.graph.insert(_constant(name, tensor, node), place)
            self.graph.learn(name, tensor.info())
        else:
            self.graph.add_initializer(name, tensor)
        self._readers.update(dict.fromkeys(self.graph.consumers(name)))
        self.rounds = self.rounds or (is_float(tensor.dtype) and tensor.size > 1)

    def _run_region(self, nodes: Sequence[Node]) -> None:
        """Evaluate nodes in one session.

        If that fails, each half alone, so that an invalid node affects no other.
        """
        result = _evaluated(self.graph, nodes)
        if result is not None and result.values is None:
            return (
                self._run_halves(nodes) if len(nodes) > 1 else self._refuse(nodes[0], result.reason)
            )
        return (
            None
            if result is None or result.values is None
            else self._store_region(nodes, result.values)
        )

    def _run_halves(self, nodes: Sequence[Node]) -> None:
        for half in (nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]):
            self._run_region(half)

    def _never(self, node: Node) -> None:
        """Refuse a node whose result is too large, which is only known when it is computed, once
        and for all.
        """
        self._growth.oversized.add(node)
        self._leave(node)

    def _leave(self, node: Node, reason: str = _TOO_LARGE) -> None:
        """Refuse a node whose result is too large.

        Patterns do not read it either, as they would store what they make of it.
        """
        self.graph.remember(dict.fromkeys(filter(None, node.output)))
        if reason != _TOO_LARGE or not self._growth.is_sparing:
            self._refuse(node, reason)

    def _store_region(self, nodes: Sequence[Node], values: dict[str, np.ndarray]) -> None:
        graph = self.graph
        tensors = {name: Tensor.from_array(value) for name, value in values.items()}
        more = sum(tensor.stored_bytes for tensor in tensors.values()) - freed(
            graph, nodes, self._pending
        )
        # sizes that were not known before
        if not self._growth.admits(nodes[-1], more, postpones=False):
            return self._run_halves(nodes) if len(nodes) > 1 else self._never(nodes[0])
        if is_refused_with(graph, tensors):
            return self._run_halves(nodes) if len(nodes) > 1 else self._leave(nodes[0], _REFUSED)
        self._growth.added += more
        for node in nodes:
            self._store(node, tensors)
        return None


def _operands(graph: Graph, node: Node, pending: Collection[str]) -> list[Tensor | None] | None:
    """The stored operands of a node, ``None`` for those that are pending.

    ``None`` when another one is not stored.
    """
    found = [graph.tensor(name) if name and name not in pending else None for name in node.input]
    missing = (
        name
        for name, tensor in zip(node.input, found, strict=True)
        if tensor is None and name and name not in pending
    )
    return found if next(missing, None) is None else None


def _constant(name: str, tensor: Tensor, node: Node) -> Node:
    """A Constant in the place of a node, which keeps the remarks of the node, and its name unless
    it has several results.
    """
    own = node.name if len(node.output) == 1 else ""
    constant = Node(
        "Constant", (), [name], {"value": tensor.to_proto("")}, name=own, doc_string=node.remark
    )
    constant.metadata = node.metadata_props()
    return constant


def _longest(node: Node, operands: Sequence[Tensor | None], pending: Mapping[str, int]) -> int:
    """Characters that a text in the results of a node can have, 0 for numbers.

    ``pending``: in results not stored yet.
    """
    assert node.graph is not None
    if all(node.graph.info_of(name).dtype != TensorProto.STRING for name in node.output if name):
        return 0
    return longest_result(
        node, [each or pending.get(name) for each, name in zip(operands, node.input, strict=True)]
    )


def _evaluated(graph: Graph, nodes: Sequence[Node]) -> RegionResult | None:
    """The results of nodes that other nodes read.

    ``None`` when nothing does, or an operand is not stored.
    """
    inside = {name for node in nodes for name in node.output if name}
    feeds: dict[str, np.ndarray] = {}
    for node in nodes:
        for name in node.input:
            if name and name not in inside and name not in feeds:
                tensor = graph.tensor(name)
                if tensor is None:
                    return None
                feeds[name] = tensor.numpy()
    members = set(nodes)
    wanted = [
        name
        for node in nodes
        for name in node.output
        if name and is_read_beyond(graph, name, members)
    ]
    if not wanted:
        return None
    return evaluate_with_onnxruntime(
        [node.to_proto() for node in nodes], feeds, wanted, graph.opsets, graph.model.ir_version
    )
