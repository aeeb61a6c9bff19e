"""``PATTERNNOREMOVE``: raise an error that names the pattern or step that removed a result."""

from __future__ import annotations

from typing import ClassVar

from xoptim.engine.events import Event, EventKind
from xoptim.facts.errors import BudgetError
from xoptim.graph.model import Model

_ACTORS: dict[EventKind, str] = {"applied": "pattern {}", "round": "cleaning", "timed": "step {}"}
"""The actor that changed the model before an event, by kind of event."""


class Guard:
    """Listens to the events of an optimization.

    Args:
        model: the model.
        name: name of the result.

    Raises:
        BudgetError: when no graph defines the result any longer.
    """

    kinds: ClassVar[tuple[EventKind, ...]] = tuple(_ACTORS)

    def __init__(self, model: Model, name: str) -> None:
        self._model = model
        self._name = name
        self._was_there = self._is_there()

    def __call__(self, event: Event) -> None:
        """Check that the result still exists, after an event that may have removed it."""
        is_there = self._is_there()
        if self._was_there and not is_there:
            raise BudgetError(f"PATTERNNOREMOVE: {_ACTORS[event.kind].format(event.pattern)} removes result {self._name!r}")
        self._was_there = is_there

    def _is_there(self) -> bool:
        return any(graph.defines(self._name) for graph in self._model.graphs())
