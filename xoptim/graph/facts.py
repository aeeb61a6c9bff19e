"""The table of facts about the values of one graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import numpy as np

from xoptim.facts.info import Info


class FactTable:
    """Type, shape and constness of each value of a graph; an entry exists exactly as long as its value.

    Only `Graph` has one, and only its methods write to it; other code calls `Graph.learn`.
    """

    __slots__ = ("_computed", "_evaluated", "_infos", "_overridable", "get", "is_computed", "set")

    def __init__(self) -> None:
        self._infos: dict[str, Info] = {}
        self._computed: set[str] = set()
        self._evaluated: dict[str, np.ndarray | None] = {}
        self._overridable: set[str] = set()
        self.get = self._infos.get
        """The facts about a value, ``None`` for a name that the graph does not define."""
        self.set = self._infos.__setitem__
        """Replaces the facts about a value."""
        self.is_computed = self._computed.__contains__
        """Whether a value is known to depend on constants only."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def items(self) -> Collection[tuple[str, Info]]:
        """All values with the facts about them."""
        return self._infos.items()

    def drop(self, name: str) -> None:
        """Remove all facts about a value that was removed."""
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

    def mark_computed(self, names: Collection[str]) -> bool:
        """Record that values depend on constants only; returns whether this was new for any of them."""
        before = len(self._computed)
        self._computed.update(name for name in names if name)
        return len(self._computed) > before

    def mark_overridable(self, names: Collection[str]) -> None:
        """Record that values depend on an initializer that a caller may override."""
        self._overridable.update(names)

    def is_overridable(self, name: str) -> bool:
        """Whether a value is known to depend on an initializer that a caller may override."""
        return name in self._overridable

    def evaluated(self, name: str) -> np.ndarray | Literal["unasked"] | None:
        """The value that was computed for a constant, ``None`` where that failed, ``"unasked"`` before it was tried."""
        return self._evaluated.get(name, "unasked")

    def remember(self, values: Mapping[str, np.ndarray | None]) -> None:
        """Keep the computed values of constants, ``None`` for those that cannot be computed."""
        self._evaluated.update(values)

    def forget_failures(self) -> None:
        """Let values that could not be computed be tried again."""
        for name in [name for name, value in self._evaluated.items() if value is None]:
            del self._evaluated[name]

    def clear(self) -> None:
        """Remove everything."""
        for table in (self._infos, self._computed, self._evaluated, self._overridable):
            table.clear()
