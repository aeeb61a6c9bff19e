"""The values that one graph defines, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.facts.info import Info
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor, constant_tensor


class Definitions:
    """The values that one graph defines: inputs, stored constants, and results of nodes.

    Only `Graph` has one, and only its methods write to it.
    """

    __slots__ = ("_node_values", "_producers", "initializers", "inputs", "is_input", "outer", "overridable", "producer")

    def __init__(self, outer: Definitions | None) -> None:
        self.outer = outer  # the definitions of the enclosing graph, where a name that is not defined here is looked up
        # The values that are given (inputs, sparse initializers), with the facts that the model declares about them
        self.inputs: dict[str, Info] = {}
        self.initializers: dict[str, Tensor] = {}
        # Initializers that are inputs too: a caller may pass another value, so they are not constants
        self.overridable: set[str] = set()
        self._producers: dict[str, Node] = {}
        self._node_values: dict[Node, Tensor | None] = {}
        # Methods of the tables, without a Python function around them: every step of the search calls these.
        self.producer = self._producers.get  # the node of this graph that computes a result
        self.is_input = self.inputs.__contains__  # whether a result is an input of this graph

    def defines(self, name: str) -> bool:
        """Whether a result is computed by a node, an input of, or stored in this graph itself."""
        return name in self._producers or name in self.inputs or name in self.initializers

    def resolves(self, name: str) -> bool:
        """Whether this graph or one around it defines a name."""
        return self.defines(name) or (self.outer is not None and self.outer.resolves(name))

    def sees_overridable(self) -> bool:
        """Whether a caller may override an initializer of this graph or of one around it."""
        return bool(self.overridable) or (self.outer is not None and self.outer.sees_overridable())

    def tensor(self, name: str) -> Tensor | None:
        """The stored value of a constant: an initializer that no caller can override, or the value of a Constant node."""
        scope: Definitions | None = self
        while scope is not None:
            tensor = scope.initializers.get(name)
            if tensor is not None:
                return None if name in scope.overridable else tensor
            node = scope.producer(name)
            if node is not None:
                return scope.value_of(node) if node.op_type == "Constant" and not node.domain else None
            if name in scope.inputs:
                return None
            scope = scope.outer
        return None

    def value_of(self, node: Node) -> Tensor | None:
        """The value of a Constant node of this graph, read once."""
        values = self._node_values
        if node not in values:
            values[node] = constant_tensor(node)
        return values[node]

    def add_results(self, nodes: Iterable[Node]) -> list[str]:
        """Record the nodes as producers of their results; returns the names of these."""
        producers = self._producers
        names: list[str] = []
        for node in nodes:
            for name in node.output:
                if name:
                    producers[name] = node
                    names.append(name)
        return names

    def remove_results(self, node: Node) -> list[str]:
        """Remove a node as a producer; returns the names of the results that nothing defines any longer."""
        names = [name for name in node.output if name and self._producers.get(name) is node]
        for name in names:
            del self._producers[name]
        self._node_values.pop(node, None)
        return names

    def rename_result(self, old: str, new: str) -> None:
        """Record that a node produces its result under another name."""
        self._producers[new] = self._producers.pop(old)

    def clear(self) -> None:
        """Remove all constants and results."""
        self.initializers.clear()
        self._producers.clear()
        self._node_values.clear()
