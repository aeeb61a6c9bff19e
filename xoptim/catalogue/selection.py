"""Which patterns run: ``"default+onnxruntime-Gelu"``, queries, lists of names, classes and instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xoptim.catalogue.database import database
from xoptim.catalogue.entries import Pattern, shared
from xoptim.catalogue.query import Query
from xoptim.catalogue.words import short, unknown, warn_once
from xoptim.facts.errors import UnknownPatternError

Item: TypeAlias = "str | Query | Pattern | type[Pattern]"
Selection: TypeAlias = "Item | Sequence[Item] | None"


def select(selection: Selection, drop: Iterable[str] = ()) -> list[Pattern]:
    """The patterns of a selection, in the order in which they are tried: position of the phase, priority, name.

    Args:
        selection: ``None`` for none; a text of presets, profiles, tags and names, with or without the suffix ``Pattern``,
            joined by ``+`` or ``,`` (add) and ``-`` (take away), from left to right; a `Query`; a class or an instance; or a
            sequence of all these.
        drop: names to leave out in any case.

    Raises:
        UnknownPatternError: when a word is none of these; the message suggests the nearest one.
        TypeError: when something else is among them.
    """
    chosen: dict[str, Pattern] = {}
    if selection is None:
        return []
    for item in [selection] if isinstance(selection, (str, Query, type, Pattern)) else selection:
        if isinstance(item, str):
            _apply_text(item, chosen)
        elif isinstance(item, Query):
            _apply_query(item, chosen)
        elif isinstance(item, Pattern):
            chosen[item.name()] = item
        elif isinstance(item, type) and issubclass(item, Pattern):
            chosen[item.name()] = shared(item)
        else:
            raise TypeError(f"a name, a query, a class or an instance of a pattern is expected, not {item!r}")
    for name in check_names(drop, chosen):
        chosen.pop(name, None)
    return sorted(chosen.values(), key=database().order)


def _apply_text(text: str, chosen: dict[str, Pattern]) -> None:
    sign = "+"
    for token in map(str.strip, re.split(r"([+,-])", text)):
        if token in ("+", ",", "-"):
            sign = "-" if token == "-" else "+"
        elif sign == "-" and short(token) in chosen:
            del chosen[short(token)]
        elif token:
            found = database().find(token)
            if sign == "-":
                for entry in found:
                    chosen.pop(entry.item.name(), None)
            else:
                _warn_deprecated(token)
                for entry in found:
                    chosen.setdefault(entry.item.name(), entry.pattern)


def _apply_query(query: Query, chosen: dict[str, Pattern]) -> None:
    for pattern in database().query(query):
        chosen.setdefault(pattern.name(), pattern)
    for each in (query, *query.subquery.values()):
        for word in sorted(each.include):
            _warn_deprecated(word)


def _warn_deprecated(word: str) -> None:
    for entry in database().find(word):
        if entry.item.status == "deprecated" and entry.is_called(word):
            warn_once(f"pattern {entry.name!r} is deprecated: it may go in a later version")


def resolve(word: str) -> list[type[Pattern]]:
    """The patterns that a preset, a profile, a tag or a name stands for.

    Raises:
        UnknownPatternError: when it is none of these.
    """
    return list(dict.fromkeys(entry.cls for entry in sorted(database().find(word), key=lambda entry: entry.item.name())))


def check_names(words: Iterable[str], extra: Iterable[str] = (), where: str = "") -> list[str]:
    """Make sure that each word is the name, or a former name, of a pattern in the database or one of ``extra``.

    Args:
        words: the names.
        extra: names of patterns that are not in the database.
        where: what the words come from, for the message.

    Returns:
        The names that these patterns have now.

    Raises:
        UnknownPatternError: when one is not.
    """
    others, names = set(extra), list[str]()
    for word in words:
        found = [short(word)] if short(word) in others else present_names(word)
        if not found:
            raise UnknownPatternError((f"{where}: " if where else "") + unknown(word, database().names() | others))
        names += found
    return names


def present_names(word: str) -> list[str]:
    """The names that the patterns in the database have now that are, or were, called by a word; empty if none are."""
    return [entry.item.name() for entry in database().named(word)]
