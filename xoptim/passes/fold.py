"""Constant folding: compute results that depend on constants only, region by region."""

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
_CRASHING_OPERATORS = operators_with(Trait.RECURRENT) | {
    "SequenceAt",
    "SequenceInsert",
    "SequenceErase",
    "SplitToSequence",
    "STFT",
}
"""Operators whose kernels crash the process on some invalid operands instead of raising."""
_EVALUATED_DOMAINS = ("", "com.microsoft", "ai.onnx.ml")
EXTERNAL_LIMIT = 1 << 26
"""External tensors of more bytes are not read for folding."""
EXTERNAL_BUDGET = 1 << 29
"""Maximal number of bytes of external data that folding reads."""
_TOO_LARGE = "the result would make the model larger than max_growth allows"
_FAILURE = "a node of the subgraph would fail for certain, so that no runtime would load it"


class FoldConstants(GraphPass):
    """Computes results that depend on constants only.

    ``send`` gets an event for each folded node, and for each refusal.
    """

    title = "constant_folding"
    exactness = "rounding"

    def __init__(self, growth: Growth, send: Send) -> None:
        self.growth = growth
        # Whether floating-point results were stored: a MatMul of a stored matrix sums in another
        # order than a MatMul of a computed matrix
        self.has_stored_floats = False
        self._send = send

    def run_on(self, graph: Graph) -> int:
        """Fold the constants of a graph, small results first; returns the number of nodes."""
        folder = Folder(graph, self.growth, self._send)
        self.growth.postpones_large, self.growth.has_postponed = True, False
        count = folder.run()
        self.growth.postpones_large = False
        if self.growth.has_postponed:
            count = self._run_again(folder, count)
        self.has_stored_floats |= folder.has_stored_floats
        return count

    def _run_again(self, folder: "Folder", before: int) -> int:
        """Fold postponed results until nothing changes: constants that become unused free bytes
        for other results.
        """
        count = folder.run()
        while count > before and self.growth.unfolded() is not None:
            before, count = count, folder.run()
        return count


class WriteExpanded(Step):
    """Writes repeating constants as nodes if they make the model too large; runs after folding."""

    title = "write_expanded"

    def __init__(self, growth: Growth, send: Send) -> None:
        self.growth = growth
        self._send = send

    def run(self, model: Model) -> int:
        """Write the constants; returns how many."""
        growth, before = self.growth, stored_bytes(model)
        sizes = write_expanded(model, growth.limit)
        growth.added += stored_bytes(model) - before
        for node, size in sizes.items():
            delta = size - (0 if node.graph is None else freed(node.graph, [node], {}))
            growth.refuse(node, delta)
            self._send("refused", "fold", node=node, text=_TOO_LARGE, level=10)
        return len(sizes)


class Folder:
    """Folds the constants of one graph; ``send`` as in `FoldConstants`."""

    def __init__(self, graph: Graph, growth: Growth, send: Send) -> None:
        self.graph = graph
        self._send = send
        self.count = 0
        self.has_stored_floats = False  # see `FoldConstants`
        self._readers: dict[Node, None] = {}
        self._region: dict[Node, None] = {}
        # bytes of the results of the region that is not computed yet
        self._pending: dict[str, int] = {}
        self._longest: dict[str, int] = {}  # characters of the texts in these results, at most
        self._tentative = 0  # bytes that the region that is not computed yet adds
        self._external = 0  # bytes of external data that were read
        self._growth = growth

    def run(self) -> int:
        """Fold all constant nodes; returns the number folded, earlier runs included."""
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
        spread_constness(graph, readers)  # some constants, such as outputs, are not folded
        nodes = [
            n
            for n in readers
            if n.graph is graph and any(is_unsure(graph.known(name)) for name in n.output)
        ]
        facts = [(name, graph.known(name)) for node in nodes for name in node.output]
        refresh(graph, sorted(nodes, key=lambda node: node.label))
        return any(graph.known(name) is not info for name, info in facts)

    def _store_constant(self, node: Node) -> None:
        name = node.output[0]
        tensor = self.graph.tensor(name)
        # Not all runtimes support an initializer that is an output.
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
        """Compute the pending operands of a node whose result has an unknown size, on which
        folding depends.
        """
        is_pending = any(name in self._pending for name in node.input)
        infos = (self.graph.known(name) for name in node.output if name and is_pending)
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
        is_pending = any(name in self._pending for name in node.input)
        views = None if is_pending else views_of(graph, node, operands)
        if views is not None:
            return self._replace(node, views)
        external_sizes = [
            tensor.nbytes for tensor in operands if tensor is not None and tensor.is_external
        ]
        if (
            max(external_sizes, default=0) > EXTERNAL_LIMIT
            or self._external + sum(external_sizes) > EXTERNAL_BUDGET
        ):
            return self._refuse(node, "an operand is large external data")
        self._external += sum(external_sizes)
        inputs = (
            []
            if is_pending
            else [None if tensor is None else tensor.numpy() for tensor in operands]
        )
        repeating = None if is_pending else self._repeating(node, inputs)
        if repeating is not None:
            return self._replace(node, [repeating])
        longest = _longest(node, operands, self._longest)
        sizes = known_sizes(graph, node, longest)
        delta = self._tentative + sum(sizes.values()) - freed(graph, [node], self._pending)
        if not self._growth.admits(node, delta, copied(graph, node, sum(sizes.values()))):
            return self._leave(node)
        results = None if is_pending else self._compute(node, inputs)
        if results is not None:
            return self._replace(node, list(map(Tensor.from_array, results)))
        if node.domain in _EVALUATED_DOMAINS and node.op_type not in _CRASHING_OPERATORS:
            self._region[node] = None
            self._pending.update(sizes)
            self._longest.update(dict.fromkeys(sizes, longest))
            self._tentative = delta
        return None

    def _replace(self, node: Node, results: Sequence[Tensor]) -> None:
        """Replace a node by its results, unless they are too large."""
        size = sum(tensor.stored_bytes for tensor in results)
        delta = size - freed(self.graph, [node], self._pending)
        if not self._growth.admits(node, self._tentative + delta, copied(self.graph, node, size)):
            return self._leave(node)
        values = {name: tensor for name, tensor in zip(node.output, results, strict=False) if name}
        if is_refused_with(self.graph, values):
            return self._leave(node, _FAILURE)
        self._growth.added += delta
        return self._store(node, values)

    def _repeating(self, node: Node, inputs: list[np.ndarray | None]) -> ExpandedTensor | None:
        """The result of a node if it repeats along axes, so that a part of it can be stored."""
        results = self._compute(node, inputs) if may_repeat(self.graph, node) else None
        return (
            None if results is None else expanded(self.graph, Tensor.from_array(results[0]), node)
        )

    def _compute(self, node: Node, inputs: list[np.ndarray | None]) -> list[np.ndarray] | None:
        """The results of a node by numpy, ``None`` without a kernel, or when the kernel raises."""
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
        """Replace a node by the values of its needed results."""
        graph, previous = self.graph, node.previous
        graph.remove(node)
        for name in (name for name in node.output if name in values and graph.is_needed(name)):
            self._add(name, values[name], node, previous)
        self.count += 1
        self._send("folded", "fold", node=node, removed=(node,), level=10)

    def _add(self, name: str, tensor: Tensor, node: Node, previous: Node | None) -> None:
        """Store the value of a result of a node; an output becomes a Constant."""
        if self.graph.is_output(name):
            self.graph.insert(_constant(name, tensor, node), previous)
            self.graph.learn(name, tensor.info())
        else:
            self.graph.add_initializer(name, tensor)
        self._readers.update(dict.fromkeys(self.graph.consumers(name)))
        self.has_stored_floats |= is_float(tensor.dtype) and tensor.size > 1

    def _run_region(self, nodes: Sequence[Node]) -> None:
        """Evaluate nodes in one session; if that fails, each half, to isolate the failing node."""
        result = _evaluate(self.graph, nodes)
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

    def _leave_forever(self, node: Node) -> None:
        """Refuse a node for good: its computed result is too large."""
        self._growth.oversized.add(node)
        self._leave(node)

    def _leave(self, node: Node, reason: str = _TOO_LARGE) -> None:
        """Refuse a node. Patterns see no constant in its result either: they might store it."""
        self.graph.remember(dict.fromkeys(filter(None, node.output)))
        if reason != _TOO_LARGE or not self._growth.postpones_large:
            self._refuse(node, reason)

    def _store_region(self, nodes: Sequence[Node], values: dict[str, np.ndarray]) -> None:
        graph = self.graph
        tensors = {name: Tensor.from_array(value) for name, value in values.items()}
        delta = sum(tensor.stored_bytes for tensor in tensors.values()) - freed(
            graph, nodes, self._pending
        )
        # Checked again: some sizes were unknown before.
        if not self._growth.admits(nodes[-1], delta, postpones=False):
            return self._run_halves(nodes) if len(nodes) > 1 else self._leave_forever(nodes[0])
        if is_refused_with(graph, tensors):
            return self._run_halves(nodes) if len(nodes) > 1 else self._leave(nodes[0], _FAILURE)
        self._growth.added += delta
        for node in nodes:
            self._store(node, tensors)
        return None


def _operands(graph: Graph, node: Node, pending: Collection[str]) -> list[Tensor | None] | None:
    """The operands of a node, ``None`` for an omitted or pending one; ``None`` instead of the list
    when any other is not stored.
    """
    tensors = [graph.tensor(name) if name and name not in pending else None for name in node.input]
    missing = (
        name
        for name, tensor in zip(node.input, tensors, strict=True)
        if tensor is None and name and name not in pending
    )
    return tensors if next(missing, None) is None else None


def _constant(name: str, tensor: Tensor, node: Node) -> Node:
    """A Constant that replaces a node and keeps its remarks, and its name if it has one result."""
    label = node.name if len(node.output) == 1 else ""
    constant = Node(
        "Constant", (), [name], {"value": tensor.to_proto("")}, name=label, doc_string=node.remark
    )
    constant.metadata = node.metadata_props()
    return constant


def _longest(node: Node, operands: Sequence[Tensor | None], pending: Mapping[str, int]) -> int:
    """Maximal number of characters of a text in the results of a node, 0 for numbers.

    ``pending`` has these numbers for results that are not stored yet.
    """
    assert node.graph is not None
    if all(node.graph.info_of(name).dtype != TensorProto.STRING for name in node.output if name):
        return 0
    return longest_result(
        node,
        [tensor or pending.get(name) for tensor, name in zip(operands, node.input, strict=True)],
    )


def _evaluate(graph: Graph, nodes: Sequence[Node]) -> RegionResult | None:
    """Compute the results that are read outside some nodes.

    ``None`` when there are none, or an operand is not stored.
    """
    inner_names = {name for node in nodes for name in node.output if name}
    feeds: dict[str, np.ndarray] = {}
    for node in nodes:
        for name in node.input:
            if name and name not in inner_names and name not in feeds:
                tensor = graph.tensor(name)
                if tensor is None:
                    return None
                feeds[name] = tensor.numpy()
    members = set(nodes)
    outputs = [
        name
        for node in nodes
        for name in node.output
        if name and is_read_beyond(graph, name, members)
    ]
    if not outputs:
        return None
    return evaluate_with_onnxruntime(
        [node.to_proto() for node in nodes], feeds, outputs, graph.opsets, graph.model.ir_version
    )
