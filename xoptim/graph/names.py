"""Names that are unique in the whole model, subgraphs and functions included."""

from __future__ import annotations


class Names:
    """The set of names in use and a source of new ones.

    New names are derived from a hint and a counter per hint, so they depend on the model and on the order of requests only.
    """

    __slots__ = ("_next", "used")

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._next: dict[str, int] = {}

    def fresh(self, hint: str) -> str:
        """A name that nothing has, equal to the hint when that is free, and reserve it."""
        hint = hint or "r"
        if hint not in self.used:
            self.used.add(hint)
            return hint
        count = self._next.get(hint, 1)
        while f"{hint}_{count}" in self.used:
            count += 1
        self._next[hint] = count + 1
        name = f"{hint}_{count}"
        self.used.add(name)
        return name
