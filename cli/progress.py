"""A line of progress while the command runs, only on a terminal."""

from types import TracebackType
from typing import Self

from rich.status import Status
from rich.text import Text

from xoptim import Event

from .guard import note
from .terminal import in_line, open_console


class Progress:
    """Shows the step and its progress on standard error, if ``enabled`` and if that is a
    terminal.
    """

    def __init__(self, enabled: bool) -> None:
        console = open_console(to_stderr=True)
        self._status: Status | None = (
            console.status("starting") if enabled and console.is_terminal else None
        )
        self._rewrites = 0

    @property
    def shown(self) -> bool:
        """Whether anything is shown."""
        return self._status is not None

    def say(self, step: str) -> None:
        """Show a new step."""
        note(step)
        if self._status is not None:
            self._status.update(Text(in_line(step)))

    def event(self, event: Event) -> None:
        """Update the line from an event of the optimizer."""
        self._rewrites += event.kind == "applied"
        if event.kind == "round":
            self.say(f"optimizing: {event.nodes} nodes, {self._rewrites} rewrites")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()
