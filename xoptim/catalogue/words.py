"""The words of a selection: short names, suggestions for unknown words, and warnings that are given once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache

logger = logging.getLogger("xoptim")
_LONGEST = 100
"""Maximal number of letters of a word that is compared with all others: the time grows with the length."""


def short(word: str) -> str:
    """A name without the suffix ``Pattern``, as `Rewrite.name` returns it."""
    return word.strip().removesuffix("Pattern")


def suggestion(word: str, known: Iterable[str], otherwise: str, most: int = 1) -> str:
    """A suggestion of similar words, the case of letters ignored.

    Args:
        word: the word.
        known: the known words.
        otherwise: the text to return when no word is similar.
        most: the maximal number of words in the suggestion.
    """
    wanted = word.lower() if len(word) <= _LONGEST else ""
    names = {name.lower(): name for name in sorted(known, reverse=True)}
    steps = {name: _distance(wanted, name) for name in names if 2 * abs(len(name) - len(wanted)) <= len(wanted)}
    near = sorted((name for name in steps if 2 * steps[name] <= len(wanted)), key=lambda name: steps[name])
    return f"did you mean {' or '.join(repr(names[name]) for name in near[:most])}?" if near else otherwise


def unknown(word: str, known: Iterable[str], where: str = "") -> str:
    """The message about an unknown word of a selection.

    Args:
        word: the word.
        known: the known words.
        where: the source of the word.
    """
    shown = repr(word) if len(word) <= _LONGEST else f"{word[:_LONGEST]!r}..."
    hint = suggestion(short(word), known, "`xopt list` shows all names")
    return f"{f'{where}: ' if where else ''}unknown pattern {shown}; {hint}"


@cache
def warn_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)


def _distance(a: str, b: str) -> int:
    """Minimal number of letters to add, drop or change between two words (Levenshtein)."""
    row = list(range(len(b) + 1))
    for x in a:
        corner, row[0] = row[0], row[0] + 1
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]
