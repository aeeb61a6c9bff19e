"""A graph: nodes in order, the producer and the consumers of each result, and the methods that
change it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

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

    A name that is not defined here is looked up in the enclosing graphs; a node of a subgraph that
    reads it is recorded there as a *capture*. Three tables, `Definitions`, `FactTable` and
    `References`, are kept up to date by the verbs (`insert`, `remove`, `rename`, `add_initializer`,
    `set_inputs`, `learn`); none is ever rebuilt. Other code reads and changes them through the
    graph only.
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
        """The protobuf this graph came from: fields not represented here (value infos, annotations)
        are copied from it.
        """
        # whether a declared shape was found wrong, which makes all others doubtful
        self.refutes_declared = False
        self.nodes = OrderedNodes()
        self._by_type: dict[tuple[str, str], dict[Node, None]] = {}
        self.types: Mapping[tuple[str, str], Mapping[Node, None]] = self._by_type
        """Nodes by ``(domain, op_type)``, kept up to date."""
        definitions = Definitions(None if parent is None else parent.definitions)
        facts = FactTable(definitions, None if parent is None else parent.facts)
        outer = None if parent is None else parent.references
        references = References(definitions, self.nodes, owner, outer, model.listeners)
        self.definitions: Definitions = definitions
        self.facts: FactTable = facts
        self.references: References = references
        self._take_definitions(definitions)
        self._take_facts(facts)
        self._take_references(references)

    # A question that one table answers, and a verb that concerns one table only, is the method of
    # that table itself: the search calls these at every step, and a method of the graph around each
    # would double the calls.

    def _take_definitions(self, definitions: Definitions) -> None:
        self.declared_inputs = definitions.inputs
        self.initializers = definitions.initializers
        self.overridable = definitions.overridable
        self.sees_overridable = definitions.sees_overridable
        self.producer = definitions.producer
        self.is_input = definitions.is_input
        self.defines = definitions.defines
        self.tensor = definitions.tensor

    def _take_facts(self, facts: FactTable) -> None:
        self.known = facts.known
        self.all_known = facts.items
        self.learn = facts.learn
        self.drop_facts = facts.drop
        self.is_computed = facts.is_computed
        self.learn_constness = facts.learn_constness
        self.evaluated = facts.evaluated
        self.remember = facts.remember
        self.retry_failures = facts.retry_failures
        self.depends_on_caller = facts.depends_on_caller
        self.learn_dependence = facts.learn_dependence

    def _take_references(self, references: References) -> None:
        self.outputs = references.outputs
        self.pinned = references.pinned
        self.consumers = references.consumers
        self.captures = references.captures
        self.use_count = references.use_count
        self.captured = references.captured
        self.undefined = references.undefined
        self.is_output = references.is_output
        self.is_captured = references.is_captured
        self.is_needed = references.is_needed
        self.is_node_needed = references.is_node_needed
        self.declare_output = references.add_output
        self.connect = references.connect
        self.set_inputs = references.set_inputs
        # has the next `sweep` check whether the results of these nodes are read
        self.suspect = references.unread.extend

    @property
    def names(self) -> Names:
        """All result names in use, and a source of new ones."""
        return self.model.names if self.parent is None else self.parent.names

    @property
    def node_names(self) -> Names:
        """All names of nodes in use, and a source of new ones."""
        return self.model.node_names if self.parent is None else self.parent.node_names

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
            info = graph.known(name)
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
        found = [
            node
            for key, nodes in self.types.items()
            if may_own_graphs(*key)
            for node in nodes
            if node.bodies
        ]
        return sorted(found, key=lambda node: node.label)

    def declare_input(self, name: str, info: Info = UNKNOWN, *, listed: bool = True) -> None:
        """Add a value that no node computes and no `Tensor` stores: an input, or unlisted a sparse
        initializer.
        """
        if listed:
            self.inputs.append(name)
        self.declared_inputs[name] = info
        self.learn(name, info)
        self.names.used.add(name)

    def add_initializer(self, name: str, tensor: Tensor) -> None:
        """Store a constant under a name that is not defined yet."""
        self.initializers[name] = tensor
        self.names.used.add(name)
        if name in self.overridable:
            self.learn(name, Info(tensor.dtype, tensor.shape))
            self.facts.mark_overridable((name,))
        else:
            self.learn(name, tensor.info())

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
        self.connect(node)
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
        """Make every reader of ``old`` read ``new`` instead. Outputs of the graph keep their names.

        Raises `RewriteError` when something besides nodes refers to ``old``.
        """
        if old in self.pinned:
            raise RewriteError(f"result {old!r} cannot be renamed")
        if old in self.annotations:
            self.annotations.setdefault(new, self.annotations.pop(old))
        self.references.rename(old, new)

    def rename_output(self, node: Node, old: str, new: str) -> None:
        """Rename a result of a node, and let its readers read the new name."""
        node.output = tuple(new if name == old else name for name in node.output)
        self.definitions.rename_result(old, new)
        self.facts.move(old, new)
        self.names.used.add(new)
        self.rename(old, new)
        self.references.notify(node)

    def sweep(self) -> int:
        """Remove nodes whose results are no longer read, and the nodes that only they needed.

        Returns the number of nodes removed. Only new nodes and those that lost a reader since the
        last call are checked.
        """
        count, unread = 0, self.references.unread
        while unread:
            node = unread.pop()
            if node.graph is self and node.output and not self.is_node_needed(node):
                self.remove(node)
                count += 1
        return count

    def enter(self, parent: Graph) -> None:
        """Become a subgraph of another graph, which records what is read from it.

        The owner is, or will be, in that graph.
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
