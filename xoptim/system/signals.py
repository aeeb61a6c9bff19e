"""Signals that ask this process to end: at once while it starts, by an exception while it works.

Little is imported here: a command imports this module before it can handle signals.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final


def send_to_this_process(number: int) -> None:
    """Send a signal to this process, as another one would: its handler is called in the main
    thread, which wakes up.
    """
    if sys.platform == "win32":  # where os.kill ends the process at once
        signal.raise_signal(number)
    else:
        os.kill(os.getpid(), number)


_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
_RETRY_DELAY: Final = 0.05
"""Seconds after which an exception that Python has ignored, as in a destructor, is raised again."""


def _not_ignored() -> list[signal.Signals]:
    return [s for s in _SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]


class EndRequested(BaseException):
    """The process received a signal that asks it to end.

    Raised so that no half-written file remains.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def word(self) -> str:
        """The word for the end: interrupted or terminated."""
        return "interrupted" if self.number == signal.SIGINT else "terminated"

    @property
    def code(self) -> int:
        """The exit code, as in the shell."""
        return 128 + self.number


class Ending:
    """The handlers of signals. A process ignores those that its parent ignores."""

    def __init__(self) -> None:
        self._watched: list[signal.Signals] = []
        self._raised: EndRequested | None = None

    def at_once(self, report: Callable[[str], None]) -> None:
        """At a signal, report `EndRequested.word` and end at once: nothing has been written yet."""
        self._watched = _not_ignored()

        def end(number: int, _: FrameType | None) -> None:
            error = EndRequested(number)
            report(error.word)
            os._exit(error.code)

        self._handle(end)

    def by_exception(self) -> None:
        """Raise `EndRequested` once; further signals do not disturb the cleanup."""
        self._raised = None
        self._watched = self._watched or _not_ignored()
        self._handle(self._raise)
        sys.unraisablehook = self._ignored

    @contextmanager
    def reraised(self) -> Iterator[None]:
        """Raise `EndRequested` where a library replaced it by another error, as the import of an
        extension module does (ImportError).
        """
        try:
            yield
        except Exception:
            if self._raised is None:
                raise
            raise self._raised from None

    def ignore(self) -> None:
        """Ignore signals from now on: the command has ended, and its exit code is known."""
        self._handle(signal.SIG_IGN)

    def _handle(self, handler: Any) -> None:
        for number in self._watched:
            signal.signal(number, handler)

    def _raise(self, number: int, _: FrameType | None) -> None:
        if self._raised is None:
            self._raised = EndRequested(number)
            raise self._raised

    def _ignored(self, unraisable: Any) -> None:
        """Raise `EndRequested` again, and report other ignored errors.

        A MemoryError is not reported here: a command that runs out of memory says so itself.
        """
        if isinstance(unraisable.exc_value, EndRequested):
            self._raised = None
            number = unraisable.exc_value.number
            threading.Timer(_RETRY_DELAY, send_to_this_process, (number,)).start()
        elif not issubclass(unraisable.exc_type, MemoryError):
            sys.__unraisablehook__(unraisable)


ENDING: Final = Ending()
"""The handlers of this process; the command sets them, nothing else."""
