"""The events of an optimization, as one stream for the log, statistics, dumps and progress bars."""

import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from xoptim.graph.graph import Graph
from xoptim.graph.node import Node
from xoptim.match.refusal import Refusal
from xoptim.match.rewrite import Rewrite

logger = logging.getLogger("xoptim")
EventKind = Literal["round", "tried", "matched", "refused", "applied", "dropped", "cleaned", "folded", "timed", "failed"]
_MEASUREMENTS = ("tried", "timed")
"""Measurements of time: these kinds are not logged, and sent only to listeners that name them."""


@dataclass(frozen=True, slots=True)
class Application:
    """A match that was applied. The graph is in the state right after it, before cleaning."""

    number: int  # number of the rewrite in the run, counted from 1
    pattern: Rewrite  # the pattern or the pass
    anchor: Node  # node at which it matched; it may have been removed from the graph
    graph: Graph  # the graph that was rewritten
    matched: tuple[Node, ...]  # all nodes of the match, those that stay included, in order; empty for a pass
    given: tuple[Node, ...]  # the nodes that the pattern returned for them, those that stay included


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
        nodes: number of nodes of the graph at that time.
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
        if self.refusal is not None:
            return f"[xoptim] {self.refusal}"
        if self.kind == "round":
            return f"[xoptim] {self.graph} round {self.iteration}: {self.text}, {self.nodes} nodes"
        at = f" at {self.node.name or self.node.op_type!r}" if self.node is not None else ""
        sizes = f" -{len(self.removed)} +{len(self.added)} nodes" if self.added or self.removed else ""
        return f"[xoptim] {self.kind} {self.pattern}{at}{sizes}{': ' + self.text if self.text else ''}"


class EventStream:
    """Sends events to subscribers, and to the log if the verbosity is high enough."""

    def __init__(self, verbose: int = 0, on_event: Callable[[Event], None] | None = None) -> None:
        self.verbose = verbose
        self.iteration = 0  # number of the round, which is stored in every event
        self._subscribers: dict[EventKind, list[Callable[[Event], None]]] = {kind: [] for kind in get_args(EventKind)}
        if on_event is not None:
            self.subscribe(on_event)
        if verbose > 0:
            show_log()

    def subscribe(self, subscriber: Callable[[Event], None], kinds: Sequence[EventKind] = ()) -> None:
        """Add a subscriber to events of some kinds, or to all but measurements when ``kinds`` is empty."""
        for kind in kinds or (kind for kind in self._subscribers if kind not in _MEASUREMENTS):
            self._subscribers[kind].append(subscriber)

    def send(self, kind: EventKind, pattern: str = "", *, level: int = 2, **details: Any) -> None:
        """Send an event; it is logged when the verbosity is at least ``level``, unless it is a measurement."""
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
    """A listener to events that passes the rewrite of each event to a listener to rewrites."""

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
        """End the program when the reader of its output has closed the pipe."""
        if isinstance(sys.exc_info()[1], BrokenPipeError):
            raise
        super().handleError(record)


def show_log() -> None:
    """Write log records of level INFO to standard output."""
    if not any(isinstance(h, _StandardOutput) for h in logger.handlers):
        handler = _StandardOutput()
        # Warnings are written too, unless the program has handlers of its own.
        handler.addFilter(lambda record: record.levelno == logging.INFO or not logging.root.handlers)
        logger.addHandler(handler)
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)
