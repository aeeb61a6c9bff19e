"""Names that are unique in the whole model, subgraphs and functions included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set


class Names:
    """The set of names in use and a source of new ones.

    New names are derived from a hint and a counter per hint, so they depend on the model and on the
    order of calls only. Names in ``base`` are in use as well. `commit` adds the names that were
    reserved here to ``base``; without a commit, they are free again.
    """

    __slots__ = ("_base", "_next", "used")

    def __init__(self, base: Names | None = None) -> None:
        self.used: set[str] = set()
        self._next: dict[str, int] = {}
        self._base = base

    def __contains__(self, name: str) -> bool:
        return name in self.used or (self._base is not None and name in self._base)

    def fresh(self, hint: str) -> str:
        """Reserve and return an unused name, which is the hint itself if that is unused."""
        hint = hint or "r"
        if hint not in self:
            self.used.add(hint)
            return hint
        count = self.next_count(hint)
        while f"{hint}_{count}" in self:
            count += 1
        self._next[hint] = count + 1
        name = f"{hint}_{count}"
        self.used.add(name)
        return name

    def next_count(self, hint: str) -> int:
        """The next suffix to try for a hint."""
        count = self._next.get(hint)
        if count is None:
            return 1 if self._base is None else self._base.next_count(hint)
        return count

    def commit(self) -> None:
        """Reserve in the base the names that were reserved here."""
        if self._base is not None:
            self._base.reserve(self.used, self._next)

    def reserve(self, names: Set[str], counts: Mapping[str, int]) -> None:
        """Merge names that were reserved elsewhere, and their next suffixes."""
        self.used |= names
        self._next.update(counts)


def repeated(originals: Sequence[str]) -> dict[int, str]:
    """New names for repeated ones, by index; first occurrences and empty names stay."""
    if len(set(originals)) == len(originals):
        return {}
    names, seen, replacements = Names(), set[str](), dict[int, str]()
    names.used.update(originals)
    for index, name in enumerate(originals):
        if name in seen:
            replacements[index] = names.fresh(name)
        elif name:
            seen.add(name)
    return replacements
