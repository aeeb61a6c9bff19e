"""Counts and times, as rows for ``pandas.DataFrame``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal

_NOTHING = {"instances": 0, "match_index": 0, "tried": 0, "added": 0, "removed": 0, "exit_point": ""}
"""All rows have the same columns, so that sums and maxima can be asked for whatever happened."""


class Statistics:
    """What happened, in the rows that the seed document describes.

    Each row is a dictionary with ``pattern`` (``match_NAME``, ``apply_NAME``, or a step such as ``constant_folding``),
    ``iteration``, ``time_in`` (seconds), ``instances``, ``match_index``, ``tried`` (nodes), ``added``, ``removed`` (0 where
    they make no sense), and ``exit_point`` (where most matches were refused; empty unless refusals are listened to).
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.iteration = 0
        self.failed: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.rounding_folds = False
        self.rewrites = 0
        self._exits: Counter[tuple[str, str]] = Counter()

    def step(self, name: str, seconds: float, removed: int = 0) -> None:
        """A step that is not a pattern."""
        self._row(name, seconds, removed=removed)

    def matching(self, pattern: PatternOptimization, seconds: float, found: int, tried: int) -> None:
        """One pattern was tried at some nodes."""
        if found or seconds > 1e-4:
            exit_point = self._exit(pattern.name())
            self._row(f"match_{pattern.name()}", seconds, instances=found, tried=tried, exit_point=exit_point)

    def applied(self, pattern: PatternOptimization, seconds: float, added: int, removed: int) -> None:
        """One match was applied."""
        self.rewrites += 1
        self.counts[pattern.name()] += 1
        name = f"apply_{pattern.name()}"
        self._row(name, seconds, instances=1, match_index=self.rewrites, added=added, removed=removed)

    def rewrote(self, pattern: PatternOptimization, seconds: float, count: int, added: int, removed: int) -> None:
        """A rewriter of whole models made ``count`` rewrites at once."""
        name = pattern.name()
        self.rewrites += 1
        self.counts[name] += count
        self._row(f"apply_{name}", seconds, instances=count, match_index=self.rewrites, added=added, removed=removed)

    def round(self, applying: float, cleaning: float, total: float) -> None:
        """One round is over."""
        self._row("insert_and_remove_nodes", applying)
        self._row("remove_unused", cleaning)
        self._row("iteration", total)

    def refused(self, refusal: Refusal) -> None:
        """A match was refused."""
        self._exits[refusal.pattern, refusal.exit_point] += 1

    def _row(self, name: str, seconds: float, **known: Any) -> None:
        self.rows.append({"pattern": name, "iteration": self.iteration, "time_in": seconds, **_NOTHING, **known})

    def _exit(self, pattern: str) -> str:
        mine = [(count, point) for (name, point), count in self._exits.items() if name == pattern]
        return max(mine)[1] if mine else ""
