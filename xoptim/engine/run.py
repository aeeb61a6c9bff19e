"""Optimize a model by a list of passes; the loop of patterns is in one of them."""

from collections.abc import Mapping
from typing import Any, Final

from xoptim.blocks.outlining import Outline
from xoptim.engine.events import Statistics, show_log
from xoptim.engine.navigate import grades_of
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.rewriting import Rewriting, Settle
from xoptim.engine.runner import run_passes
from xoptim.engine.state import State
from xoptim.facts.dtypes import Exactness
from xoptim.graph.load import check_imports, collection_paused
from xoptim.graph.model import Model
from xoptim.match.rewrite import ModelPass
from xoptim.opsets.newest import RaiseOperatorSet
from xoptim.passes.cleanup import (
    DropUnreadResults,
    DropUnusedInputs,
    NoteProducts,
    RemoveIdentities,
    RemoveInitializers,
    RemoveUnused,
    rounds_elsewhere,
    stored_operands,
)
from xoptim.passes.fold import FoldConstants, WriteExpanded
from xoptim.passes.growth import NoteGrowth, growth_of
from xoptim.passes.guards import NoteAssumptions, RemoveGuards, WriteGuards
from xoptim.passes.merge import MergeInitializers, MergeNodes

STEPS: Final[Mapping[str, type[ModelPass]]] = {
    "constant_folding": FoldConstants,
    "merge": MergeNodes,
    "remove_unused": RemoveUnused,
    "remove_identity": RemoveIdentities,
}
"""The steps of every optimization, by the names by which `OptimizationOptions.drop` leaves them out."""


class Optimizer:
    """Optimizes a model in place."""

    def __init__(self, model: Model, options: OptimizationOptions) -> None:
        self.model = model
        self.options = options
        self.rewrites = options.selected(model.assumptions)
        self.state = State(model, options)
        self.statistics = Statistics()
        self.state.events.subscribe(self.statistics, Statistics.kinds)
        if any(True for _ in options.with_verbosity(1, self.rewrites)):
            show_log()
        self._raising = RaiseOperatorSet(options.opset, options.provider)
        self.folding = FoldConstants(growth_of(model, options.max_growth), self.state.events.send)
        self.outlining = Outline()
        self.dropping = DropUnusedInputs()
        removing = RemoveGuards()
        self.guards = removing, WriteGuards(options.guard, removing)
        self._before, self._after = stored_operands(model), NoteProducts()
        self.passes = self._passes()  # the passes of `run`, in order

    def _passes(self) -> list[ModelPass]:
        options, growth = self.options, self.folding.growth
        unused, merge = options.remove_unused, options.merge
        cleaning = _wanted((RemoveUnused(), unused), (RemoveIdentities(), options.remove_identity))
        folding = _wanted((DropUnreadResults(), unused), (self.folding, options.constant_folding), (MergeInitializers(), merge))
        return _wanted(
            (self.guards[0], True),
            (self._raising, options.opset is not None),
            (Rewriting(self.rewrites, cleaning, Settle(folding, _wanted((MergeNodes(), merge)))), True),
            (RemoveInitializers(), unused),
            (WriteExpanded(growth, self.state.events.send), True),
            (self._after, options.outline),
            (self.outlining, options.outline),
            (self.dropping, options.drop_unused_inputs),
            (self.guards[1], True),
            (NoteGrowth(growth), True),
            (NoteAssumptions(), True),
        )

    def run(self) -> list[dict[str, Any]]:
        """Optimize the model; returns the rows of statistics.

        Raises:
            ModelError: when the model cannot be raised to the operator set of the options, or has standard operators without
                importing a version of them.
            BudgetError: when patterns undo each other, or remove a result that must stay (``PATTERNNOREMOVE``).
        """
        check_imports(self.model)
        self.model.listeners.append(self.state.worklist)
        try:
            with collection_paused():
                run_passes(self.passes, self.model, self.state)
        finally:
            self.model.listeners.remove(self.state.worklist)
        return self.statistics.rows

    def grades(self) -> list[Exactness]:
        """Exactness of each rewrite that was applied; and ``rounding`` when the runtime computes in another order now.

        (It has other kernels for other operator sets, and for products with other operands that are stored.)
        """
        found = grades_of(self.rewrites, self.state.counts)
        after = stored_operands(self.model) if self._after.found is None else self._after.found
        if self._raising.has_raised or self.folding.rounds or rounds_elsewhere(self._before, after):
            found.append("rounding")
        return found


def _wanted(*passes: tuple[ModelPass, bool]) -> list[ModelPass]:
    return [each for each, is_wanted in passes if is_wanted]
