"""Optimize a model: phases over all its graphs."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

from xoptim.facts.dtypes import Exactness
from xoptim.graph.graph import Graph
from xoptim.graph.load import collection_paused
from xoptim.graph.model import Model
from xoptim.match.pattern import PatternOptimization
from xoptim.match.whole_graph import PHASE_POSITIONS, GlobalRewriter
from xoptim.optimize.cleanup import remove_identities, remove_unused, remove_unused_initializers
from xoptim.optimize.engine import Engine
from xoptim.optimize.events import show_log
from xoptim.optimize.fold import Folder
from xoptim.optimize.merge import merge_initializers, merge_nodes
from xoptim.optimize.navigate import weakest_of
from xoptim.optimize.options import OptimizationOptions
from xoptim.optimize.products import rounds_elsewhere, stored_operands
from xoptim.optimize.rewriters import Rewriting
from xoptim.optimize.state import State
from xoptim.optimize.statistics import Statistics

PASSES = 8
"""Most alternations of rewriting with folding and merging; a handful is enough for anything seen."""
Stage = tuple[float, float, list[PatternOptimization]]
"""Rewriters of whole models with a position above the first number, up to the second one, come before these patterns."""


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
        self.state = State(model, options)
        self.statistics = Statistics()
        self.state.events.subscribe(self.statistics, Statistics.kinds)
        if any(options.verbosity(pattern) > 0 for pattern in self.patterns):
            show_log()
        self._products = stored_operands(model)
        self._builder: Any = None
        self._local = [p for p in self.patterns if not isinstance(p, GlobalRewriter)]
        rewriters = [p for p in self.patterns if isinstance(p, GlobalRewriter)]
        self._rewriting = Rewriting(rewriters, self.state)
        self._rounding_folds = False

    def run(self, builder: Any = None) -> list[dict[str, Any]]:
        """Optimize; returns the statistics rows.

        Args:
            builder: the `xoptim.GraphBuilder` that holds the model, for rewriters of whole models.

        Raises:
            BudgetError: when patterns undo each other, or a result that must stay would disappear.
            TypeError: when there are rewriters of whole models and no builder.
        """
        if builder is None and self._rewriting.rewriters:
            raise TypeError(f"{self._rewriting.rewriters[0].name()} rewrites whole models and needs a builder")
        self._builder = builder
        self.model.listeners.append(self.state.worklist)
        try:
            with collection_paused():
                for root in (self.model.graph, *(function.body for function in self.model.functions)):
                    self._optimize_tree(root)
        finally:
            self.model.listeners.remove(self.state.worklist)
            self._builder = None
        return self.statistics.rows

    def grades(self) -> list[Exactness]:
        """Exactness of each pattern that was applied; ``rounding`` too when the runtime adds up in another order now."""
        found = weakest_of(self.patterns, self.state.counts)
        if self._rounding_folds or rounds_elsewhere(self._products, stored_operands(self.model)):
            found.append("rounding")
        return found

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
        """Optimize one graph; rewriters of whole models take part when it is the main graph, again as long as they help."""
        total = self._clean(graph) + self._fold_and_merge(graph)
        engine = Engine(graph, self.state)
        is_main = bool(self._rewriting.rewriters) and graph is self.model.graph
        stages = self._stages(is_main)
        for _ in range(PASSES):
            changed = 0
            for after, upto, patterns in stages:
                changed += self._rewrite(graph, after, upto) if is_main else 0
                changed += self._to_fixed_point(graph, engine, patterns)
            changed += self._rewrite(graph, stages[-1][1], math.inf) if is_main else 0
            total += changed
            if not (changed and is_main) or self.options.max_iter >= 0:
                break
        if self.options.remove_unused:
            self._step("remove_initializers", lambda: remove_unused_initializers(graph))
        self.state.worklist.clear()
        return total

    def _stages(self, is_main: bool) -> list[Stage]:
        """The patterns that are active at a time; phases are told apart where something comes between them."""
        stages: list[Stage] = []
        active: list[PatternOptimization] = []
        after = -math.inf
        for phase, position in PHASE_POSITIONS.items():
            mine = [p for p in self._local if p.phase == phase]
            active = [*active, *mine]
            between = is_main and any(after < r.position <= position for r in self._rewriting.rewriters)
            if not stages or between or (phase == "target" and mine):
                stages.append((after, position, active))
            else:
                stages[-1] = (stages[-1][0], position, active)
            after = position
        return stages

    def _to_fixed_point(self, graph: Graph, engine: Engine, patterns: list[PatternOptimization]) -> int:
        total = confirmed = 0
        for _ in range(PASSES):
            changed = engine.run(patterns)
            merged = self._fold_and_merge(graph) if changed or confirmed else 0
            confirmed = 0 if merged else engine.confirm()
            total += changed + merged + confirmed
            if not (merged or confirmed):
                break
        return total

    def _rewrite(self, graph: Graph, after: float, upto: float) -> int:
        """Run the rewriters of whole models at their place."""
        changed = self._rewriting.run(self._builder, after, upto)
        if changed:
            self._fold_and_merge(graph)
        return changed

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
            folder = Folder(graph, self.options.fold_limit, self.state.events)
            count += self._step("constant_folding", folder.run)
            self._rounding_folds |= folder.rounds
        if self.options.merge:
            count += self._step("merge_initializers", lambda: merge_initializers(graph))
            count += self._step("merge_nodes", lambda: merge_nodes(graph) + graph.sweep())
        return count

    def _step(self, name: str, action: Callable[[], int]) -> int:
        events, start = self.state.events, perf_counter()
        count = action()
        seconds = perf_counter() - start
        if count:
            events.send("cleaned", name, text=f"{count} removed", level=10)
        events.send("timed", name, seconds=seconds, count=count)
        return count
