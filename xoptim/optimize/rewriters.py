"""Run rewriters of whole models, each at its place between the phases."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeAlias

from xoptim.facts.errors import BudgetError, XoptimError
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.match.whole_graph import Changes, GlobalRewriter, watching
from xoptim.optimize.application import Application
from xoptim.optimize.cleanup import remove_identities
from xoptim.optimize.engine import Engine
from xoptim.optimize.events import EventStream
from xoptim.optimize.navigate import Navigator
from xoptim.optimize.options import OptimizationOptions
from xoptim.optimize.provenance import TAG
from xoptim.optimize.statistics import Statistics
from xoptim.optimize.worklist import Worklist

logger = logging.getLogger("xoptim")
EngineOf: TypeAlias = Callable[[Graph], Engine]


class Rewriting:
    """Rewriters of whole models, and what they need to run.

    Args:
        rewriters: the rewriters.
        options: what to do.
        events: told of everything.
        statistics: counts and times.
        worklist: what changed.
    """

    def __init__(
        self,
        rewriters: Sequence[GlobalRewriter],
        options: OptimizationOptions,
        events: EventStream,
        statistics: Statistics,
        worklist: Worklist,
    ) -> None:
        self.rewriters = sorted(rewriters, key=lambda rewriter: rewriter.position)
        self.options = options
        self.events = events
        self.statistics = statistics
        self.worklist = worklist

    def run(self, builder: Any, engine_of: EngineOf, after: float, upto: float) -> int:
        """Run the rewriters whose position is larger than ``after`` and no larger than ``upto``, in order.

        Args:
            builder: the `xoptim.GraphBuilder` that holds the model.
            engine_of: gives what applies patterns in a graph.
            after: positions.
            upto: positions.

        Returns:
            Number of rewriters that changed anything.
        """
        opset = builder.model.opsets.get("", 0)
        return sum(
            self._run(rewriter, builder, engine_of)
            for rewriter in self.rewriters
            if after < rewriter.position <= upto
            and rewriter.is_for(opset)
            and rewriter.name() not in self.statistics.failed
            and not 0 <= self.options.max_rewrites <= self.statistics.rewrites
        )

    def _run(self, rewriter: GlobalRewriter, builder: Any, engine_of: EngineOf) -> bool:
        model: Model = builder.model
        kept = self.options.debug.keep
        had = bool(kept) and any(graph.defines(kept) for graph in model.graphs())
        start = perf_counter()
        count = 0
        with watching(model) as changes:
            try:
                if isinstance(rewriter, Navigator):
                    rewriter.walk(model, engine_of)
                else:
                    count = rewriter.rewrite(builder)
            except (BudgetError, BrokenPipeError, MemoryError):
                raise
            except Exception as error:
                self._fail(rewriter, error)
            if changes.count:
                self._clean(model)
        self._record(rewriter, changes, max(count, 1), perf_counter() - start, model.graph)
        if had and not any(graph.defines(kept) for graph in model.graphs()):
            raise BudgetError(f"PATTERNNOREMOVE: pattern {rewriter.name()} removes result {kept!r}")
        return changes.count > 0

    def _clean(self, model: Model) -> None:
        """Remove what has become superfluous, in all graphs."""
        identities, self.worklist.identities = self.worklist.identities, []
        for graph in list(model.graphs()):
            if self.options.remove_identity:
                remove_identities(graph, identities)
            if self.options.remove_unused:
                graph.sweep()

    def _record(self, rewriter: GlobalRewriter, changes: Changes, count: int, seconds: float, graph: Graph) -> None:
        name = rewriter.name()
        if isinstance(rewriter, Navigator):  # what its patterns did has been recorded
            self.statistics.step(name, seconds)
            return
        if changes.first is None:
            self.statistics.matching(rewriter, seconds, 0, 1)
            return
        added, removed = changes.added_nodes, changes.removed_nodes
        if self.options.tag_nodes:
            for node in added:
                node.metadata = {TAG: name, **(node.metadata or {})}
        self.statistics.rewrote(rewriter, seconds, count, len(added), len(removed))
        level = 0 if self.options.verbosity(rewriter) >= 10 else 10
        self.events.send("applied", name, graph=graph.name, text=f"{count} rewrites", added=added, removed=removed, level=level)
        if self.options.on_application is not None:
            # All is one rewrite, of no region that could be run by itself.
            self.options.on_application(Application(self.statistics.rewrites, rewriter, changes.first, graph, (), ()))

    def _fail(self, rewriter: GlobalRewriter, error: Exception) -> None:
        text = f"rewriter {rewriter.name()} failed: {type(error).__name__}: {error}"
        self.statistics.failed.add(rewriter.name())
        if self.options.strict:
            raise XoptimError(text) from error
        logger.warning("%s; it is skipped from now on", text)
        self.events.send("failed", rewriter.name(), text=str(error))
