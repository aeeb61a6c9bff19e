"""A graph: nodes in order, the producer and the consumers of each result, and the methods that change it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import onnx

from xoptim.facts.errors import ModelError, RewriteError
from xoptim.facts.info import UNKNOWN, Info
from xoptim.facts.schema import DOMAIN_VERSIONS, is_deterministic
from xoptim.graph.facts import FactTable
from xoptim.graph.names import Names
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.order import OrderedNodes
from xoptim.graph.tensors import Tensor, constant_value
from xoptim.graph.uses import Uses

if TYPE_CHECKING:
    from xoptim.graph.model import Model


class Listener(Protocol):
    """Called after each change of a graph."""

    def inserted(self, node: Node) -> None:
        """A node was added."""

    def removed(self, node: Node) -> None:
        """A node was taken out; its ``graph`` is already ``None``."""

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, have changed."""


class Graph:
    """The main graph, the body of a function, or a subgraph.

    A name that is not defined here is looked up in the enclosing graphs; a node of a subgraph that reads it is recorded
    there as a *capture*. The tables are kept up to date by the verbs (`insert`, `remove`, `rename`, `add_initializer`,
    `set_inputs`, `learn`); none is ever rebuilt.
    """

    def __init__(self, model: Model, name: str = "", parent: Graph | None = None, owner: Node | None = None) -> None:
        self.model = model
        self.name = name
        self.parent = parent
        self.owner = owner
        self.opsets: dict[str, int] = model.opsets if parent is None else parent.opsets
        self.inputs: list[str] = []
        self.outputs: list[str] = []
        self.initializers: dict[str, Tensor] = {}
        self.overridable: set[str] = set()
        """Initializers that are inputs too: a caller may pass another value, so they are not constants."""
        self.pinned: set[str] = set()
        """Names that are referred to outside the nodes (training info): never renamed or removed."""
        self.annotations: dict[str, onnx.TensorAnnotation] = {}
        """Quantization annotations of values, by name."""
        self.source: onnx.GraphProto | None = None
        """The protobuf this graph came from: fields not represented here (value infos, annotations) are copied from it."""
        self.declared_inputs: dict[str, Info] = {}
        """The facts about the inputs that the model declares."""
        self.nodes = OrderedNodes()
        self._facts = FactTable()
        self._input_names: set[str] = set()
        self._output_names: set[str] = set()
        self._producers: dict[str, Node] = {}
        self._uses = Uses()
        self._captures = Uses()
        self._by_type: dict[tuple[str, str], dict[Node, None]] = {}
        self._idle: list[Node] = []
        self._node_values: dict[Node, Tensor | None] = {}

    # ---------------------------------------------------------------- questions

    @property
    def names(self) -> Names:
        """All result names in use, and a source of new ones."""
        return self.model.names if self.parent is None else self.parent.names

    @property
    def node_names(self) -> Names:
        """All names of nodes in use, and a source of new ones."""
        return self.model.node_names if self.parent is None else self.parent.node_names

    def producer(self, name: str) -> Node | None:
        """The node of this graph that computes a result."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[Node]:
        """The nodes of this graph that read a result, each once."""
        return self._uses.readers(name)

    def captures(self, name: str) -> list[Node]:
        """The nodes of subgraphs that read a result of this graph, and those with a subgraph of which it is an output."""
        return self._captures.readers(name)

    def use_count(self, name: str) -> int:
        """Number of times nodes of this graph read a result (a node that reads it twice counts twice)."""
        return self._uses.count(name)

    def is_output(self, name: str) -> bool:
        """Whether a result is an output of this graph."""
        return name in self._output_names

    def is_input(self, name: str) -> bool:
        """Whether a result is an input of this graph."""
        return name in self._input_names

    def is_captured(self, name: str) -> bool:
        """Whether a subgraph reads this result, or it is referred to outside the nodes."""
        return name in self._captures or name in self.pinned

    def is_needed(self, name: str) -> bool:
        """Whether this result is read by a node or a subgraph, is an output, or is pinned."""
        return name in self._uses or name in self._output_names or name in self._captures or name in self.pinned

    def is_node_needed(self, node: Node) -> bool:
        """Whether any result of a node is needed."""
        return any(name and self.is_needed(name) for name in node.output)

    def defines(self, name: str) -> bool:
        """Whether a result is computed by a node, an input of, or stored in this graph itself."""
        return name in self._producers or name in self._input_names or name in self.initializers

    def scope(self, name: str) -> Graph | None:
        """The graph, this one or an enclosing one, that defines a name."""
        graph: Graph | None = self
        while graph is not None and not graph.defines(name):
            graph = graph.parent
        return graph

    def of_type(self, op_type: str, domain: str = "") -> list[Node]:
        """All nodes with this operator."""
        return list(self._by_type.get((domain, op_type), ()))

    @property
    def types(self) -> Mapping[tuple[str, str], Mapping[Node, None]]:
        """Nodes by ``(domain, op_type)``, kept up to date."""
        return self._by_type

    def tensor(self, name: str) -> Tensor | None:
        """The stored value of a constant: an initializer that no caller can override, or the value of a Constant node."""
        graph: Graph | None = self
        while graph is not None:
            tensor = graph.initializers.get(name)
            if tensor is not None:
                return None if name in graph.overridable else tensor
            node = graph._producers.get(name)
            if node is not None:
                return graph._node_value(node) if node.op_type == "Constant" and not node.domain else None
            if name in graph._input_names:
                return None
            graph = graph.parent
        return None

    def _node_value(self, node: Node) -> Tensor | None:
        values = self._node_values
        if node not in values:
            values[node] = constant_value(node)
        return values[node]

    def info_of(self, name: str) -> Info:
        """The facts about a result, `UNKNOWN` when there are none."""
        graph: Graph | None = self
        while graph is not None:
            info = graph._facts.get(name)
            if info is not None:
                return info
            graph = graph.parent
        return UNKNOWN

    def known(self, name: str) -> Info | None:
        """The facts about a value of this graph itself, ``None`` for a name that it does not define."""
        return self._facts.get(name)

    def all_known(self) -> Collection[tuple[str, Info]]:
        """All values of this graph, subgraphs not included, with the facts about them."""
        return self._facts.items()

    def is_computed(self, name: str) -> bool:
        """Whether a result is known to depend on constants only, so that it can be computed ahead of time."""
        graph: Graph | None = self
        while graph is not None:
            if graph._facts.is_computed(name):
                return True
            graph = None if graph.parent is None or graph.defines(name) else graph.parent
        return False

    def evaluated(self, name: str) -> np.ndarray | Literal["unasked"] | None:
        """The value of a result that depends on constants only, if it was computed before; see `FactTable.evaluated`."""
        return self._facts.evaluated(name)

    def has_constant_inputs(self, node: Node) -> bool:
        """Whether the results of a node depend on constants only, so that they can be computed ahead of time."""
        found = False
        is_computed = self._facts.is_computed
        for name in node.input:
            if name:
                if not is_computed(name) and self.tensor(name) is None:
                    return False
                found = True
        return found and can_fold(node)

    def all_graphs(self) -> Iterator[Graph]:
        """This graph and the subgraphs of its nodes, at any depth, outer ones first."""
        yield self
        for node in list(self.nodes):
            for body in node.bodies.values():
                yield from body.all_graphs()

    # ---------------------------------------------------------------- declarations, while loading or building

    def declare_input(self, name: str, info: Info = UNKNOWN) -> None:
        """Add an input."""
        self.inputs.append(name)
        self.declare_given(name, info)

    def declare_given(self, name: str, info: Info) -> None:
        """Add a result that is neither computed by a node nor stored as a `Tensor` (inputs, sparse initializers)."""
        self._input_names.add(name)
        self.declared_inputs[name] = info
        self.learn(name, info)
        self.names.used.add(name)

    def declare_output(self, name: str) -> None:
        """Add an output, the name of an existing result."""
        self.outputs.append(name)
        self._output_names.add(name)
        if self.owner is not None and self.scope(name) not in (self, None):
            self._add_use(self.owner, name)

    # ---------------------------------------------------------------- verbs

    def learn(self, name: str, info: Info) -> None:
        """Replace the facts about a value of this graph; they are dropped when the value is removed."""
        self._facts.set(name, info)

    @property
    def sees_overridable(self) -> bool:
        """Whether a caller may override an initializer of this graph or of one around it."""
        return bool(self.overridable) or (self.parent is not None and self.parent.sees_overridable)

    def depends_on_caller(self, name: str) -> bool:
        """Whether a value depends on an initializer that a caller may override."""
        graph: Graph | None = self
        while graph is not None:
            if graph._facts.is_overridable(name):
                return True
            graph = None if graph.defines(name) else graph.parent
        return False

    def learn_dependence(self, node: Node, reads: Iterable[str]) -> None:
        """Mark the results of a node as dependent on an overridable initializer if any of ``reads`` is."""
        if any(map(self.depends_on_caller, reads)):
            self._facts.mark_overridable(node.output)

    def remember(self, values: Mapping[str, np.ndarray | None]) -> None:
        """Keep computed values of constants, ``None`` for those that cannot be computed."""
        self._facts.remember(values)

    def forget_failures(self) -> None:
        """Let constants that could not be computed be tried again: their operands may be others now."""
        self._facts.forget_failures()

    def learn_constness(self, node: Node) -> bool:
        """If the results of a node depend on constants only, record that; return whether it is new."""
        return self.has_constant_inputs(node) and self._facts.mark_computed(node.output)

    def add_initializer(self, name: str, tensor: Tensor) -> None:
        """Store a constant under a name that is not defined yet."""
        self.initializers[name] = tensor
        self.names.used.add(name)
        if name in self.overridable:
            self.learn(name, Info(tensor.dtype, tensor.shape))
            self._facts.mark_overridable((name,))
        else:
            self.learn(name, tensor.info())

    def remove_initializer(self, name: str) -> None:
        """Remove a constant that is not read."""
        del self.initializers[name]
        if name not in self._input_names:
            self._facts.drop(name)

    def insert(self, node: Node, after: Node | None) -> None:
        """Add a node right after another one (at the beginning for ``None``).

        Raises:
            RewriteError: when one of its outputs is already defined in this graph.
        """
        for name in node.output:
            if name and self.defines(name):
                raise RewriteError(f"result {name!r} is already defined")
        if node.domain not in self.opsets and not node.domain.endswith(LOCAL):
            self.opsets[node.domain] = DOMAIN_VERSIONS.get(node.domain, 1)
        self.nodes.insert_after(after, node)
        self.link(node)
        self.connect(node)
        for listener in self.model.listeners:
            listener.inserted(node)

    def remove(self, node: Node) -> None:
        """Take out a node. Another node must produce its results before they are read again."""
        self.nodes.unlink(node)
        for name in node.output:
            if name and self._producers.get(name) is node:
                del self._producers[name]
                self._facts.drop(name)
        del self._by_type[node.domain, node.op_type][node]
        for name in node.input:
            if name:
                self._drop_use(node, name)
        for body in node.bodies.values():
            body.release()
        node.graph = None
        self._node_values.pop(node, None)
        for listener in self.model.listeners:
            listener.removed(node)

    def can_rename(self, old: str, new: str) -> bool:
        """Whether all readers may read ``new``: ``old`` is not pinned, and no subgraph that reads it hides ``new``."""
        if old in self.pinned:
            return False
        if old not in self._captures:
            return True
        readers = [graph for node in self.captures(old) for graph in (node.graph, *node.bodies.values()) if graph is not None]
        return not any(graph.scope(new) is not self.scope(new) for graph in readers)

    def rename(self, old: str, new: str) -> None:
        """Make every reader of ``old`` read ``new`` instead. Outputs of the graph keep their names.

        Raises:
            RewriteError: when ``old`` is referred to outside the nodes.
        """
        if old in self.pinned:
            raise RewriteError(f"result {old!r} cannot be renamed")
        if old in self.annotations:
            self.annotations.setdefault(new, self.annotations.pop(old))
        for node in self.consumers(old):
            self.set_inputs(node, [new if name == old else name for name in node.input])
        for node in self.captures(old) if old in self._captures else ():
            assert node.graph is not None
            for body in node.bodies.values():
                body._follow(old, new)
            node.graph.set_inputs(node, tuple(new if name == old else name for name in node.input))

    def _follow(self, old: str, new: str) -> None:
        """Update an output of this graph that is a renamed result of an enclosing graph."""
        if old in self._output_names and not self.defines(old):
            assert self.owner is not None
            for _ in range(self.outputs.count(old)):
                self._add_use(self.owner, new)
                self._drop_use(self.owner, old)
            self.outputs = [new if name == old else name for name in self.outputs]
            self._output_names = set(self.outputs)

    def rename_output(self, node: Node, old: str, new: str) -> None:
        """Rename a result of a node, and let its readers read the new name."""
        node.output = tuple(new if name == old else name for name in node.output)
        del self._producers[old]
        self._producers[new] = node
        self._facts.move(old, new)
        self.names.used.add(new)
        self.rename(old, new)
        self._notify(node)

    def set_inputs(self, node: Node, inputs: Sequence[str]) -> None:
        """Change what a node reads."""
        old, node.input = node.input, tuple(inputs)
        for name, former in zip_longest(node.input, old, fillvalue=""):
            if name == former:
                continue
            if name:
                self._add_use(node, name)
            if former:
                self._drop_use(node, former)
        self._notify(node)

    def suspect(self, nodes: Iterable[Node]) -> None:
        """Have the next `sweep` check whether the results of these nodes are read."""
        self._idle.extend(nodes)

    def sweep(self) -> int:
        """Remove nodes whose results are no longer read, and the nodes that only they needed.

        Returns:
            Number of nodes removed. Only new nodes and those that lost a reader since the last call are checked.
        """
        count = 0
        while self._idle:
            node = self._idle.pop()
            if node.graph is self and node.output and not self.is_node_needed(node):
                self.remove(node)
                count += 1
        return count

    def release(self) -> None:
        """Remove the captures of this subgraph, whose owner is being removed, from the tables of the enclosing graphs."""
        for node in self.nodes:
            for name in node.input:
                if name and not self.defines(name):
                    self._drop_use(node, name)
            for body in node.bodies.values():
                body.release()
        for name in self.outputs:
            if self.owner is not None and not self.defines(name):
                self._drop_use(self.owner, name)

    def retain(self) -> None:
        """Record the captures of this subgraph again, after its owner was put back."""
        for node in self.nodes:
            for name in node.input:
                if name and not self.defines(name):
                    self._add_use(node, name)
            for body in node.bodies.values():
                body.retain()
        for name in self.outputs:
            if self.owner is not None and not self.defines(name):
                self._add_use(self.owner, name)

    def clear(self) -> None:
        """Empty all tables of a graph that is no longer needed."""
        self._uses.clear()
        self._captures.clear()
        tables: tuple[dict[Any, Any], ...] = (self._producers, self._by_type, self._node_values)
        for table in (*tables, self.initializers):
            table.clear()
        self._facts.clear()
        self._idle.clear()
        self.nodes = OrderedNodes()

    # ---------------------------------------------------------------- bookkeeping

    def link(self, node: Node) -> None:
        """Record what a node produces."""
        node.graph = self
        names = self.names.used
        for name in node.output:
            if name:
                self._producers[name] = node
                names.add(name)
                if self._facts.get(name) is None:
                    self._facts.set(name, UNKNOWN)
        self._by_type.setdefault((node.domain, node.op_type), {})[node] = None

    def connect(self, node: Node) -> None:
        """Record what a node reads."""
        for name in node.input:
            if name:
                self._add_use(node, name)

    def _add_use(self, node: Node, name: str) -> None:
        if self.parent is None or self.defines(name):
            self._uses.add(name, node)
            return
        scope = self.parent._recorder(name)
        if scope is None:
            raise ModelError(f"node {node.name or node.op_type!r} reads {name!r}, which nothing defines")
        scope._captures.add(name, node)

    def _recorder(self, name: str) -> Graph | None:
        """The graph that records which nodes of subgraphs read a name."""
        return self.scope(name)

    def _drop_use(self, node: Node, name: str) -> None:
        graph: Graph | None = self
        table = self._uses
        if self.parent is not None and name not in table:  # a capture, recorded by an enclosing graph
            graph = self.parent
            while graph is not None and not graph._captures.reads(name, node):
                graph = graph.parent
            if graph is None:
                return
            table = graph._captures
        if not table.drop(name, node):
            return
        assert graph is not None
        producer = graph._producers.get(name)
        if producer is not None:
            if name not in table:
                graph._idle.append(producer)
            graph._notify(producer)

    def _notify(self, node: Node) -> None:
        for listener in self.model.listeners:
            listener.touched(node)


def can_fold(node: Node) -> bool:
    """Whether the results of a node depend on its inputs only and can be computed ahead of time."""
    return not node.bodies and is_deterministic(node.op_type, node.domain) and node.op_type != "Constant"
