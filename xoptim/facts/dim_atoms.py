"""Atoms of symbolic dimensions, and the weak table that makes equal things the same object."""

from __future__ import annotations

import itertools
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import ReferenceType, ref

Bounds: TypeAlias = "tuple[int | None, int | None]"
Item = TypeVar("Item")

_KINDS: Final = {"named": 0, "anonymous": 1, "//": 2, "%": 3, "max": 4, "min": 5, "broadcast": 6}
_serial = itertools.count()


class _Entry(ref):  # type: ignore[type-arg]
    """A weak reference that knows its key, so that a dead object can leave the table."""

    __slots__ = ("key",)
    key: Any


class Table(Generic[Item]):
    """Objects by what they are made of, held weakly."""

    def __init__(self) -> None:
        self.entries: dict[Any, ReferenceType[Any]] = {}

    def find(self, key: Any) -> Item | None:
        """The object of a key, if it is still alive."""
        entry = self.entries.get(key)
        return None if entry is None else entry()

    def add(self, key: Any, item: Item) -> Item:
        """The object to use for a key: this one, or the one that another thread entered meanwhile."""
        entry = _Entry(item, self._forget)
        entry.key = key
        while True:
            winner = self.entries.setdefault(key, entry)
            found: Item | None = winner()
            if found is not None:
                return found
            self._forget(winner)

    def _forget(self, entry: Any) -> None:
        key = entry.key
        if self.entries.get(key) is entry:
            del self.entries[key]


class Atom:
    """What a polynomial is built over: a symbol (no ``args``), or an operation that does not expand.

    Attributes:
        kind: ``named``, ``anonymous``, or the operation.
        args: operands, integers and symbolic dimensions.
        text: Python syntax.
        tight: whether the text may stand next to any operator without parentheses.
        key: what atoms are sorted by; no two share it.
        low, high: bounds of the value, ``None`` when unbounded.
        anonymous: whether an anonymous symbol is inside.
        names: the symbols inside.
    """

    __slots__ = ("__weakref__", "anonymous", "args", "high", "key", "kind", "low", "names", "text", "tight")

    def __init__(self, kind: str, args: tuple[Any, ...], text: str, bounds: Bounds) -> None:
        self.kind = kind
        self.args = args
        self.text = text
        self.tight = kind != "//" and kind != "%"
        self.key = (_KINDS[kind], text, next(_serial))
        self.low, self.high = bounds
        inside = [arg for arg in args if type(arg) is not int]
        self.anonymous = kind == "anonymous" or any(arg.is_anonymous for arg in inside)
        self.names: frozenset[str] = frozenset().union(*(arg.symbols for arg in inside)) if args else frozenset((text,))
