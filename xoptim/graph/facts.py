"""The table of facts about the values of one graph."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Literal

import numpy as np

from xoptim.facts.info import UNKNOWN, Info
from xoptim.facts.schema import is_deterministic
from xoptim.graph.definitions import Definitions
from xoptim.graph.node import Node

_AT_RUN_TIME = frozenset(("Constant", "DequantizeLinear"))


class FactTable:
    """Type, shape and constness of each value of a graph; an entry exists exactly as long as its value.

    Only `Graph` has one, and only its methods write to it; other code calls `Graph.learn`. ``outer`` is the table of the
    enclosing graph.
    """

    __slots__ = ("_computed", "_definitions", "_evaluated", "_infos", "_overridable", "items", "known", "learn", "outer")

    def __init__(self, definitions: Definitions, outer: FactTable | None) -> None:
        self.outer = outer
        self._definitions = definitions
        self._infos: dict[str, Info] = {}
        self._computed: set[str] = set()
        self._evaluated: dict[str, np.ndarray | None] = {}
        self._overridable: set[str] = set()
        # Methods of the table itself, which are called for every operand: see `Definitions`.
        self.known = self._infos.get
        """The facts about a value of this graph itself, ``None`` for a name that it does not define."""
        self.learn = self._infos.__setitem__
        """Replaces the facts about a value of this graph; they are dropped when the value is removed."""
        self.items = self._infos.items  # all values of this graph, subgraphs not included, with the facts about them

    def add(self, names: Iterable[str]) -> None:
        """Add values; those that have facts already keep them."""
        infos = self._infos
        for name in names:
            if name not in infos:
                infos[name] = UNKNOWN

    def drop(self, names: Iterable[str]) -> None:
        """Remove all facts about values that were removed."""
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
        """Whether a result is known to depend on constants only, so that it can be computed ahead of time."""
        if name in self._computed:
            return True
        return self.outer is not None and not self._definitions.defines(name) and self.outer.is_computed(name)

    def has_constant_inputs(self, node: Node) -> bool:
        """Whether the results of a node depend on constants only, so that they can be computed ahead of time."""
        found = False
        for name in node.input:
            if name:
                if name not in self._computed and self._definitions.tensor(name) is None:
                    return False
                found = True
        return found and can_fold(node)

    def learn_constness(self, node: Node) -> bool:
        """If the results of a node depend on constants only, record that; return whether it is new."""
        if not self.has_constant_inputs(node):
            return False
        before = len(self._computed)
        self._computed.update(name for name in node.output if name)
        return len(self._computed) > before

    def evaluated(self, name: str) -> np.ndarray | Literal["unasked"] | None:
        """The value that was computed for a constant, ``None`` where that failed, ``"unasked"`` before it was tried."""
        return self._evaluated.get(name, "unasked")

    def remember(self, values: Mapping[str, np.ndarray | None]) -> None:
        """Keep the computed values of constants, ``None`` for those that cannot be computed."""
        self._evaluated.update(values)

    def retry_failures(self) -> None:
        """Let constants that could not be computed be tried again: their operands may be others now."""
        for name in [name for name, value in self._evaluated.items() if value is None]:
            del self._evaluated[name]

    def depends_on_caller(self, name: str) -> bool:
        """Whether a value depends on an initializer that a caller may override."""
        if name in self._overridable:
            return True
        return self.outer is not None and not self._definitions.defines(name) and self.outer.depends_on_caller(name)

    def learn_dependence(self, node: Node, reads: Iterable[str]) -> None:
        """Mark the results of a node as dependent on an overridable initializer if any of ``reads`` is."""
        if any(map(self.depends_on_caller, reads)):
            self.mark_overridable(node.output)

    def mark_overridable(self, names: Collection[str]) -> None:
        """Record that values depend on an initializer that a caller may override."""
        self._overridable.update(names)

    def clear(self) -> None:
        """Remove everything."""
        for table in (self._infos, self._computed, self._evaluated, self._overridable):
            table.clear()


def can_fold(node: Node) -> bool:
    """Whether the results of a node depend on its inputs only and can be computed ahead of time.

    Results of DequantizeLinear are always computed at run time: wide weights would replace narrow ones, and hide the
    quantization from the runtime.
    """
    return not node.bodies and is_deterministic(node.op_type, node.domain) and node.op_type not in _AT_RUN_TIME
