"""The state of the optimization of a model, shared by the loop, by passes and by listeners."""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from xoptim.engine.events import Application, EventStream, for_applications
from xoptim.engine.index import defect_of
from xoptim.engine.listeners import Budgets, Guard
from xoptim.engine.options import OptimizationOptions
from xoptim.engine.worklist import Worklist
from xoptim.facts.errors import PatternError, XoptimError
from xoptim.graph.graph import Graph
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.lines import line_of_mistake
from xoptim.match.pattern import PatternOptimization
from xoptim.match.refusal import Refusal, listening
from xoptim.match.rewrite import Rewrite
from xoptim.passes.cleanup import remove_identities

logger = logging.getLogger("xoptim")
EXPLAINED = 10
"""Verbosity from which a pattern is logged in full."""


class State:
    """Options, the state that decides what happens next, and the stream of events."""

    def __init__(self, model: Model, options: OptimizationOptions) -> None:
        self.options = options
        self.worklist = Worklist()  # the nodes near a change
        self.failed: set[str] = set()  # names of the rewrites that raised an exception; they are not tried again
        self._mistaken: set[str] = set()
        self.rewrites = 0  # number of rewrites so far
        self.counts: Counter[str] = Counter()  # number of rewrites by pattern
        self.events = EventStream(max(options.verbose, options.debug.verbose), options.on_event)
        self.events.subscribe(Budgets(), Budgets.kinds)
        if options.debug.keep:
            self.events.subscribe(Guard(model, options.debug.keep), Guard.kinds)
        if options.on_application is not None:
            self.events.subscribe(for_applications(options.on_application), ("applied",))

    @property
    def is_exhausted(self) -> bool:
        """Whether the maximal number of rewrites is reached."""
        return 0 <= self.options.max_rewrites <= self.rewrites

    def is_usable(self, rewrite: Rewrite, opset: int) -> bool:
        """Whether a rewrite can be used: operator set and provider fit, it has not failed, and its description is valid."""
        if rewrite.unfit_for(opset, self.options.provider) or (self.failed and rewrite.name() in self.failed):
            return False
        error = defect_of(rewrite) if isinstance(rewrite, PatternOptimization) else None
        if isinstance(error, PatternError):  # a mistake in its text, not a case that it fails on
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
        """Verbosity of the stream from which events about a rewrite are logged."""
        return 0 if self.options.verbosity(rewrite) >= EXPLAINED else EXPLAINED

    def refusals(self, pattern: PatternOptimization) -> AbstractContextManager[None]:
        """Send the refusals of a pattern as events while the block runs, if it is logged in full."""
        return listening(self._refused if self.options.verbosity(pattern) >= EXPLAINED else None)

    def _refused(self, refusal: Refusal) -> None:
        self.events.send("refused", refusal.pattern, node=refusal.node, text=refusal.reason, refusal=refusal, level=0)

    def applied(
        self, application: Application, added: Sequence[Node], removed: Sequence[Node], seconds: float, count: int = 1
    ) -> None:
        """Count a rewrite, or ``count`` of them, as the next one, and send it as an event."""
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
        text = f"pattern {rewrite.name()} failed{where}: {type(error).__name__}: {error}{f' ({line})' if line else ''}"
        self.failed.add(rewrite.name())
        if self.options.strict:
            raise XoptimError(text) from error
        logger.warning("%s; it is skipped from now on", text)
        self.events.send("failed", rewrite.name(), node=node, text=str(error))

    def warn_of_mistake(self, rewrite: Rewrite, node: Node, error: Exception) -> None:
        """Say once for each rewrite that it made a replacement that is not valid; the graph is as it was.

        Raises `XoptimError` when the options are strict.
        """
        line = line_of_mistake(error, type(rewrite))
        text = f"pattern {rewrite.name()} at {node.name or node.op_type!r}: {error}{f' ({line})' if line else ''}"
        if self.options.strict:
            raise XoptimError(text) from error
        if rewrite.name() not in self._mistaken:
            self._mistaken.add(rewrite.name())
            logger.warning("%s; it is not applied there", text)
