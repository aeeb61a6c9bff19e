"""The events of an optimization, and listeners: log, statistics, limits, ``PATTERNNOREMOVE``."""

import logging
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

from xoptim.facts.advice import Advice
from xoptim.facts.errors import BudgetError
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.refusal import Refusal
from xoptim.match.rewrite import Rewrite

logger = logging.getLogger("xoptim")
EventKind = Literal[
    "round",
    "tried",
    "matched",
    "refused",
    "applied",
    "dropped",
    "cleaned",
    "folded",
    "starting",
    "timed",
    "failed",
]
_MEASUREMENTS = ("tried", "starting", "timed")
"""Measurements, and the beginnings of passes.

These kinds are not logged, and sent only to listeners that name them.
"""


@dataclass(frozen=True, slots=True)
class Application:
    """A match that was applied. The graph is in the state right after it, before cleaning."""

    number: int  # number of the rewrite in the run, counted from 1
    pattern: Rewrite  # the pattern or the pass
    anchor: Node  # node at which it matched; it may have been removed from the graph
    graph: Graph  # the graph that was rewritten
    # all nodes of the match, those that stay included, in order; empty for a pass
    matched: tuple[Node, ...]
    # the nodes that the pattern returned, those that stay included; empty for a pass
    given: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        kind: the kind of event.
        pattern: name of the pattern, or of the step.
        graph: name of the graph.
        iteration: number of the round.
        node: the node concerned.
        added: nodes that were added.
        removed: nodes that were removed.
        text: reason or remark.
        nodes: number of nodes of the graph.
        seconds: duration.
        count: number of matches or rewrites, or number of nodes that a step removed.
        tried: number of nodes at which a pattern was tried.
        source: the graph itself.
        application: the rewrite that was applied.
        refusal: the condition that failed.
    """

    kind: EventKind
    pattern: str = ""
    graph: str = ""
    iteration: int = 0
    node: Node | None = None
    added: Sequence[Node] = ()
    removed: Sequence[Node] = ()
    text: str = ""
    nodes: int = 0
    seconds: float = 0.0
    count: int = 0
    tried: int = 0
    source: Graph | None = None
    application: Application | None = None
    refusal: Refusal | None = None

    def __str__(self) -> str:
        return f"[xoptim] {self._text()}".replace("\n", "\\n")  # names may hold line breaks

    def _text(self) -> str:
        if self.refusal is not None:
            return str(self.refusal)
        if self.kind == "round":
            return f"{self.graph} round {self.iteration}: {self.text}, {self.nodes} nodes"
        at = f" at {self.node.name or self.node.op_type!r}" if self.node is not None else ""
        delta = (
            f" -{len(self.removed)} +{len(self.added)} nodes" if self.added or self.removed else ""
        )
        return f"{self.kind} {self.pattern}{at}{delta}{': ' + self.text if self.text else ''}"


class EventStream:
    """Sends events to subscribers, and to the log if the verbosity is high enough."""

    def __init__(self, verbose: int = 0, on_event: Callable[[Event], None] | None = None) -> None:
        self.verbose = verbose
        self.iteration = 0  # number of the round, which is stored in every event
        self._subscribers: dict[EventKind, list[Callable[[Event], None]]] = {
            kind: [] for kind in get_args(EventKind)
        }
        if on_event is not None:
            self.subscribe(on_event)
        if verbose > 0:
            show_log()

    def subscribe(
        self, subscriber: Callable[[Event], None], kinds: Sequence[EventKind] = ()
    ) -> None:
        """Add a subscriber to events of some kinds, or to all but measurements when ``kinds`` is
        empty.
        """
        for kind in kinds or (kind for kind in self._subscribers if kind not in _MEASUREMENTS):
            self._subscribers[kind].append(subscriber)

    def send(self, kind: EventKind, pattern: str = "", *, level: int = 2, **details: Any) -> None:
        """Send an event, which is logged when the verbosity is at least ``level``, unless it is a
        measurement.
        """
        is_logged = self.verbose >= level and kind not in _MEASUREMENTS
        subscribers = self._subscribers[kind]
        if not is_logged and not subscribers:
            return
        event = Event(kind, pattern, iteration=self.iteration, **details)
        if is_logged:
            logger.info("%s", event)
        for subscriber in subscribers:
            subscriber(event)


def for_applications(listener: Callable[[Application], None]) -> Callable[[Event], None]:
    """A listener to events that passes their applications to ``listener``."""

    def listen(event: Event) -> None:
        if event.application is not None:
            listener(event.application)

    return listen


class _StandardOutput(logging.StreamHandler[Any]):
    """Writes to the current ``sys.stdout`` (it may be captured or redirected)."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stdout
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        """Raise BrokenPipeError when the reader of the output has closed the pipe."""
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            raise
        super().handleError(record)


def show_log() -> None:
    """Write log records of level INFO to standard output."""
    if not any(isinstance(h, _StandardOutput) for h in logger.handlers):
        handler = _StandardOutput()
        # Warnings are written too, unless the program has handlers of its own.
        handler.addFilter(
            lambda record: record.levelno == logging.INFO or not logging.root.handlers
        )
        logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)


REWRITES_PER_RESULT = 40
"""Maximal number of rewrites that replace the producer of a result by as many nodes or more.

After more of them, patterns are assumed to undo each other.
"""
GROWTH = 10
"""A graph with more than this many times (initial nodes + 1000) is assumed to grow forever."""
ROUNDS_PER_NODE = 40
"""Maximal number of rounds of a graph per (initial nodes + 100): ends all other loops."""
_ACTORS: dict[EventKind, str] = {"applied": "pattern {}", "round": "cleaning", "timed": "step {}"}
"""The words for the cause of a change, by the kind of event that follows the change."""
_EMPTY_COLUMNS = {
    "instances": 0,
    "match_index": 0,
    "tried": 0,
    "added": 0,
    "removed": 0,
    "exit_point": "",
}
"""Defaults of columns: all rows have all columns, so that rows can be summed."""


class Statistics:
    """Listens to the events of an optimization and records rows of statistics.

    Each row is a dictionary with ``pattern`` (``match_NAME``, ``apply_NAME``, or a step such as
    ``constant_folding``), ``iteration``, ``time_in`` (seconds), ``instances``, ``match_index`` (the
    number of the rewrite in the run), ``tried`` (nodes), ``added``, ``removed`` (0 where they do
    not apply), and ``exit_point`` (the condition that refused most matches; empty unless refusals
    are events).
    """

    kinds: ClassVar[tuple[EventKind, ...]] = ("timed", "tried", "refused", "applied", "round")

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self._exits: Counter[tuple[str, str]] = Counter()
        self._rewriting: defaultdict[int, float] = defaultdict(float)
        """Seconds of the rewrites of each round, by its number."""

    def __call__(self, event: Event) -> None:
        """Record an event."""
        name = event.pattern
        if event.kind == "timed":
            self._row(name, event, removed=event.count)
        elif event.kind == "tried":
            self._row(
                f"match_{name}",
                event,
                instances=event.count,
                tried=event.tried,
                exit_point=self._exit(name),
            )
        elif event.kind == "refused" and event.refusal is not None:
            self._exits[name, event.refusal.exit_point] += 1
        elif event.kind == "applied" and event.application is not None:
            self._rewriting[event.iteration] += event.seconds
            number, added, removed = event.application.number, len(event.added), len(event.removed)
            self._row(
                f"apply_{name}",
                event,
                instances=event.count,
                match_index=number,
                added=added,
                removed=removed,
            )
        elif event.kind == "round":
            self._row("iteration", event)
            self._row(
                "insert_and_remove_nodes", replace(event, seconds=self._rewriting[event.iteration])
            )

    def _row(self, name: str, event: Event, **columns: Any) -> None:
        self.rows.append(
            {
                "pattern": name,
                "iteration": event.iteration,
                "time_in": event.seconds,
                **_EMPTY_COLUMNS,
                **columns,
            }
        )

    def _exit(self, pattern: str) -> str:
        exits = [(count, point) for (name, point), count in self._exits.items() if name == pattern]
        return max(exits)[1] if exits else ""


class Budgets:
    """Raises `BudgetError`, which names patterns, when an optimization would not end."""

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
        for result in [
            (application.graph, output) for node in event.added for output in node.output if output
        ]:
            previous, self._last[result] = self._last.get(result, name), name
            if len(event.added) >= len(event.removed):
                self._rewritten[result] += 1
                if self._rewritten[result] > REWRITES_PER_RESULT:
                    if previous == name:
                        raise BudgetError(
                            f"pattern {name} keeps rewriting {result[1]!r}; drop it "
                            f"({Advice('drop', name)})"
                        )
                    pair = f"patterns {previous} and {name} keep"
                    raise BudgetError(
                        f"{pair} rewriting {result[1]!r} in turn; drop one of them "
                        f"({Advice('drop', name)})"
                    )

    def _count_round(self, graph: Graph, nodes: int) -> None:
        self._rounds[graph] += 1
        rounds, first = self._rounds[graph], self._sizes.setdefault(graph, nodes)
        if nodes > GROWTH * (first + 1000) or rounds > ROUNDS_PER_NODE * (first + 100):
            busiest = max(
                self._counts, key=lambda name: self._counts[name], default="some patterns"
            )
            raise BudgetError(
                f"no end after {rounds} rounds and {nodes} nodes; try without {busiest} "
                f"({Advice('drop')})"
            )


class Guard:
    """Raises `BudgetError` when no graph defines the named result any longer."""

    kinds: ClassVar[tuple[EventKind, ...]] = tuple(_ACTORS)

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._name = name
        self._was_there = self._is_there()

    def __call__(self, event: Event) -> None:
        """Check that the result still exists, after an event that may have removed it."""
        is_there = self._is_there()
        if self._was_there and not is_there:
            raise BudgetError(
                f"PATTERNNOREMOVE: {_ACTORS[event.kind].format(event.pattern)} removes result "
                f"{self._name!r}"
            )
        self._was_there = is_there

    def _is_there(self) -> bool:
        return any(graph.defines(self._name) for graph in self._model.graphs())
