"""Selection of patterns: ``"default+onnxruntime-Gelu"``, queries, lists of names, classes and
instances.
"""

from collections.abc import Iterable

from xoptim.catalogue.database import database
from xoptim.catalogue.query import Item, Name, Query, Selection, Word
from xoptim.match.rewrite import Rewrite

__all__ = ["Item", "Selection", "resolve", "select"]


def select(selection: Selection, drop: Iterable[Word] = ()) -> list[Rewrite]:
    """The patterns of a selection, in the order in which they run
    (`xoptim.catalogue.entries.in_order`).

    Args:
        selection: ``None`` for none; a text of presets, profiles, tags and names, with or without
            the suffix ``Pattern``, joined by ``+`` or ``,`` (add) and ``-`` (remove), from left to
            right; a `Query`; a class or an instance; or a sequence of all these.
        drop: names to exclude in any case.

    Raises:
        UnknownPatternError: when a word is none of these; the message suggests the nearest one.
        TypeError: when an item has another type.
    """
    return database().query(
        Query.of(selection).excluding(
            *(name if isinstance(name, Name) else Name(name) for name in drop)
        )
    )


def resolve(word: str) -> list[type[Rewrite]]:
    """The patterns that a preset, a profile, a tag or a name selects.

    Raises `UnknownPatternError` when it is none of these.
    """
    return list(
        dict.fromkeys(
            entry.cls
            for entry in sorted(database().find(word), key=lambda entry: entry.item.name())
        )
    )
