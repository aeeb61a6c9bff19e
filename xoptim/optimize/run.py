"""Optimize a model: phases over all its graphs."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from xoptim.facts.errors import BudgetError
from xoptim.graph.graph import Graph
from xoptim.graph.load import collection_paused
from xoptim.graph.model import Model
from xoptim.optimize.cleanup import remove_identities, remove_unused, remove_unused_initializers
from xoptim.optimize.engine import Engine
from xoptim.optimize.events import EventStream, show_log
from xoptim.optimize.fold import Folder
from xoptim.optimize.merge import merge_initializers, merge_nodes
from xoptim.optimize.options import OptimizationOptions
from xoptim.optimize.statistics import Statistics
from xoptim.optimize.worklist import Worklist

PASSES = 8
"""Most alternations of rewriting with folding and merging; a handful is enough for anything seen."""


class Optimizer:
    """Optimizes a model in place.

    Args:
        model: the model.
        options: what to do.
    """

    def __init__(self, model: Model, options: OptimizationOptions) -> None:
        self.model = model
        self.options = options
        self.patterns = options.selected()
        verbose = max(options.verbose, options.debug.verbose)
        self.events = EventStream(verbose, options.on_event)
        if any(options.verbosity(pattern) > 0 for pattern in self.patterns):
            show_log()
        self.statistics = Statistics()
        self.worklist = Worklist()

    def run(self) -> list[dict[str, Any]]:
        """Optimize; returns the statistics rows.

        Raises:
            BudgetError: when patterns undo each other, or a result that must stay would disappear.
        """
        self.model.listeners.append(self.worklist)
        try:
            with collection_paused():
                for root in (self.model.graph, *(function.body for function in self.model.functions)):
                    self._optimize_tree(root)
        finally:
            self.model.listeners.remove(self.worklist)
        return self.statistics.rows

    def _optimize_tree(self, root: Graph) -> None:
        """Optimize a graph and its subgraphs, inner ones first, until what changes in one of them helps no other any more."""
        for again in range(PASSES):
            bodies = list(root.all_graphs())[:0:-1]
            changed = sum(map(self._optimize, bodies))
            if not again or changed:
                self._optimize(root)
            if not bodies or (again and not changed) or self.options.max_iter >= 0:
                break

    def _optimize(self, graph: Graph) -> int:
        portable = [p for p in self.patterns if p.phase != "target"]
        total = self._clean(graph) + self._fold_and_merge(graph)
        engine = Engine(graph, self.options, self.events, self.statistics, self.worklist)
        for patterns in (portable, self.patterns) if len(portable) < len(self.patterns) else (portable,):
            for _ in range(PASSES):
                changed = engine.run(patterns)
                helped = (self._fold_and_merge(graph) if changed else 0) or engine.confirm()
                total += changed + helped
                if not helped:
                    break
        if self.options.remove_unused:
            self._step("remove_initializers", lambda: remove_unused_initializers(graph))
        self.worklist.clear()
        return total

    def _clean(self, graph: Graph) -> int:
        count = 0
        if self.options.remove_unused:
            count += self._step("remove_unused", lambda: remove_unused(graph))
        if self.options.remove_identity:
            count += self._step("remove_identity", lambda: remove_identities(graph, graph.of_type("Identity")))
        return count

    def _fold_and_merge(self, graph: Graph) -> int:
        count = 0
        if self.options.constant_folding:
            folder = Folder(graph, self.options.fold_limit, self.events)
            count += self._step("constant_folding", folder.run)
            self.statistics.rounding_folds |= folder.rounds
        if self.options.merge:
            count += self._step("merge_initializers", lambda: merge_initializers(graph))
            count += self._step("merge_nodes", lambda: merge_nodes(graph) + graph.sweep())
        return count

    def _step(self, name: str, action: Callable[[], int]) -> int:
        kept = self.options.debug.keep
        graphs = [g for g in self.model.graphs() if g.defines(kept)] if kept else []
        start = perf_counter()
        count = action()
        self.statistics.step(name, perf_counter() - start, count)
        if count:
            self.events.send("cleaned", name, text=f"{count} removed", level=10)
        if graphs and not any(g.defines(kept) for g in graphs):
            raise BudgetError(f"PATTERNNOREMOVE: step {name} removes result {kept!r}")
        return count
