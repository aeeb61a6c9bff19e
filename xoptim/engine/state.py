"""The state of the optimization of a model, and its worklist: the nodes to match again."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from xoptim.engine.events import Application, Budgets, EventStream, Guard, for_applications
from xoptim.engine.index import defect_of
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import PatternError, XoptimError
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.lines import line_of_mistake
from xoptim.match.pattern import MatchResult, PatternOptimization
from xoptim.match.quantization import first_result
from xoptim.match.refusal import Refusal, listening
from xoptim.match.rewrite import Rewrite
from xoptim.passes.cleanup import remove_identities

_MAX_CONSUMERS = 32
"""If a result has more consumers than this, the consumers do not count as near its producer: only
`Engine.confirm` offers them again.
"""


class Worklist:
    """Listens to the changes of a model and records the nodes concerned."""

    def __init__(self) -> None:
        self._changed: dict[Node, None] = {}
        self.identities: list[Node] = []

    def inserted(self, node: Node) -> None:
        """A node was added."""
        self._changed[node] = None
        if node.op_type == "Identity":
            self.identities.append(node)

    def removed(self, node: Node) -> None:
        """A node was taken out."""
        self._changed.pop(node, None)

    def touched(self, node: Node) -> None:
        """The inputs of a node, or the readers of its results, changed."""
        self._changed[node] = None

    def add(self, nodes: Iterable[Node]) -> None:
        """Add nodes to match again."""
        self._changed.update(dict.fromkeys(nodes))

    def graphs(self) -> list[Graph]:
        """The graphs of the model with changed nodes, subgraphs before the graph that contains
        them.
        """
        depths = {
            graph: _depth(graph)
            for graph in dict.fromkeys(node.graph for node in self._changed)
            if graph is not None
        }
        return sorted(
            (graph for graph, depth in depths.items() if depth >= 0),
            key=lambda graph: -depths[graph],
        )

    def clear(self) -> None:
        """Remove all nodes."""
        self._changed.clear()

    def take(self, graph: Graph, reach: int) -> dict[Node, int]:
        """Remove and return the changed nodes of a graph; also return the nodes up to ``reach``
        steps away. Each comes with its distance.
        """
        changes = [node for node in self._changed if node.graph is graph]
        for node in changes:
            del self._changed[node]
        distances = dict.fromkeys(changes, 0)
        frontier = changes
        for distance in range(1, reach + 1):
            neighbours: list[Node] = []
            for node in frontier:
                for neighbour in _neighbours(graph, node):
                    if neighbour not in distances:
                        distances[neighbour] = distance
                        neighbours.append(neighbour)
            if not neighbours:
                break
            frontier = neighbours
        return dict(sorted(distances.items(), key=lambda item: item[0].label))


def _neighbours(graph: Graph, node: Node) -> list[Node]:
    near = list(filter(None, map(graph.producer, node.input)))
    for name in node.output:
        consumers = graph.consumers(name)
        if len(consumers) <= _MAX_CONSUMERS:
            near += consumers
    return near


def _depth(graph: Graph) -> int:
    """The number of nodes around a graph; -1 when one of these is no longer in the model."""
    depth = 0
    while graph.owner is not None:
        if graph.owner.graph is None:
            return -1
        graph, depth = graph.owner.graph, depth + 1
    return depth


logger = logging.getLogger("xoptim")
EXPLAINED = 10
"""Verbosity from which a pattern is logged in full."""


class State:
    """The options of an optimization, its progress, and its stream of events."""

    def __init__(self, model: Model, options: OptimizationOptions) -> None:
        self.options = options
        self.worklist = Worklist()  # the nodes near a change
        # names of the rewrites that raised an exception; they are not tried again
        self.failed: set[str] = set()
        self._warnings: set[str] = set()  # names of the rewrites with invalid replacements
        self.rewrites = 0  # number of rewrites so far
        self.counts: Counter[str] = Counter()  # number of rewrites by pattern
        self.events = EventStream(max(options.verbose, options.debug.verbose), options.on_event)
        self.events.subscribe(Budgets(), Budgets.kinds)
        if options.debug.keep:
            self.events.subscribe(Guard(model, options.debug.keep), Guard.kinds)
        if options.on_application is not None:
            self.events.subscribe(for_applications(options.on_application), ("applied",))

    def may_apply(self, match: MatchResult) -> bool:
        """Whether the options ``lower_at`` and ``skip_at`` allow a match."""
        lower_at, results = self.options.lower_at, self.options.skip_at.get(match.pattern.name())
        if results and match.anchor is not None and first_result(match.anchor) in results:
            return False
        if not lower_at or match.pattern.name() not in lower_at:
            return True
        names = lower_at[match.pattern.name()]
        return any(node is not None and node.name in names for node in match.nodes)

    @property
    def is_exhausted(self) -> bool:
        """Whether the maximal number of rewrites is reached."""
        return 0 <= self.options.max_rewrites <= self.rewrites

    def is_usable(self, rewrite: Rewrite, opset: int) -> bool:
        """Whether operator set and provider fit a rewrite that has not failed.

        Raises `PatternError` when the description of the rewrite is invalid.
        """
        if rewrite.unfit_for(opset, self.options.provider_for(rewrite)) or (
            self.failed and rewrite.name() in self.failed
        ):
            return False
        error = defect_of(rewrite) if isinstance(rewrite, PatternOptimization) else None
        if isinstance(error, PatternError):
            raise error
        if error is not None:
            self.fail(rewrite, None, error)
        return error is None

    def clean(self, graphs: Iterable[Graph]) -> None:
        """Remove the new Identity nodes, and unused nodes of some graphs."""
        identities, self.worklist.identities = self.worklist.identities, []
        if self.options.remove_identity:
            remove_identities(identities)
        if self.options.remove_unused:
            for graph in graphs:
                graph.sweep()

    def level(self, rewrite: Rewrite) -> int:
        """The verbosity from which events about a rewrite are logged: 0 for one logged in full."""
        return 0 if self.options.verbosity(rewrite) >= EXPLAINED else EXPLAINED

    def refusals(self, pattern: PatternOptimization) -> AbstractContextManager[None]:
        """Send the refusals of a pattern as events within a block, if it is logged in full."""
        return listening(self._refused if self.options.verbosity(pattern) >= EXPLAINED else None)

    def _refused(self, refusal: Refusal) -> None:
        self.events.send(
            "refused",
            refusal.pattern,
            node=refusal.node,
            text=refusal.reason,
            refusal=refusal,
            level=0,
        )

    def applied(
        self,
        application: Application,
        added: Sequence[Node],
        removed: Sequence[Node],
        seconds: float,
        count: int = 1,
    ) -> None:
        """Count a rewrite, as ``count`` rewrites of its pattern, and send it as an event."""
        pattern = application.pattern
        self.rewrites += 1
        self.counts[pattern.name()] += count
        self.events.send(
            "applied",
            pattern.name(),
            level=self.level(pattern),
            graph=application.graph.name,
            node=application.anchor,
            added=added,
            removed=removed,
            text="" if application.matched else f"{count} rewrites",
            seconds=seconds,
            count=count,
            application=application,
        )

    def fail(self, rewrite: Rewrite, node: Node | None, error: Exception) -> None:
        """Skip a rewrite from now on, with one warning.

        Raises `XoptimError` when the options are strict.
        """
        where = "" if node is None else f" at {node.name or node.op_type!r}"
        line = line_of_mistake(error, type(rewrite))
        kind = "pattern" if isinstance(rewrite, PatternOptimization) else "pass"
        text = (
            f"{kind} {rewrite.name()} failed{where}: {type(error).__name__}: "
            f"{error}{f' ({line})' if line else ''}"
        )
        self.failed.add(rewrite.name())
        if self.options.strict:
            raise XoptimError(text) from error
        logger.warning("%s; it is skipped from now on", text)
        self.events.send("failed", rewrite.name(), node=node, text=str(error))

    def warn_of_mistake(self, rewrite: Rewrite, node: Node, error: Exception) -> None:
        """Warn, once per rewrite, of an invalid replacement; the graph is unchanged.

        Raises `XoptimError` when the options are strict.
        """
        line = line_of_mistake(error, type(rewrite))
        text = (
            f"pattern {rewrite.name()} at {node.name or node.op_type!r}: "
            f"{error}{f' ({line})' if line else ''}"
        )
        if self.options.strict:
            raise XoptimError(text) from error
        if rewrite.name() not in self._warnings:
            self._warnings.add(rewrite.name())
            logger.warning("%s; it is not applied there", text)
