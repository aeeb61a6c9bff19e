"""Optimize a model: run the phases on all its graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

from xoptim.blocks.outlining import outline
from xoptim.blocks.repetition import Repetition
from xoptim.engine.cleanup import drop_unused_inputs, unused_inputs
from xoptim.engine.engine import Engine
from xoptim.engine.events import show_log
from xoptim.engine.growth import Unfolded
from xoptim.engine.navigate import grades_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.passes import (
    DropUnreadResults,
    FoldConstants,
    GraphPass,
    MergeInitializers,
    MergeNodes,
    RemoveIdentities,
    RemoveInitializers,
    RemoveUnused,
    roots,
)
from xoptim.engine.products import Operands, rounds_elsewhere, stored_operands
from xoptim.engine.room import growth_of, note_growth
from xoptim.engine.selected import SelectedPass, selected_pass
from xoptim.engine.state import State
from xoptim.engine.statistics import Statistics
from xoptim.facts.dtypes import Exactness
from xoptim.graph.graph import Graph
from xoptim.graph.load import check_imports, collection_paused
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.graph.propagate import refresh
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import PHASES, ModelPass, Rewrite
from xoptim.opsets.newest import newest_for
from xoptim.opsets.raising import raise_model

ALTERNATIONS = 8
"""Maximal number of alternations of rewriting with folding and merging; no known model needs more than a few."""
_TOGETHER = ("canonicalize", "specialize")
"""Phases whose patterns reach a common fixed point, unless a pass runs between them."""


class Stage(NamedTuple):
    """Passes, and the patterns that are active after them: those of their phase and of all earlier ones."""

    passes: list[SelectedPass]
    patterns: list[PatternOptimization]


class Optimizer:
    """Optimizes a model in place.

    Args:
        model: the model.
        options: the options.

    Attributes:
        repetitions: the blocks that were written once, or could not be.
        dropped_inputs: the inputs that were removed because nothing reads them.
    """

    def __init__(self, model: Model, options: OptimizationOptions) -> None:
        self.model = model
        self.options = options
        self.rewrites = options.selected()
        self.state = State(model, options)
        self.statistics = Statistics()
        self.state.events.subscribe(self.statistics, Statistics.kinds)
        if any(True for _ in options.with_verbosity(1, self.rewrites)):
            show_log()
        self.repetitions: list[Repetition] = []
        self.dropped_inputs: list[str] = []
        self._is_raised = False
        self._products = stored_operands(model)
        self._products_after: Mapping[Node, Operands] | None = None
        """The products before blocks are written once: the runtime replaces calls of functions by their bodies."""
        self._folding = FoldConstants(growth_of(model, options.max_growth), self.state.events)
        self._cleaning = self._wanted(
            (RemoveUnused(), options.remove_unused),
            (RemoveIdentities(), options.remove_identity),
        )
        self._settling = self._wanted(
            (DropUnreadResults(), options.remove_unused),
            (self._folding, options.constant_folding),
            (MergeInitializers(), options.merge),
        )
        self._merging = self._wanted((MergeNodes(), options.merge))
        self._closing = self._wanted((RemoveInitializers(), options.remove_unused))
        self._stages = self._staged(with_passes=True)

    @staticmethod
    def _wanted(*passes: tuple[GraphPass, bool]) -> list[GraphPass]:
        return [each for each, is_wanted in passes if is_wanted]

    def run(self) -> list[dict[str, Any]]:
        """Optimize the model; returns the rows of statistics.

        Raises:
            ModelError: when the model cannot be raised to the operator set of the options, or has standard operators without
                importing a version of them.
            BudgetError: when patterns undo each other, or remove a result that must stay (``PATTERNNOREMOVE``).
        """
        check_imports(self.model)
        self._raise()
        self.model.listeners.append(self.state.worklist)
        try:
            with collection_paused():
                for root in roots(self.model):
                    self._optimize_tree(root)
        finally:
            self.model.listeners.remove(self.state.worklist)
        self._folding.close(self.model)
        if self.options.outline:
            self._outline()
        if self.options.drop_unused_inputs:
            self.dropped_inputs += drop_unused_inputs(self.model.graph)
        note_growth(self.model, self._folding.growth)
        return self.statistics.rows

    def unused_inputs(self) -> list[str]:
        """The inputs that nothing reads now."""
        return unused_inputs(self.model.graph)

    def _outline(self) -> None:
        """Write blocks that repeat once."""
        start = perf_counter()
        self._products_after = stored_operands(self.model)
        with collection_paused():
            self.repetitions += outline(self.model)
        self.state.events.send("timed", "outline", seconds=perf_counter() - start, count=len(self.repetitions))

    def _raise(self) -> None:
        """Raise the model to the operator set of the options."""
        if self.options.opset is not None:
            start, present = perf_counter(), self.model.opsets.get("")
            target = newest_for(self.model, self.options.provider) if self.options.opset == "newest" else self.options.opset
            count = raise_model(self.model, target)
            self._is_raised = self.model.opsets.get("") != present
            self.state.events.send("timed", "raise_operator_set", seconds=perf_counter() - start, count=count)

    def grades(self) -> list[Exactness]:
        """Exactness of each rewrite that was applied; and ``rounding`` when the runtime computes in another order now.

        (It has other kernels for other operator sets, and for products with other operands that are stored.)
        """
        found = grades_of(self.rewrites, self.state.counts)
        after = stored_operands(self.model) if self._products_after is None else self._products_after
        if self._is_raised or self._folding.rounds or rounds_elsewhere(self._products, after):
            found.append("rounding")
        return found

    def unfolded(self) -> Unfolded | None:
        """The nodes that were left unfolded because of the size of their results, ``None`` without any."""
        return self._folding.growth.unfolded()

    def _optimize_tree(self, root: Graph) -> None:
        """Optimize a graph and its subgraphs, inner ones first, until none of them changes."""
        # A change of the root may enable rewrites in its subgraphs; the root is optimized again only if one of these changes.
        for again in range(ALTERNATIONS):
            bodies = list(root.all_graphs())[:0:-1]
            changed = sum(map(self._optimize_body, bodies))
            if not again or changed:
                self._optimize(root)
            if not bodies or (again and not changed) or self.options.max_iter >= 0:
                break

    def _optimize_body(self, body: Graph) -> int:
        """Optimize a subgraph, and infer the results of its owner again: more may be known about them."""
        changed, owner = self._optimize(body), body.owner
        if changed and owner is not None and owner.graph is not None:
            refresh(owner.graph, [owner])
        return changed

    def _optimize(self, graph: Graph) -> int:
        """Optimize one graph: clean it, then run the stages, again as long as selected passes and patterns change it."""
        total = self._apply(self._cleaning, graph) + self._settle(graph)
        engine = Engine(graph, self.state)
        # Passes of the selection work on the whole model, so they run with the main graph.
        stages = self._stages if graph is self.model.graph else self._inner_stages
        first = next((place for place, stage in enumerate(stages) if stage.passes), len(stages))
        for _ in range(ALTERNATIONS):
            changes = [self._run_stage(stage, engine) for stage in stages]
            total += sum(changes)
            # The passes have seen all that earlier stages changed.
            if not any(changes[first:]) or self.options.max_iter >= 0:
                break
        self._apply(self._closing, graph)
        self.state.worklist.clear()
        return total

    @cached_property
    def _inner_stages(self) -> list[Stage]:
        return self._staged(with_passes=False)

    def _staged(self, with_passes: bool) -> list[Stage]:
        """The rewrites of the selection as stages, in the order in which they run."""
        stages: list[Stage] = []
        active: list[PatternOptimization] = []
        of_phase: dict[str, list[Rewrite]] = {phase: [] for phase in PHASES}
        for rewrite in self.rewrites:
            of_phase[rewrite.phase].append(rewrite)
        for phase, mine in of_phase.items():
            patterns = [each for each in mine if isinstance(each, PatternOptimization)]
            passes = [selected_pass(each, self.state) for each in mine if with_passes and isinstance(each, ModelPass)]
            active = [*active, *patterns]
            if stages and not passes and (phase in _TOGETHER or not patterns):
                passes = stages.pop().passes
            stages.append(Stage(passes, active))
        return stages

    def _run_stage(self, stage: Stage, engine: Engine) -> int:
        """Run the passes of a stage, then its patterns to a fixed point with folding and merging; returns the changes."""
        total = sum(each.run(self.model) for each in stage.passes)
        if total:
            self._settle(engine.graph)
        changed = engine.run(stage.patterns)
        total += changed
        for _ in range(ALTERNATIONS):
            settled = self._settle(engine.graph) if changed else 0
            changed = engine.confirm()
            total += changed + settled
            if not changed:
                break
        return total

    def _settle(self, graph: Graph) -> int:
        """Fold and merge; again after nodes were merged, as a result may fit into the model then. Returns the changes."""
        total, merged = 0, 1
        while merged:  # each time there are fewer nodes
            settled, merged = self._apply(self._settling, graph), self._apply(self._merging, graph)
            total += settled + merged
        return total

    def _apply(self, passes: Iterable[GraphPass], graph: Graph) -> int:
        """Run passes on a graph in order, with timing and events for each; returns the number of changes."""
        return sum(self._timed(each, graph) for each in passes)

    def _timed(self, each: GraphPass, graph: Graph) -> int:
        events, start = self.state.events, perf_counter()
        count = each.run_on(graph)
        seconds = perf_counter() - start
        if count:
            events.send("cleaned", each.title, text=f"{count} removed", level=10)
        events.send("timed", each.title, seconds=seconds, count=count)
        return count
