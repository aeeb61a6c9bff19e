"""Progress while the command runs: a status line on a terminal, else a line now and then."""

from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final, Self

from rich.status import Status
from rich.text import Text

from xoptim import Event

from .guard import note
from .terminal import in_line, open_console, say

_SECONDS: Final = 10.0
"""Time between two lines when standard error is not a terminal."""


class Progress:
    """Shows the step and its progress on standard error.

    Args:
        enabled: whether anything is shown.
        is_logged: whether a step is printed as a line every ten seconds when standard error is not
            a terminal.
        clock: the time in seconds.
    """

    def __init__(
        self, enabled: bool, *, is_logged: bool = False, clock: Callable[[], float] = monotonic
    ) -> None:
        console = open_console(to_stderr=True)
        self._is_logged = enabled and is_logged and not console.is_terminal
        self._clock, self._last = clock, clock()
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
        elif self._is_logged and (now := self._clock()) - self._last >= _SECONDS:
            self._last = now
            say(f"xopt: {step}", err=True)

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
