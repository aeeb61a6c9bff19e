"""Errors for optimizations that would not end: patterns that undo each other, growing graphs, too many rounds."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from xoptim.engine.events import Event, EventKind
from xoptim.facts.errors import BudgetError
from xoptim.graph.graph import Graph

REWRITES_PER_RESULT = 40
"""Number of times that the producer of a result may be replaced by no fewer nodes; beyond it, patterns undo each other."""
GROWTH = 10
"""A graph with this many times its first number of nodes plus a thousand is taken to grow without end."""
ROUNDS_PER_NODE = 40
"""Rounds that a graph may take for each of its nodes and a hundred more: a bound for all other endless loops."""


class Budgets:
    """Listens to the events of an optimization.

    Raises:
        BudgetError: when the optimization would not end; the message names patterns.
    """

    kinds: ClassVar[tuple[EventKind, ...]] = ("applied", "round")

    def __init__(self) -> None:
        self._rewritten: Counter[tuple[Graph, str]] = Counter()
        self._last: dict[tuple[Graph, str], str] = {}
        self._rounds: Counter[Graph] = Counter()
        self._sizes: dict[Graph, int] = {}
        self._counts: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if event.kind == "applied":
            self._count_results(event)
        elif event.kind == "round" and event.source is not None:
            self._count_round(event.source, event.nodes)

    def _count_results(self, event: Event) -> None:
        name, application = event.pattern, event.application
        self._counts[name] += 1
        if application is None or not application.given:
            return
        for result in [(application.graph, output) for node in event.added for output in node.output if output]:
            other, self._last[result] = self._last.get(result, name), name
            if len(event.added) >= len(event.removed):
                self._rewritten[result] += 1
                if self._rewritten[result] > REWRITES_PER_RESULT:
                    if other == name:
                        raise BudgetError(f"pattern {name} keeps rewriting {result[1]!r}; leave it out (--drop {name})")
                    who = f"patterns {other} and {name} keep"
                    raise BudgetError(f"{who} rewriting {result[1]!r} in turn; leave one of them out (--drop {name})")

    def _count_round(self, graph: Graph, nodes: int) -> None:
        self._rounds[graph] += 1
        rounds, first = self._rounds[graph], self._sizes.setdefault(graph, nodes)
        if nodes > GROWTH * (first + 1000) or rounds > ROUNDS_PER_NODE * (first + 100):
            busiest = max(self._counts, key=lambda name: self._counts[name], default="some patterns")
            raise BudgetError(f"no end after {rounds} rounds and {nodes} nodes; try without {busiest} (--drop)")
