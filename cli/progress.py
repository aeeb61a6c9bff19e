"""Progress while the command runs: a status line on a terminal, else a line every ten seconds."""

import threading
from collections.abc import Callable
from time import monotonic
from types import TracebackType
from typing import Final, Self

from rich.status import Status
from rich.text import Text

from xoptim import Event
from xoptim.diagnose.explanation import StageProgress

from .guard import note
from .terminal import in_line, open_console, say

_SECONDS: Final = 10.0
"""Seconds between two lines if standard error is not a terminal."""
_PERIOD: Final = 1.0
"""Seconds between two checks whether a line is due."""
_MINUTE: Final = 60.0
_HOUR: Final = 3600.0


class Progress:
    """Shows the step, the part of the step that is done, and the time left, on standard error.

    If standard error is not a terminal, a line is printed every ten seconds.

    Args:
        enabled: whether anything is shown.
        clock: the time in seconds.
    """

    def __init__(self, enabled: bool, *, clock: Callable[[], float] = monotonic) -> None:
        console = open_console(to_stderr=True)
        self._is_logged = enabled and not console.is_terminal
        self._clock = clock
        self._last = self._start = clock()  # times of the last line and of the start of the stage
        self._step, self._stage = "starting", "starting"
        self._status: Status | None = (
            console.status("starting") if enabled and console.is_terminal else None
        )
        self._rewrites = 0
        self._lock = threading.Lock()
        self._is_over = threading.Event()

    @property
    def shown(self) -> bool:
        """Whether a status line is shown."""
        return self._status is not None

    def say(self, step: str) -> None:
        """Show a new step."""
        note(step)
        now = self._clock()
        with self._lock:
            stage = step.stage if isinstance(step, StageProgress) else step
            if stage != self._stage:
                self._stage, self._start = stage, now
            self._step = step
        if self._status is not None:
            self._status.update(Text(in_line(self._text(now))))
        self._log(now)

    def event(self, event: Event) -> None:
        """Update the line from an event of the optimizer."""
        self._rewrites += event.kind == "applied"
        if event.kind == "round":
            self.say(f"optimizing: {event.nodes} nodes, {self._rewrites} rewrites")

    def __enter__(self) -> Self:
        if self._status is not None:
            self._status.start()
        if self._is_logged:  # a step may take minutes
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_over.set()
        if self._status is not None:
            self._status.stop()

    def _watch(self) -> None:
        while not self._is_over.wait(_PERIOD):
            self._log(self._clock())

    def _log(self, now: float) -> None:
        """Print the step as a line, unless there was one a short time ago."""
        with self._lock:
            if self._is_logged and now - self._last >= _SECONDS and not self._is_over.is_set():
                self._last = now
                say(f"xopt: {self._text(now)}", err=True)

    def _text(self, now: float) -> str:
        """The step with the time left; if that is unknown, with the time since its stage began."""
        step, passed = self._step, now - self._start
        if isinstance(step, StageProgress) and step.done:
            return f"{step}, {_time(passed / step.done * (step.total - step.done))} left"
        return f"{step} ({_time(passed)})" if passed >= _SECONDS else step


def _time(seconds: float) -> str:
    """A time in words, rounded like an estimate."""
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:.0f} h"
