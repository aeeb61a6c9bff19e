"""Optimize a model: run its passes, and the loop of patterns as one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from xoptim.blocks.outlining import Outline
from xoptim.blocks.repetition import Repetition
from xoptim.engine.engine import Engine
from xoptim.engine.events import show_log
from xoptim.engine.listeners import Statistics
from xoptim.engine.navigate import grades_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.runner import run_pass
from xoptim.engine.state import State
from xoptim.facts.dtypes import Exactness
from xoptim.graph.load import check_imports, collection_paused
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import PHASES, ModelPass, Rewrite
from xoptim.opsets.newest import RaiseOperatorSet
from xoptim.passes.cleanup import (
    DropUnreadResults,
    DropUnusedInputs,
    RemoveIdentities,
    RemoveInitializers,
    RemoveUnused,
    unused_inputs,
)
from xoptim.passes.fold import FoldConstants
from xoptim.passes.growth import Unfolded, growth_of, note_growth
from xoptim.passes.merge import MergeInitializers, MergeNodes
from xoptim.passes.products import Operands, rounds_elsewhere, stored_operands

ALTERNATIONS = 8
"""Maximal number of alternations of rewriting with folding and merging; no known model needs more than a few."""
_TOGETHER = ("canonicalize", "specialize")
"""Phases whose patterns reach a common fixed point, unless a pass runs between them."""


class Stage(NamedTuple):
    """Passes, and the patterns that are active after them: of their phase and of all earlier phases."""

    passes: list[ModelPass]
    patterns: list[PatternOptimization]


class Optimizer:
    """Optimizes a model in place.

    Args:
        model: the model.
        options: the options.
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
        self._engine = Engine(model, self.state)
        self._stages = _staged(self.rewrites)
        self._raising = RaiseOperatorSet(options.opset, options.provider)
        self._folding = FoldConstants(growth_of(model, options.max_growth), self.state.events.send)
        self._outlining = Outline()
        self._dropping = DropUnusedInputs()
        self._products = stored_operands(model)
        self._products_after: Mapping[Node, Operands] | None = None
        """The products before blocks are written once: the runtime replaces calls of functions by their bodies."""

    def run(self) -> list[dict[str, Any]]:
        """Optimize the model; returns the rows of statistics.

        Raises:
            ModelError: when the model cannot be raised to the operator set of the options, or has standard operators without
                importing a version of them.
            BudgetError: when patterns undo each other, or remove a result that must stay (``PATTERNNOREMOVE``).
        """
        options = self.options
        check_imports(self.model)
        self._run((self._raising, options.opset is not None))
        self.model.listeners.append(self.state.worklist)
        try:
            with collection_paused():
                self._clean()
                for _ in range(ALTERNATIONS):
                    self._rewrite()
                    # Rewriting a graph may leave something to clean in the graphs around it, and in its subgraphs.
                    if options.max_iter >= 0 or not self._has_bodies() or not self._clean():
                        break
                self._run((RemoveInitializers(), options.remove_unused))
        finally:
            self.model.listeners.remove(self.state.worklist)
        self._folding.close(self.model)
        if options.outline:
            self._products_after = stored_operands(self.model)
        with collection_paused():
            self._run((self._outlining, options.outline), (self._dropping, options.drop_unused_inputs))
        note_growth(self.model, self._folding.growth)
        return self.statistics.rows

    @property
    def repetitions(self) -> list[Repetition]:
        """The blocks that were written once."""
        return self._outlining.found

    @property
    def dropped_inputs(self) -> list[str]:
        """The inputs that were removed because nothing reads them."""
        return self._dropping.dropped

    def unused_inputs(self) -> list[str]:
        """The inputs that nothing reads now."""
        return unused_inputs(self.model.graph)

    def grades(self) -> list[Exactness]:
        """Exactness of each rewrite that was applied; and ``rounding`` when the runtime computes in another order now.

        (It has other kernels for other operator sets, and for products with other operands that are stored.)
        """
        found = grades_of(self.rewrites, self.state.counts)
        after = stored_operands(self.model) if self._products_after is None else self._products_after
        if self._raising.has_raised or self._folding.rounds or rounds_elsewhere(self._products, after):
            found.append("rounding")
        return found

    def unfolded(self) -> Unfolded | None:
        """The nodes that were left unfolded because of the size of their results, ``None`` without any."""
        return self._folding.growth.unfolded()

    def _run(self, *passes: tuple[ModelPass, bool]) -> int:
        """Run the passes that are wanted, in order; returns the number of changes."""
        return sum(run_pass(each, self.model, self.state) for each, is_wanted in passes if is_wanted)

    def _clean(self) -> int:
        """Remove what is not needed, fold and merge; returns the number of changes."""
        options = self.options
        return (
            self._run((RemoveUnused(), options.remove_unused), (RemoveIdentities(), options.remove_identity)) + self._settle()
        )

    def _settle(self) -> int:
        """Fold and merge until nothing changes; returns the number of changes."""
        options, total = self.options, 0
        while True:
            settled = self._run(
                (DropUnreadResults(), options.remove_unused),
                (self._folding, options.constant_folding),
                (MergeInitializers(), options.merge),
            )
            merged = self._run((MergeNodes(), options.merge))
            total += settled + merged
            # A result may fit into the model after merging, and subgraphs read what is folded around them.
            if not merged and not (settled and self._has_bodies()):
                return total

    def _has_bodies(self) -> bool:
        return any(graph.owner is not None for graph in self.model.graphs())

    def _rewrite(self) -> None:
        """Run the stages, and again as long as the passes of the selection have something new to see."""
        first = next((place for place, stage in enumerate(self._stages) if stage.passes), len(self._stages))
        for _ in range(ALTERNATIONS):
            changes = [self._run_stage(stage) for stage in self._stages]
            if not any(changes[first:]) or self.options.max_iter >= 0:
                break

    def _run_stage(self, stage: Stage) -> int:
        """Run the passes of a stage, then its patterns to a fixed point with folding and merging; returns the changes."""
        total = self._run(*((each, True) for each in stage.passes))
        if total:
            self._settle()
        changed = self._engine.run(stage.patterns)
        total += changed
        for _ in range(ALTERNATIONS):
            settled = self._settle() if changed else 0
            changed = self._engine.confirm()
            total += changed + settled
            if not changed:
                break
        return total


def _staged(rewrites: Iterable[Rewrite]) -> list[Stage]:
    """The rewrites of a selection as stages, in the order in which they run."""
    stages: list[Stage] = []
    active: list[PatternOptimization] = []
    of_phase: dict[str, list[Rewrite]] = {phase: [] for phase in PHASES}
    for rewrite in rewrites:
        of_phase[rewrite.phase].append(rewrite)
    for phase, mine in of_phase.items():
        patterns = [each for each in mine if isinstance(each, PatternOptimization)]
        passes = [each for each in mine if isinstance(each, ModelPass)]
        active = [*active, *patterns]
        if stages and not passes and (phase in _TOGETHER or not patterns):
            passes = stages.pop().passes
        stages.append(Stage(passes, active))
    return stages
