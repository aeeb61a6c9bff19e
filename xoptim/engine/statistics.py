"""Counts and times, as rows for ``pandas.DataFrame``."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

from xoptim.engine.events import Event, EventKind

_NOTHING = {"instances": 0, "match_index": 0, "tried": 0, "added": 0, "removed": 0, "exit_point": ""}
"""All rows have the same columns, so that sums and maxima can always be computed."""


class Statistics:
    """Listens to the events of an optimization and records rows of statistics.

    Each row is a dictionary with ``pattern`` (``match_NAME``, ``apply_NAME``, or a step such as ``constant_folding``),
    ``iteration``, ``time_in`` (seconds), ``instances``, ``match_index``, ``tried`` (nodes), ``added``, ``removed`` (0 where
    they do not apply), and ``exit_point`` (the condition that refused most matches; empty unless refusals are events).
    """

    kinds: ClassVar[tuple[EventKind, ...]] = ("timed", "tried", "refused", "applied")

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._exits: Counter[tuple[str, str]] = Counter()

    def __call__(self, event: Event) -> None:
        """Record an event."""
        name = event.pattern
        if event.kind == "timed":
            self._row(name, event, removed=event.count)
        elif event.kind == "tried":
            self._row(f"match_{name}", event, instances=event.count, tried=event.tried, exit_point=self._exit(name))
        elif event.kind == "refused" and event.refusal is not None:
            self._exits[name, event.refusal.exit_point] += 1
        elif event.kind == "applied" and event.application is not None:
            number, added, removed = event.application.number, len(event.added), len(event.removed)
            self._row(f"apply_{name}", event, instances=event.count, match_index=number, added=added, removed=removed)

    def _row(self, name: str, event: Event, **known: Any) -> None:
        row = {"pattern": name, "iteration": event.iteration, "time_in": event.seconds, **_NOTHING, **known}
        self.rows.append(row)

    def _exit(self, pattern: str) -> str:
        mine = [(count, point) for (name, point), count in self._exits.items() if name == pattern]
        return max(mine)[1] if mine else ""
