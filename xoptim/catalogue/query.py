"""Queries of the registry: items to add, to require and to remove, from left to
right.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from xoptim.facts.errors import UnknownPatternError
from xoptim.facts.words import abridged
from xoptim.match.making import check_metadata
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import ModelPass, Rewrite

Item: TypeAlias = "str | Query | Rewrite | type[Rewrite]"
Selection: TypeAlias = "Item | Sequence[Item] | None"
Word: TypeAlias = "str | Name"
Sign: TypeAlias = Literal["+", "&", "-"]
Step: TypeAlias = "tuple[Sign, Item | Name]"


@dataclass(frozen=True)
class Name:
    """A word that selects only patterns of this name: never a preset, a tag, or any other word."""

    word: str  # the name, with or without the suffix ``Pattern``, or a former name
    where: str = ""  # its source, for the message when no pattern has this name


@dataclass(frozen=True, init=False)
class Query:
    """Patterns by their words: names, tags, presets, phases, exactness, status.

    ``Query(["fast_run"], exclude=["Gelu"])`` is accepted wherever a selection is, and `of` converts
    every selection to one. Immutable: the methods return new queries.

    Attributes:
        include: words of which a pattern must have at least one, unless the steps select it.
        require: words that a pattern must all have.
        exclude: words of which a pattern must have none.
        subquery: for some groups, by name, the query that applies to them instead of this one.
        steps: words, queries, classes and instances to add (``+``), to require (``&``) and to
            remove (``-``), from left to right, before the words.
    """

    include: frozenset[Word]
    require: frozenset[Word] = frozenset()
    exclude: frozenset[Word] = frozenset()
    subquery: Mapping[str, Query] = field(default_factory=dict, hash=False)
    steps: tuple[Step, ...] = ()

    def __init__(
        self,
        include: Iterable[Word],
        require: Iterable[Word] = (),
        exclude: Iterable[Word] = (),
        subquery: Mapping[str, Query] = MappingProxyType({}),
        steps: Iterable[Step] = (),
    ) -> None:
        for name, words in (("include", include), ("require", require), ("exclude", exclude)):
            vars(self)[name] = frozenset([words] if isinstance(words, str) else words)
        vars(self).update(subquery=MappingProxyType(dict(subquery)), steps=tuple(steps))

    @classmethod
    def of(cls, selection: Selection) -> Query:
        """Convert a selection to a query; see `xoptim.select`.

        Raises `TypeError` when an item is neither text nor query, class or instance of a pattern,
        and `UnknownPatternError` when no word follows a sign.
        """
        if isinstance(selection, Query) and selection.is_of_words:
            return selection  # as a step of another query, its answer would not be cached
        steps: list[Step] = []
        alone = selection is None or isinstance(selection, (str, Query, type, Rewrite))
        if not alone and not isinstance(selection, Iterable):
            raise TypeError(f"expected a selection of patterns, not {selection!r}")
        items: Iterable[Any] = (selection,) if alone else selection  # type: ignore[assignment]
        for item in () if selection is None else items:
            if isinstance(item, str):
                steps += _parsed(item)
            elif isinstance(item, Query) or issubclass(
                class_of(item), (PatternOptimization, ModelPass)
            ):
                if not isinstance(item, Query):
                    check_metadata(class_of(item))
                steps.append(("+", item))
            else:
                raise TypeError(
                    f"expected the name, class or instance of a pattern, or a query, not {item!r}"
                )
        return cls((), steps=steps)

    @cached_property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps, and then the words as steps.

        The order of words in a set affects only messages.
        """
        parts: tuple[tuple[Sign, frozenset[Word]], ...] = (
            ("+", self.include),
            ("&", self.require),
            ("-", self.exclude),
        )
        return (
            *self.steps,
            *((sign, word) for sign, words in parts for word in sorted(words, key=str)),
        )

    @property
    def is_of_words(self) -> bool:
        """Whether the query consists of words only, so that its answer depends on the registry
        alone.
        """
        return not self.subquery and all(isinstance(item, (str, Name)) for _, item in self.steps)

    def holds(self, words: Container[Any]) -> bool:
        """Whether the query selects an entry that has exactly these words."""
        is_selected = False
        for sign, word in self.all_steps:
            is_selected = (
                is_selected or word in words
                if sign == "+"
                else is_selected and (word in words) is (sign == "&")
            )
        return is_selected

    def including(self, *words: Word) -> Query:
        """The same query with more words to include, which are no longer excluded."""
        return Query(
            self.include.union(words),
            self.require,
            self.exclude.difference(words),
            self.subquery,
            self.steps,
        )

    def requiring(self, *words: Word) -> Query:
        """The same query with more words to require."""
        return Query(
            self.include, self.require.union(words), self.exclude, self.subquery, self.steps
        )

    def excluding(self, *words: Word) -> Query:
        """The same query with more words to exclude, which are no longer included."""
        return Query(
            self.include.difference(words),
            self.require,
            self.exclude.union(words),
            self.subquery,
            self.steps,
        )

    def joining(self, word: str, companions: Container[str]) -> Query:
        """The same query, with a word included wherever one of its companions is."""
        steps: list[Step] = []
        for sign, item in self.steps:
            steps.append(
                (sign, item.joining(word, companions) if isinstance(item, Query) else item)
            )
            if sign == "+" and isinstance(item, str) and item in companions:
                steps.append(("+", word))
        is_here = any(isinstance(item, str) and item in companions for item in self.include)
        include = self.include.union([word] if is_here else [])
        subquery = {name: query.joining(word, companions) for name, query in self.subquery.items()}
        return Query(include, self.require, self.exclude, subquery, steps)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle a query; the read-only view of the subqueries supports neither."""
        return Query, (self.include, self.require, self.exclude, dict(self.subquery), self.steps)


def class_of(item: object) -> type:
    """The class of an instance, or the class itself."""
    return item if isinstance(item, type) else type(item)


def _parsed(text: str) -> Iterator[Step]:
    """The words of a text with their signs; commas only separate."""
    sign: Sign = "+"
    pending = ""  # the sign that still lacks its word
    for token in map(str.strip, (*re.split(r"([+,-])", text), ",")):
        if token in ("+", ",", "-"):
            if pending:
                raise UnknownPatternError(
                    f"a word is missing after {pending!r} in the selection {abridged(text)}"
                )
            sign = "-" if token == "-" else "+"
            pending = token.strip(",")
        elif token:
            yield sign, token
            pending = ""
