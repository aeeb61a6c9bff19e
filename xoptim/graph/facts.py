"""The values that one graph defines, where each comes from, and the table of facts about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import numpy as np

from xoptim.facts.attributes import is_given_by_caller
from xoptim.facts.shapes import UNKNOWN, Info
from xoptim.graph.node import Node
from xoptim.graph.tensors import Tensor, constant_tensor
from xoptim.operators.registry import is_deterministic


class Definitions:
    """The values that one graph defines: inputs, stored constants, and results of nodes.

    Only `Graph` has one, and only its methods write to it.
    """

    __slots__ = (
        "_node_values",
        "_producers",
        "initializers",
        "inputs",
        "is_input",
        "outer",
        "overridable",
        "producer",
    )

    def __init__(self, outer: Definitions | None) -> None:
        # the definitions of the enclosing graph, where a name that is not defined here is looked up
        self.outer = outer
        # inputs and sparse initializers, with the facts that the model declares
        self.inputs: dict[str, Info] = {}
        self.initializers: dict[str, Tensor] = {}
        self.overridable: set[str] = set()  # see `Graph.overridable`; these are not constants
        self._producers: dict[str, Node] = {}
        self._node_values: dict[Node, Tensor | None] = {}
        # Methods of the tables, without a Python function around them: every step of the search
        # calls these.
        self.producer = self._producers.get  # see `Graph.producer`
        self.is_input = self.inputs.__contains__

    def defines(self, name: str) -> bool:
        """See `Graph.defines`."""
        return name in self._producers or name in self.inputs or name in self.initializers

    def resolves(self, name: str) -> bool:
        """Whether this graph or one around it defines a name."""
        return self.defines(name) or (self.outer is not None and self.outer.resolves(name))

    def sees_overridable(self) -> bool:
        """See `Graph.sees_overridable`."""
        return bool(self.overridable) or (self.outer is not None and self.outer.sees_overridable())

    def tensor(self, name: str) -> Tensor | None:
        """See `Graph.tensor`."""
        scope: Definitions | None = self
        while scope is not None:
            tensor = scope.initializers.get(name)
            if tensor is not None:
                return None if name in scope.overridable else tensor
            node = scope.producer(name)
            if node is not None:
                return (
                    scope.value_of(node) if node.op_type == "Constant" and not node.domain else None
                )
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
        """Record the nodes as producers of their results; returns the names of the results."""
        producers = self._producers
        names: list[str] = []
        for node in nodes:
            for name in node.output:
                if name:
                    producers[name] = node
                    names.append(name)
        return names

    def remove_results(self, node: Node) -> list[str]:
        """Remove a node as a producer.

        Returns the names of the results that nothing defines any longer.
        """
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


_NEVER_FOLDED = frozenset(("Constant", "DequantizeLinear"))


class FactTable:
    """Type, shape and constness of each value of a graph.

    An entry exists exactly as long as its value.

    Only `Graph` has one, and only its methods write to it; other code calls `Graph.learn`.
    ``outer`` is the table of the enclosing graph.
    """

    __slots__ = (
        "_computed",
        "_definitions",
        "_evaluated",
        "_infos",
        "_overridable",
        "items",
        "known",
        "learn",
        "outer",
    )

    def __init__(self, definitions: Definitions, outer: FactTable | None) -> None:
        self.outer = outer
        self._definitions = definitions
        self._infos: dict[str, Info] = {}
        self._computed: set[str] = set()
        self._evaluated: dict[str, np.ndarray | None] = {}
        self._overridable: set[str] = set()
        # Methods of the table itself, which are called for every operand: see `Definitions`.
        self.known = self._infos.get  # see `Graph.known`
        self.learn = self._infos.__setitem__  # see `Graph.learn`
        self.items = self._infos.items  # see `Graph.all_known`

    def add(self, names: Iterable[str]) -> None:
        """Add values; values that have facts already keep them."""
        infos = self._infos
        for name in names:
            if name not in infos:
                infos[name] = UNKNOWN

    def drop(self, names: Iterable[str]) -> None:
        """See `Graph.drop_facts`."""
        for name in names:
            self._infos.pop(name, None)
            self._computed.discard(name)
            self._overridable.discard(name)
            self._evaluated.pop(name, None)

    def move(self, old: str, new: str) -> None:
        """Rename a value."""
        for table in (self._infos, self._evaluated):
            if old in table:
                table[new] = table.pop(old)  # type: ignore[assignment]
        for names in (self._computed, self._overridable):
            if old in names:
                names.discard(old)
                names.add(new)

    def is_computed(self, name: str) -> bool:
        """See `Graph.is_computed`."""
        if name in self._computed:
            return True
        return (
            self.outer is not None
            and not self._definitions.defines(name)
            and self.outer.is_computed(name)
        )

    def has_constant_inputs(self, node: Node) -> bool:
        """Whether the results of a node depend on constants only, and can be computed ahead of
        time.
        """
        has_operand = False
        for name in node.input:
            if name:
                if name not in self._computed and self._definitions.tensor(name) is None:
                    return False
                has_operand = True
        return has_operand and can_fold(node)

    def learn_constness(self, node: Node) -> bool:
        """See `Graph.learn_constness`."""
        if not self.has_constant_inputs(node):
            return False
        count = len(self._computed)
        self._computed.update(name for name in node.output if name)
        return len(self._computed) > count

    def evaluated(self, name: str) -> np.ndarray | Literal["unasked"] | None:
        """See `Graph.evaluated`."""
        return self._evaluated.get(name, "unasked")

    def remember(self, values: Mapping[str, np.ndarray | None]) -> None:
        """See `Graph.remember`."""
        self._evaluated.update(values)

    def retry_failures(self) -> None:
        """See `Graph.retry_failures`."""
        for name in [name for name, value in self._evaluated.items() if value is None]:
            del self._evaluated[name]

    def depends_on_caller(self, name: str) -> bool:
        """See `Graph.depends_on_caller`."""
        if name in self._overridable:
            return True
        return (
            self.outer is not None
            and not self._definitions.defines(name)
            and self.outer.depends_on_caller(name)
        )

    def learn_dependence(self, node: Node, reads: Iterable[str]) -> None:
        """See `Graph.learn_dependence`."""
        if any(map(self.depends_on_caller, reads)):
            self.mark_dependent(node.output)

    def mark_dependent(self, names: Collection[str]) -> None:
        """Record that values depend on an initializer that a caller may override."""
        self._overridable.update(names)

    def clear(self) -> None:
        """Remove everything."""
        for table in (self._infos, self._computed, self._evaluated, self._overridable):
            table.clear()


def can_fold(node: Node) -> bool:
    """Whether the results of a node depend on its inputs only and can be computed ahead of time.

    Results of DequantizeLinear are always computed at run time: float weights would replace the
    quantized ones, and hide the quantization from the runtime. In a local function, results that
    depend on an attribute of the caller differ from call to call.
    """
    return (
        not node.bodies
        and is_deterministic(node.op_type, node.domain)
        and node.op_type not in _NEVER_FOLDED
        and not is_given_by_caller(node.attribute)
    )
