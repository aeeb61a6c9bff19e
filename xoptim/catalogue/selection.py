"""Selection of patterns: ``"default+onnxruntime-Gelu"``, queries, lists of names, classes and
instances.
"""

from collections.abc import Iterable

from xoptim.catalogue.entries import Entry
from xoptim.catalogue.query import Item, Name, Query, Selection, Word
from xoptim.catalogue.registry import registry
from xoptim.match.rewrite import Rewrite

__all__ = ["Item", "Selection", "chosen", "resolve", "select"]


def select(selection: Selection, drop: Iterable[Word] = ()) -> list[Rewrite]:
    """The patterns of a selection, in the order in which they run
    (`xoptim.catalogue.entries.in_order`).

    Args:
        selection: ``None`` for none; a text of presets, tags and names, with or without the suffix
            ``Pattern``, joined by ``+`` or ``,`` (add) and ``-`` (remove), from left to right; a
            `Query`; a class or an instance; or a sequence of all these.
        drop: names to exclude in any case.

    Raises:
        UnknownPatternError: when a word is none of these; the message suggests the nearest one.
        TypeError: when an item has another type.
    """
    return [entry.rewrite for entry in chosen(selection, drop)]


def chosen(selection: Selection, drop: Iterable[Word] = ()) -> list[Entry]:
    """The entries of the patterns that `select` returns."""
    names = [name if isinstance(name, Name) else Name(name) for name in drop]
    return registry().query(Query.of(selection).excluding(*names))


def resolve(word: str) -> list[type[Rewrite]]:
    """The patterns that a preset, a tag or a name selects.

    Raises `UnknownPatternError` when it is none of these.
    """
    entries = sorted(registry().find(word), key=lambda entry: entry.item.name())
    return list(dict.fromkeys(entry.cls for entry in entries))
