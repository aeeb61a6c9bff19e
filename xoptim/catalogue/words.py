"""The words of a selection: what they are short for, what they were meant to be, what is said about them once."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache

logger = logging.getLogger("xoptim")
_LONGEST = 100
"""Letters of a word that is compared with all others, which takes so many times longer."""


def short(word: str) -> str:
    """A name as `PatternOptimization.name` gives it: without the suffix ``Pattern``."""
    return word.strip().removesuffix("Pattern")


def unknown(word: str, known: Iterable[str]) -> str:
    """The message about a word that nothing knows, with the nearest one if there is one near."""
    if len(word) > _LONGEST:
        return f"unknown pattern {word[:_LONGEST]!r}...; `xopt list` shows all names"
    lower = {name.lower(): name for name in sorted(known, reverse=True)}
    wanted = short(word).lower()
    near = min(lower, key=lambda name: _distance(wanted, name), default="")
    hint = f"did you mean {lower[near]!r}?" if 2 * _distance(wanted, near) <= len(wanted) else "`xopt list` shows all names"
    return f"unknown pattern {word!r}; {hint}"


@cache
def warn_once(message: str) -> None:
    """Log a warning, once per process."""
    logger.warning(message)


def _distance(a: str, b: str) -> int:
    """Fewest letters to add, drop or change to get from one word to the other (Levenshtein)."""
    row = list(range(len(b) + 1))
    for x in a:
        corner, row[0] = row[0], row[0] + 1
        for j, y in enumerate(b, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (x != y))
    return row[-1]
