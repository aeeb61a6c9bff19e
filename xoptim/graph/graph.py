"""A graph: nodes in order, the producer and the consumers of each result, and the methods that
change it.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import onnx

from xoptim.facts.errors import RewriteError
from xoptim.facts.schema import may_own_graphs, version_to_import
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.facts import Definitions, FactTable
from xoptim.graph.names import Names
from xoptim.graph.node import LOCAL, Node
from xoptim.graph.order import OrderedNodes
from xoptim.graph.references import References
from xoptim.graph.tensors import Tensor

if TYPE_CHECKING:
    from xoptim.graph.model import Model


class Graph:
    """The main graph, the body of a function, or a subgraph.

    A name that is not defined here is looked up in the enclosing graphs; the graph that defines it
    records the reader as a *capture*. Three tables, `Definitions`, `FactTable` and
    `References`, are kept up to date by the methods that change the graph (`insert`, `remove`,
    `rename`, `add_initializer`, `set_inputs`, `learn`); none is ever rebuilt. Other code reads and
    changes them through the graph only.
    """

    def __init__(
        self, model: Model, name: str = "", parent: Graph | None = None, owner: Node | None = None
    ) -> None:
        self.model = model
        self.name = name
        self.parent = parent
        self.owner = owner
        self.opsets: dict[str, int] = model.opsets if parent is None else parent.opsets
        self.inputs: list[str] = []
        # quantization annotations of values, by name
        self.annotations: dict[str, onnx.TensorAnnotation] = {}
        self.source: onnx.GraphProto | None = None
        """The protobuf this graph came from: fields that this class does not hold, such as value
        infos, are copied from it.
        """
        # whether a declared shape was found wrong, which makes all declared shapes doubtful
        self.refutes_declared = False
        self.nodes = OrderedNodes()
        self._by_type: dict[tuple[str, str], dict[Node, None]] = {}
        self.types: Mapping[tuple[str, str], Mapping[Node, None]] = self._by_type
        """Nodes by ``(domain, op_type)``, kept up to date."""
        self.definitions: Definitions = Definitions(None if parent is None else parent.definitions)
        self.facts: FactTable = FactTable(
            self.definitions, None if parent is None else parent.facts
        )
        outer = None if parent is None else parent.references
        self.references: References = References(
            self.definitions, self.nodes, owner, outer, model.listeners
        )
        # The search calls these two for every operand: they are the methods of the tables
        # themselves, without a call in between.
        self.producer: Callable[[str], Node | None] = self.definitions.producer
        """The node of this graph that computes a result."""
        self.consumers: Callable[[str], list[Node]] = self.references.consumers
        """The nodes of this graph that read a result, each once."""

    @property
    def names(self) -> Names:
        """All result names in use, and a source of new ones."""
        return self.model.names if self.parent is None else self.parent.names

    @property
    def node_names(self) -> Names:
        """All names of nodes in use, and a source of new ones."""
        return self.model.node_names if self.parent is None else self.parent.node_names

    @property
    def declared_inputs(self) -> dict[str, Info]:
        """Inputs and sparse initializers, with the facts that the model declares."""
        return self.definitions.inputs

    @property
    def initializers(self) -> dict[str, Tensor]:
        """The stored constants by name."""
        return self.definitions.initializers

    @property
    def overridable(self) -> set[str]:
        """Initializers that are inputs as well: a caller may pass another value."""
        return self.definitions.overridable

    @property
    def outputs(self) -> list[str]:
        """The outputs of the graph, in order."""
        return self.references.outputs

    @property
    def pinned(self) -> set[str]:
        """Names in training info and quantization annotations: never renamed or removed."""
        return self.references.pinned

    def is_input(self, name: str) -> bool:
        """Whether a result is an input of this graph."""
        return name in self.definitions.inputs

    def defines(self, name: str) -> bool:
        """Whether a result is an input of this graph, computed by its nodes, or stored in it."""
        return self.definitions.defines(name)

    def tensor(self, name: str) -> Tensor | None:
        """The stored value of a constant: an initializer that no caller can override, or the value
        of a Constant node.
        """
        return self.definitions.tensor(name)

    def captures(self, name: str) -> list[Node]:
        """The nodes of subgraphs that read a result of this graph, and owners whose subgraph
        outputs it.
        """
        return self.references.captures(name)

    def use_count(self, name: str) -> int:
        """The number of times that nodes of this graph read a result.

        A node that reads it several times counts several times.
        """
        return self.references.use_count(name)

    def is_output(self, name: str) -> bool:
        """Whether a result is an output of this graph."""
        return self.references.is_output(name)

    def is_captured(self, name: str) -> bool:
        """Whether a subgraph reads this result, or it is pinned."""
        return self.references.is_captured(name)

    def is_needed(self, name: str) -> bool:
        """Whether this result is read by a node or a subgraph, is an output, or is pinned."""
        return self.references.is_needed(name)

    def is_node_needed(self, node: Node) -> bool:
        """Whether any result of a node is needed."""
        return self.references.is_node_needed(node)

    def captured(self) -> Iterator[str]:
        """The values of this graph that subgraphs read."""
        return self.references.captured()

    def undefined(self) -> Iterator[str]:
        """Names that nodes of this graph read although nothing defines them."""
        return self.references.undefined()

    def sees_overridable(self) -> bool:
        """Whether a caller may override an initializer of this graph or of one around it."""
        return self.definitions.sees_overridable()

    def known(self, name: str) -> Info | None:
        """The facts about a value of this graph itself, ``None`` for a name that it does not
        define.
        """
        return self.facts.known(name)

    def all_known(self) -> ItemsView[str, Info]:
        """All values of this graph, subgraphs not included, with the facts about them."""
        return self.facts.items()

    def learn(self, name: str, info: Info) -> None:
        """Replace the facts about a value of this graph.

        They are dropped when the value is removed.
        """
        self.facts.learn(name, info)

    def drop_facts(self, names: Iterable[str]) -> None:
        """Remove all facts about values that were removed."""
        self.facts.drop(names)

    def is_computed(self, name: str) -> bool:
        """Whether a result is computed by a node and known to depend on constants only."""
        return self.facts.is_computed(name)

    def learn_constness(self, node: Node) -> bool:
        """Record that the results of a node depend on constants only, if they do.

        Returns whether a result was recorded for the first time.
        """
        return self.facts.learn_constness(node)

    def evaluated(self, name: str) -> np.ndarray | Literal["unasked"] | None:
        """The value that was computed for a constant, ``None`` where that failed, ``"unasked"``
        before it was tried.
        """
        return self.facts.evaluated(name)

    def remember(self, values: Mapping[str, np.ndarray | None]) -> None:
        """Keep the values of constants, ``None`` for constants that cannot be computed."""
        self.facts.remember(values)

    def retry_failures(self) -> None:
        """Forget which constants could not be computed: operands may have changed."""
        self.facts.retry_failures()

    def depends_on_caller(self, name: str) -> bool:
        """Whether a value depends on an initializer that a caller may override."""
        return self.facts.depends_on_caller(name)

    def learn_dependence(self, node: Node, reads: Iterable[str]) -> None:
        """Mark the results of a node as dependent on an overridable initializer if one of ``reads``
        depends on such an initializer.
        """
        self.facts.learn_dependence(node, reads)

    def scope(self, name: str) -> Graph | None:
        """The graph, this one or an enclosing one, that defines a name."""
        graph: Graph | None = self
        while graph is not None and not graph.defines(name):
            graph = graph.parent
        return graph

    def of_type(self, op_type: str, domain: str = "") -> list[Node]:
        """All nodes with this operator."""
        return list(self._by_type.get((domain, op_type), ()))

    def info_of(self, name: str) -> Info:
        """The facts about a result, `UNKNOWN` when there are none."""
        graph: Graph | None = self
        while graph is not None:
            info = graph.facts.known(name)
            if info is not None:
                return info
            graph = graph.parent
        return UNKNOWN

    def all_graphs(self) -> Iterator[Graph]:
        """This graph and the subgraphs of its nodes, at any depth, outer ones first."""
        yield self
        for owner in self.owners():
            for body in owner.bodies.values():
                yield from body.all_graphs()

    def owners(self) -> list[Node]:
        """The nodes with subgraphs, in order."""
        owners = [
            node
            for key, nodes in self.types.items()
            if may_own_graphs(*key)
            for node in nodes
            if node.bodies
        ]
        return sorted(owners, key=lambda node: node.label)

    def declare_input(self, name: str, info: Info = UNKNOWN, *, listed: bool = True) -> None:
        """Add a value that no node computes and no `Tensor` stores: an input, or, with
        ``listed=False``, a sparse initializer.
        """
        if listed:
            self.inputs.append(name)
        self.declared_inputs[name] = info
        self.facts.learn(name, info)
        self.names.used.add(name)

    def declare_output(self, name: str) -> None:
        """Add an output of the graph, the name of an existing result."""
        self.references.add_output(name)

    def set_inputs(self, node: Node, inputs: Sequence[str]) -> None:
        """Change what a node reads."""
        self.references.set_inputs(node, inputs)

    def connect(self, node: Node) -> None:
        """Record what a node reads, its subgraphs not included."""
        self.references.connect(node)

    def suspect(self, nodes: Iterable[Node]) -> None:
        """Let the next `sweep` remove these nodes unless something reads their results."""
        self.references.unread.extend(nodes)

    def add_initializer(self, name: str, tensor: Tensor) -> None:
        """Store a constant under a name that is not defined yet."""
        self.initializers[name] = tensor
        self.names.used.add(name)
        if name in self.overridable:
            # a caller may feed another size than the default's where the declaration allows it
            self.facts.learn(name, Info(tensor.dtype, self.declared_inputs[name].shape))
            self.facts.mark_dependent((name,))
        else:
            self.facts.learn(name, tensor.info())

    def remove_initializer(self, name: str) -> None:
        """Remove a constant that is not read."""
        del self.initializers[name]
        if not self.is_input(name):
            self.facts.drop((name,))

    def insert(self, node: Node, after: Node | None) -> None:
        """Add a node right after another one (at the beginning for ``None``).

        Raises `RewriteError` for a result defined already.
        """
        for name in node.output:
            if name and self.defines(name):
                raise RewriteError(f"result {name!r} is already defined")
        if node.domain not in self.opsets and not node.domain.endswith(LOCAL):
            self.opsets[node.domain] = version_to_import(node.domain, self.model.ir_version)
        self.nodes.insert_after(after, node)
        self.link((node,))
        self.references.connect(node)
        for listener in self.model.listeners:
            listener.inserted(node)

    def remove(self, node: Node) -> None:
        """Take out a node. Another node must produce its results before they are read again."""
        self.nodes.unlink(node)
        self.facts.drop(self.definitions.remove_results(node))
        del self._by_type[node.domain, node.op_type][node]
        self.references.disconnect(node)
        node.graph = None
        for listener in self.model.listeners:
            listener.removed(node)

    def rename(self, old: str, new: str) -> None:
        """Make every reader of ``old`` read ``new`` instead.

        The producer of ``old`` and the outputs of the graph keep their names.

        Raises `RewriteError` when something besides nodes refers to ``old``.
        """
        if old in self.pinned:
            raise RewriteError(f"result {old!r} cannot be renamed")
        if old in self.annotations:
            self.annotations.setdefault(new, self.annotations.pop(old))
        self.references.rename(old, new)

    def rename_output(self, node: Node, old: str, new: str) -> None:
        """Rename a result of a node, also in its readers."""
        node.output = tuple(new if name == old else name for name in node.output)
        self.definitions.rename_result(old, new)
        self.facts.move(old, new)
        self.names.used.add(new)
        self.rename(old, new)
        self.references.notify(node)

    def sweep(self) -> int:
        """Remove nodes whose results nothing reads, and nodes whose results only such nodes read.

        Returns the number of nodes removed. Only new nodes, and nodes that lost a reader since the
        last call, are checked.
        """
        count, unread = 0, self.references.unread
        while unread:
            node = unread.pop()
            if node.graph is self and node.output and not self.is_node_needed(node):
                self.remove(node)
                count += 1
        return count

    def enter(self, parent: Graph) -> None:
        """Become a subgraph of ``parent``, which then records what this graph reads from it.

        The owner is, or will be, in ``parent``.
        """
        self.parent = parent
        self.definitions.outer, self.facts.outer, self.references.outer = (
            parent.definitions,
            parent.facts,
            parent.references,
        )
        self.references.retain()

    def link(self, nodes: Iterable[Node]) -> None:
        """Record what nodes produce."""
        names = self.definitions.add_results(nodes)
        self.names.used.update(names)
        self.facts.add(names)
        by_type = self._by_type
        for node in nodes:
            node.graph = self
            by_type.setdefault((node.domain, node.op_type), {})[node] = None

    def clear(self) -> None:
        """Empty all tables of a graph that is no longer needed."""
        self.definitions.clear()
        self.facts.clear()
        self.references.clear()
        self._by_type.clear()
        self.nodes.clear()
