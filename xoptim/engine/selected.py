"""Run the passes of a selection within an optimization, each until it fails or the budget of rewrites is used up."""

from __future__ import annotations

from time import perf_counter

from xoptim.engine.application import Application
from xoptim.engine.applier import PASSED_ON
from xoptim.engine.cleanup import remove_identities
from xoptim.engine.navigate import Navigator
from xoptim.engine.provenance import TAG
from xoptim.engine.state import State
from xoptim.graph.changes import Changes, watching
from xoptim.graph.model import Model
from xoptim.match.rewrite import ModelPass


class SelectedPass:
    """A pass of the selection, counted and reported as one rewrite. The model is cleaned after it; a failed pass is skipped.

    Args:
        chosen: the pass.
        state: the state of the optimization.
    """

    def __init__(self, chosen: ModelPass, state: State) -> None:
        self.chosen = chosen
        self.state = state

    def run(self, model: Model) -> int:
        """Run the pass on a model, if it is usable there and the budget of rewrites is not used up.

        Returns:
            Number of changes to nodes; 0 when the model is unchanged.
        """
        if not self.state.is_usable(self.chosen, model.opsets.get("", 0)) or self.state.is_exhausted:
            return 0
        start = perf_counter()
        count = 0
        with watching(model) as changes:
            try:
                count = self._change(model)
            except PASSED_ON:
                raise
            except Exception as error:  # the code of a pass may raise anything
                self.state.fail(self.chosen, None, error)
            if changes.count:
                self._clean(model)
        self._report(model, changes, max(count, 1), perf_counter() - start)
        return changes.count

    def _change(self, model: Model) -> int:
        return self.chosen.run(model)

    def _clean(self, model: Model) -> None:
        """Remove Identity nodes and unused nodes in all graphs."""
        options, worklist = self.state.options, self.state.worklist
        identities, worklist.identities = worklist.identities, []
        for graph in list(model.graphs()):
            if options.remove_identity:
                remove_identities(graph, identities)
            if options.remove_unused:
                graph.sweep()

    def _report(self, model: Model, changes: Changes, count: int, seconds: float) -> None:
        name, added = self.chosen.name(), changes.added_nodes
        if changes.first is None:
            self.state.events.send("tried", name, seconds=seconds, tried=1)
            return
        if self.state.options.tag_nodes:
            for node in added:
                node.metadata = {TAG: name, **(node.metadata or {})}
        # All changes count as one rewrite. No region is recorded, since none could be run by itself.
        application = Application(self.state.rewrites + 1, self.chosen, changes.first, model.graph, (), ())
        self.state.applied(application, added, changes.removed_nodes, seconds, count)


class SelectedWalk(SelectedPass):
    """A navigator of the selection: its patterns are counted and reported as in the rounds of the optimizer."""

    def __init__(self, chosen: Navigator, state: State) -> None:
        super().__init__(chosen, state)
        self.navigator = chosen

    def _change(self, model: Model) -> int:
        return self.navigator.walk(model, self.state)

    def _report(self, model: Model, changes: Changes, count: int, seconds: float) -> None:
        self.state.events.send("timed", self.navigator.name(), seconds=seconds)


def selected_pass(chosen: ModelPass, state: State) -> SelectedPass:
    """Wrap a pass of the selection for an optimization."""
    return SelectedWalk(chosen, state) if isinstance(chosen, Navigator) else SelectedPass(chosen, state)
