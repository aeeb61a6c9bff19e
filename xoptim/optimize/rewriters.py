"""Run rewriters of whole models, each at its place between the phases."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

from xoptim.graph.model import Model
from xoptim.match.whole_graph import Changes, GlobalRewriter, watching
from xoptim.optimize.application import Application
from xoptim.optimize.applier import PASSED_ON
from xoptim.optimize.cleanup import remove_identities
from xoptim.optimize.navigate import Navigator
from xoptim.optimize.provenance import TAG
from xoptim.optimize.state import State


class Rewriting:
    """Rewriters of whole models, and what they need to run.

    Args:
        rewriters: the rewriters.
        state: what steers the optimization.
    """

    def __init__(self, rewriters: Sequence[GlobalRewriter], state: State) -> None:
        self.rewriters = sorted(rewriters, key=lambda rewriter: rewriter.position)
        self.state = state

    def run(self, builder: Any, after: float, upto: float) -> int:
        """Run the rewriters whose position is larger than ``after`` and no larger than ``upto``, in order.

        Args:
            builder: the `xoptim.GraphBuilder` that holds the model.
            after: positions.
            upto: positions.

        Returns:
            Number of rewriters that changed anything.
        """
        opset = builder.model.opsets.get("", 0)
        return sum(
            self._run(rewriter, builder)
            for rewriter in self.rewriters
            if after < rewriter.position <= upto and self.state.is_usable(rewriter, opset) and not self.state.is_exhausted
        )

    def _run(self, rewriter: GlobalRewriter, builder: Any) -> bool:
        model: Model = builder.model
        start = perf_counter()
        count = 0
        with watching(model) as changes:
            try:
                if isinstance(rewriter, Navigator):
                    rewriter.walk(model, self.state)
                else:
                    count = rewriter.rewrite(builder)
            except PASSED_ON:
                raise
            except Exception as error:  # whatever the code of a rewriter may raise
                self.state.fail(rewriter, None, error)
            if changes.count:
                self._clean(model)
        self._report(rewriter, model, changes, max(count, 1), perf_counter() - start)
        return changes.count > 0

    def _clean(self, model: Model) -> None:
        """Remove what has become superfluous, in all graphs."""
        options, worklist = self.state.options, self.state.worklist
        identities, worklist.identities = worklist.identities, []
        for graph in list(model.graphs()):
            if options.remove_identity:
                remove_identities(graph, identities)
            if options.remove_unused:
                graph.sweep()

    def _report(self, rewriter: GlobalRewriter, model: Model, changes: Changes, count: int, seconds: float) -> None:
        name, added = rewriter.name(), changes.added_nodes
        if isinstance(rewriter, Navigator):  # the rewrites of its patterns were reported one by one
            self.state.events.send("timed", name, seconds=seconds)
        elif changes.first is None:
            self.state.events.send("tried", name, seconds=seconds, tried=1)
        else:
            if self.state.options.tag_nodes:
                for node in added:
                    node.metadata = {TAG: name, **(node.metadata or {})}
            # All is one rewrite, of no region that could be run by itself.
            number = self.state.rewrites + 1
            application = Application(number, rewriter, changes.first, model.graph, (), ())
            self.state.applied(application, added, changes.removed_nodes, seconds, count)
