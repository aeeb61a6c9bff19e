"""Counts and times, as rows for ``pandas.DataFrame``."""

from __future__ import annotations

from collections import Counter
from typing import Any

from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal


class Statistics:
    """What happened, in the rows that the seed document describes.

    Each row is a dictionary with ``pattern`` (``match_NAME``, ``apply_NAME``, or a step such as ``constant_folding``),
    ``iteration``, ``time_in`` (seconds), and where they make sense ``instances``, ``match_index``, ``added``, ``removed``,
    ``exit_point`` (where matches of the pattern were refused most often; known when refusals are listened to).
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.iteration = 0
        self.failed: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.rounding_folds = False
        self._index = 0
        self._exits: Counter[tuple[str, str]] = Counter()

    def step(self, name: str, seconds: float, removed: int = 0) -> None:
        """A step that is not a pattern."""
        self.rows.append({"pattern": name, "iteration": self.iteration, "time_in": seconds, "removed": removed, "added": 0})

    def matching(self, pattern: PatternOptimization, seconds: float, found: int, tried: int) -> None:
        """One pattern was tried at some nodes."""
        if found or seconds > 1e-4:
            row = {"pattern": f"match_{pattern.name()}", "iteration": self.iteration, "time_in": seconds}
            self.rows.append({**row, "instances": found, "tried": tried, "exit_point": self._exit(pattern.name())})

    def applied(self, pattern: PatternOptimization, seconds: float, added: int, removed: int) -> None:
        """One match was applied."""
        self._index += 1
        self.counts[pattern.name()] += 1
        row = {"pattern": f"apply_{pattern.name()}", "iteration": self.iteration, "time_in": seconds}
        self.rows.append({**row, "instances": 1, "match_index": self._index, "added": added, "removed": removed})

    def round(self, applying: float, cleaning: float, total: float) -> None:
        """One round is over."""
        self.rows.append({"pattern": "insert_and_remove_nodes", "iteration": self.iteration, "time_in": applying})
        self.rows.append({"pattern": "remove_unused", "iteration": self.iteration, "time_in": cleaning})
        self.rows.append({"pattern": "iteration", "iteration": self.iteration, "time_in": total})

    def refused(self, refusal: Refusal) -> None:
        """A match was refused."""
        self._exits[refusal.pattern, refusal.exit_point] += 1

    def _exit(self, pattern: str) -> str:
        mine = [(count, point) for (name, point), count in self._exits.items() if name == pattern]
        return max(mine)[1] if mine else ""
