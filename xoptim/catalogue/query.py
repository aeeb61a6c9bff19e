"""What is asked of the database of patterns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, init=False)
class Query:
    """Patterns by their words: names, tags, presets, profiles, phases, exactness, status.

    ``Query(["fast_run"], exclude=["Gelu"])`` goes wherever a selection goes. Immutable: the methods return new queries.

    Attributes:
        include: a pattern has at least one of these words,
        require: all of these,
        exclude: and none of these.
        subquery: for some groups, by name, the query that is asked of them instead of this one.
    """

    include: frozenset[str]
    require: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    subquery: Mapping[str, Query] = field(default_factory=dict, hash=False)

    def __init__(
        self,
        include: Iterable[str],
        require: Iterable[str] = (),
        exclude: Iterable[str] = (),
        subquery: Mapping[str, Query] = MappingProxyType({}),
    ) -> None:
        for name, words in (("include", include), ("require", require), ("exclude", exclude)):
            object.__setattr__(self, name, frozenset([words] if isinstance(words, str) else words))
        object.__setattr__(self, "subquery", MappingProxyType(dict(subquery)))

    def including(self, *words: str) -> Query:
        """The same query with more words to include, none of which is excluded any more."""
        return Query(self.include.union(words), self.require, self.exclude.difference(words), self.subquery)

    def requiring(self, *words: str) -> Query:
        """The same query with more words to require."""
        return Query(self.include, self.require.union(words), self.exclude, self.subquery)

    def excluding(self, *words: str) -> Query:
        """The same query with more words to exclude, none of which is included any more."""
        return Query(self.include.difference(words), self.require, self.exclude.union(words), self.subquery)

    def __reduce__(self) -> tuple[Any, ...]:
        """To copy and to pickle it, which the read-only view of the subqueries does not allow."""
        return Query, (self.include, self.require, self.exclude, dict(self.subquery))
