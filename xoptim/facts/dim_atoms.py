"""Atoms of symbolic dimensions, and the weak table that makes equal expressions the same object."""

from __future__ import annotations

import itertools
from hashlib import blake2b
from typing import Any, Final, Generic, TypeAlias, TypeVar
from weakref import ReferenceType, ref

Bounds: TypeAlias = "tuple[int | None, int | None]"
Item = TypeVar("Item")

_KINDS: Final = {
    kind: rank
    for rank, kind in enumerate(("named", "anonymous", "opaque", "//", "%", "max", "min", "broadcast", "int32", "int64"))
}
_serial = itertools.count()


class _Entry(ref):  # type: ignore[type-arg]
    """A weak reference with its key, so that the entry of a dead object can be removed."""

    __slots__ = ("key",)
    key: Any


class Table(Generic[Item]):
    """Objects by their structure, held weakly."""

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


def digest_of(*parts: bytes) -> bytes:
    """Digest of a sequence of byte strings, the same in every process."""
    state = blake2b(digest_size=16)
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.digest()


class Atom:
    """The variable of a polynomial: a symbol (no ``args``), or an operation that does not expand.

    Attributes:
        kind: ``named``, ``anonymous``, ``opaque`` (a symbol for an operation that would be too large), or the operation.
        args: operands, integers and symbolic dimensions.
        name: of a symbol.
        key: atoms are sorted by it; no two share it. It depends on the structure and on the order in which anonymous
            symbols were made, on nothing else in the process.
        digest: the structure in 16 bytes.
        low, high: bounds of the value, ``None`` when unbounded.
        anonymous: whether a symbol without a name of the model is inside.
        numbered: whether a symbol is inside that is numbered in the order of creation.
        weight: number of atoms and numbers, those in operands included.
        depth: how deeply operations are nested, 0 for a symbol.
    """

    __slots__ = (
        *("__weakref__", "anonymous", "args", "depth", "digest", "high", "key", "kind", "low", "name"),
        *("numbered", "weight"),
    )

    def __init__(self, kind: str, args: tuple[Any, ...], bounds: Bounds, digest: bytes, name: str = "") -> None:
        self.kind = kind
        self.args = args
        self.name = name
        self.low, self.high = bounds
        self.digest = digest
        inside = [arg for arg in args if type(arg) is not int]
        self.anonymous = not args if kind != "named" else False
        self.numbered = kind == "anonymous"
        self.weight = 1
        self.depth = 0
        if args:
            self.anonymous = any(arg.is_anonymous for arg in inside)
            self.numbered = any(arg.is_numbered for arg in inside)
            self.weight = 1 + sum(1 if type(arg) is int else arg.weight for arg in args)
            self.depth = 1 + max((arg.depth for arg in inside), default=0)
        self.key = (_KINDS[kind], self._rank())

    def _rank(self) -> Any:
        """Sort key among atoms of one kind."""
        if self.kind == "named":
            return self.name
        if self.args:
            return tuple([(1, (), arg) if type(arg) is int else arg.order for arg in self.args])
        return next(_serial)


def opaque_atom(digest: bytes, bounds: Bounds, *, numbered: bool) -> Atom:
    """A symbol, within some bounds, for the result of an operation; the digest of operation and operands is its name too.

    ``numbered``: whether a numbered symbol is among the operands. Without one, the operation is the same in every process, and
    so is the place of the symbol among others.
    """
    atom = Atom("opaque", (), bounds, digest, f"?_{digest.hex()}")
    atom.numbered = numbered
    atom.key = (_KINDS["opaque"], (1, next(_serial)) if numbered else (0, digest))
    return atom
