"""The record of an optimization: which nodes each rewrite removed and added."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xoptim.engine.events import Event
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.model import Model
from xoptim.graph.node import Node
from xoptim.match.rewrite import Rewrite
from xoptim.reporting.drawing import Drawing, draw
from xoptim.reporting.libraries import check_libraries


@dataclass(slots=True)
class RewriteStep:
    """A rewrite, if it is known, by name (empty when unknown), with the nodes that it removed and added."""

    name: str
    removed: Sequence[Node]
    added: Sequence[Node]
    rewrite: Rewrite | None = None


class Journal:
    """The record of the optimization of one model, which is drawn at once, before any rewrite.

    ``folded`` are nodes whose results were computed ahead of time.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.before: Drawing = draw(model)
        self.steps: list[RewriteStep] = []
        self.folded: set[Node] = set()

    def __call__(self, event: Event) -> None:
        """Record an event. Events of other models, which a search for a wrong rewrite sends, are ignored."""
        if event.kind == "folded" and event.node is not None:
            self.folded.add(event.node)
        elif event.application is not None and event.application.graph.model is self.model:
            self.steps.append(RewriteStep(event.pattern, tuple(event.removed), tuple(event.added), event.application.pattern))


class Recorder:
    """Records the optimizations of one model: a proof may make several, and keeps one of them.

    Raises `MissingLibraryError` when a library of the report is not installed.
    """

    def __init__(self) -> None:
        check_libraries()
        self._journals: list[Journal] = []

    def loaded(self, model: Model) -> None:
        """Begin a journal; called when a model is loaded, before any rewrite."""
        self._journals.append(Journal(model))

    def listening(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options, with a listener that writes the journal."""

        def listen(event: Event) -> None:
            if self._journals:
                self._journals[-1](event)
            if options.on_event is not None:
                options.on_event(event)

        return replace(options, on_event=listen)

    def of(self, model: Model) -> Journal:
        """The journal of a model."""
        return next(journal for journal in self._journals if journal.model is model)
