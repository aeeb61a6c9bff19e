"""The words of a selection: short names, messages about unknown words, and warnings that are given once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache

from xoptim.facts.words import abridged, suggestion

logger = logging.getLogger("xoptim")


def short(word: str) -> str:
    """A name without the suffix ``Pattern``, as `Rewrite.name` returns it."""
    return word.strip().removesuffix("Pattern")


def unknown(word: str, known: Iterable[str], where: str = "") -> str:
    """The message about an unknown word of a selection.

    Args:
        word: the word.
        known: the known words.
        where: the source of the word.
    """
    hint = suggestion(short(word), known, "`xopt list` shows all names")
    return f"{f'{where}: ' if where else ''}unknown pattern {abridged(word)}; {hint}"


@cache
def warn_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)
