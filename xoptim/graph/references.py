"""Everything that refers to the values of one graph, and the interface of its listeners."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Protocol

from xoptim.facts.errors import ModelError
from xoptim.graph.facts import Definitions
from xoptim.graph.node import Node
from xoptim.graph.order import OrderedNodes


class Listener(Protocol):
    """Called after each change of a graph."""

    def inserted(self, node: Node) -> None:
        """A node was added."""

    def removed(self, node: Node) -> None:
        """A node was taken out; its ``graph`` is already ``None``."""

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, have changed."""


class Uses:
    """The readers of results, in the order in which they were added.

    Nearly all results have one reader that reads them once. Such a reader is stored without a table
    of its own, which saves a third of the memory of a large graph.
    """

    __slots__ = ("_table",)

    def __init__(self) -> None:
        self._table: dict[str, Node | dict[Node, int]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._table

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def readers(self, name: str) -> list[Node]:
        """The nodes that read a result, each once."""
        entry = self._table.get(name)
        return [] if entry is None else [entry] if isinstance(entry, Node) else list(entry)

    def count(self, name: str) -> int:
        """The number of times that a result is read; a node that reads it twice counts twice."""
        entry = self._table.get(name)
        return 0 if entry is None else 1 if isinstance(entry, Node) else sum(entry.values())

    def reads(self, name: str, node: Node) -> bool:
        """Whether a node reads a result."""
        entry = self._table.get(name)
        return entry is node or (isinstance(entry, dict) and node in entry)

    def add(self, name: str, node: Node) -> None:
        """Record that a node reads a result, once more if it already does."""
        entry = self._table.get(name)
        if entry is None:
            self._table[name] = node
        elif isinstance(entry, Node):
            self._table[name] = {node: 2} if entry is node else {entry: 1, node: 1}
        else:
            entry[node] = entry.get(node, 0) + 1

    def drop(self, name: str, node: Node) -> bool:
        """Record that a node reads a result once less; returns whether it no longer reads it."""
        entry = self._table.get(name)
        if entry is node:
            del self._table[name]
            return True
        if not isinstance(entry, dict) or node not in entry:
            return False
        if entry[node] > 1:
            entry[node] -= 1
            return False
        del entry[node]
        if not entry:
            del self._table[name]
        return True

    def clear(self) -> None:
        """Remove all uses."""
        self._table.clear()


class References:
    """The readers of the values of one graph: its nodes, nodes of its subgraphs, its outputs,
    training info and quantization annotations.

    A node of a subgraph that reads a value of an enclosing graph is recorded there, as a *capture*.
    Only `Graph` has one of these, and only its methods write to it. The listeners are called when
    the operands of a node, or the readers of its results, have changed.
    """

    __slots__ = (
        "_captures",
        "_definitions",
        "_listeners",
        "_nodes",
        "_output_names",
        "_owner",
        "_uses",
        "captures",
        "consumers",
        "is_output",
        "outer",
        "outputs",
        "pinned",
        "unread",
        "use_count",
    )

    def __init__(
        self,
        definitions: Definitions,
        nodes: OrderedNodes,
        owner: Node | None,
        outer: References | None,
        listeners: Sequence[Listener],
    ) -> None:
        self.outer = outer
        self._definitions = definitions
        self._nodes = nodes
        self._owner = owner
        self._listeners = listeners
        self._uses = Uses()
        self._captures = Uses()
        self.outputs: list[str] = []  # the outputs of the graph, in order
        self._output_names: set[str] = set()
        self.pinned: set[str] = set()  # see `Graph.pinned`
        # producers whose results may have lost their last reader, or never had one
        self.unread: list[Node] = []
        # Methods of the tables, which every step of the search calls: see `Definitions`.
        self.consumers = self._uses.readers  # see `Graph.consumers`, and so for the others
        self.captures = self._captures.readers
        self.use_count = self._uses.count
        self.is_output = self._output_names.__contains__

    def is_captured(self, name: str) -> bool:
        """See `Graph.is_captured`."""
        return name in self._captures or name in self.pinned

    def is_needed(self, name: str) -> bool:
        """See `Graph.is_needed`."""
        return (
            name in self._uses
            or name in self._output_names
            or name in self._captures
            or name in self.pinned
        )

    def is_node_needed(self, node: Node) -> bool:
        """See `Graph.is_node_needed`."""
        return any(name and self.is_needed(name) for name in node.output)

    def captured(self) -> Iterator[str]:
        """See `Graph.captured`."""
        return iter(self._captures)

    def undefined(self) -> Iterator[str]:
        """See `Graph.undefined`."""
        producer, defines = self._definitions.producer, self._definitions.defines
        return (name for name in self._uses if producer(name) is None and not defines(name))

    def add_output(self, name: str) -> None:
        """See `Graph.declare_output`."""
        self.outputs.append(name)
        self._output_names.add(name)
        if (
            self._owner is not None
            and not self._definitions.defines(name)
            and self._definitions.resolves(name)
        ):
            self.add(name, self._owner)

    def add(self, name: str, node: Node) -> None:
        """Record that a node of this graph reads a name, once more if it already does.

        Raises `ModelError` when the graph is a subgraph, and neither it nor one around it defines
        the name.
        """
        if self.outer is None or self._definitions.defines(name):
            self._uses.add(name, node)
        else:
            self.outer.add_capture(name, node)

    def add_capture(self, name: str, node: Node) -> None:
        """Record in this graph, or in the one around it that defines the name, that a node of a
        subgraph reads it.
        """
        if self.outer is not None and not self._definitions.defines(name):
            self.outer.add_capture(name, node)
        elif self._definitions.resolves(name):
            self._captures.add(name, node)
        else:
            raise ModelError(
                f"node {node.name or node.op_type!r} reads {name!r}, which nothing defines"
            )

    def drop(self, name: str, node: Node) -> None:
        """Record that a node of this graph reads a name once less."""
        if self.outer is None or name in self._uses:
            self._drop(self._uses, name, node)
        else:
            self.outer.drop_capture(name, node)

    def drop_capture(self, name: str, node: Node) -> None:
        """Record that a node of a subgraph reads a name once less."""
        if self._captures.reads(name, node):
            self._drop(self._captures, name, node)
        elif self.outer is not None:
            self.outer.drop_capture(name, node)

    def _drop(self, table: Uses, name: str, node: Node) -> None:
        if table.drop(name, node):
            producer = self._definitions.producer(name)
            if producer is not None:
                if name not in table:
                    self.unread.append(producer)
                self.notify(producer)

    def connect(self, node: Node) -> None:
        """See `Graph.connect`."""
        for name in node.input:
            if name:
                self.add(name, node)

    def disconnect(self, node: Node) -> None:
        """Remove what a node reads, its subgraphs included."""
        for name in node.input:
            if name:
                self.drop(name, node)
        for body in node.bodies.values():
            body.references.release()

    def set_inputs(self, node: Node, inputs: Sequence[str]) -> None:
        """Change what a node reads."""
        old, node.input = node.input, tuple(inputs)
        for name, former in zip_longest(node.input, old, fillvalue=""):
            if name == former:
                continue
            if name:
                self.add(name, node)
            if former:
                self.drop(former, node)
        self.notify(node)

    def rename(self, old: str, new: str) -> None:
        """Make every node that reads ``old`` read ``new`` instead.

        Outputs keep their names, except in subgraphs.
        """
        for node in self.consumers(old):
            _replace(self, node, old, new)
        for node in self.captures(old) if old in self._captures else ():
            assert node.graph is not None
            for body in node.bodies.values():
                body.references.follow(old, new)
            _replace(node.graph.references, node, old, new)

    def follow(self, old: str, new: str) -> None:
        """Update an output of this graph that is a renamed result of an enclosing graph."""
        if old in self._output_names and not self._definitions.defines(old):
            assert self._owner is not None
            for _ in range(self.outputs.count(old)):
                self.add(new, self._owner)
                self.drop(old, self._owner)
            self.outputs[:] = [new if name == old else name for name in self.outputs]
            self._output_names.discard(old)
            self._output_names.add(new)

    def release(self) -> None:
        """Remove the captures of this subgraph, whose owner is being removed, from the tables of
        the enclosing graphs.
        """
        for references, name, node in self.outward():
            references.drop(name, node)

    def retain(self) -> None:
        """Record the captures of this subgraph again, after its owner was put back."""
        for references, name, node in self.outward():
            references.add(name, node)

    def outward(self) -> Iterator[tuple[References, str, Node]]:
        """Each read of a value of an enclosing graph, by a node or as an output, in this subgraph
        and in the subgraphs inside it.
        """
        defines = self._definitions.defines
        for node in self._nodes:
            yield from ((self, name, node) for name in node.input if name and not defines(name))
            for body in node.bodies.values():
                yield from body.references.outward()
        if self._owner is not None:
            yield from ((self, name, self._owner) for name in self.outputs if not defines(name))

    def notify(self, node: Node) -> None:
        """Call the listeners because the operands of a node, or the readers of its results, have
        changed.
        """
        for listener in self._listeners:
            listener.touched(node)

    def clear(self) -> None:
        """Forget all recorded reads."""
        self._uses.clear()
        self._captures.clear()
        self.unread.clear()


def _replace(references: References, node: Node, old: str, new: str) -> None:
    """Change one name that a node reads.

    Only operands with this name are visited: a node may have thousands.
    """
    inputs, index = list(node.input), -1
    for _ in range(inputs.count(old)):
        index = inputs.index(old, index + 1)
        inputs[index] = new
        references.add(new, node)
        references.drop(old, node)
    node.input = tuple(inputs)
    references.notify(node)
