"""How a command ends on Ctrl-C, SIGTERM and SIGHUP: at once while it starts, by an exception while it works."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any, Final

from xoptim.system.signals import send_to_this_process

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_AGAIN: Final = 0.05
"""Seconds after which an exception that Python has ignored, as in a destructor, is raised again."""


class Ended(BaseException):
    """The process received a signal that asks it to end; raised so that no half-written file remains."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def word(self) -> str:
        """What happened: interrupted or terminated."""
        return "interrupted" if self.number == signal.SIGINT else "terminated"

    @property
    def code(self) -> int:
        """The exit code, as in the shell."""
        return 128 + self.number


class Ending:
    """What signals do. A process ignores those that its parent ignores."""

    def __init__(self) -> None:
        self._watched: list[signal.Signals] = []
        self._is_ending = False

    def at_once(self) -> None:
        """End at once, with a line: nothing has been written yet."""
        self._watched = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        self._handle(_exit)

    def by_exception(self) -> None:
        """Raise `Ended` once; further signals do not disturb what cleans up."""
        self._is_ending = False
        self._handle(self._raise)
        sys.unraisablehook = self._ignored

    def never(self) -> None:
        """Ignore signals from now on: the command has ended, and its exit code is known."""
        self._handle(signal.SIG_IGN)

    def _handle(self, handler: Any) -> None:
        for each in self._watched:
            signal.signal(each, handler)

    def _raise(self, number: int, _: FrameType | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            raise Ended(number)

    def _ignored(self, ignored: Any) -> None:
        """Report what Python ignores, except a lack of memory, which a message follows; raise `Ended` again."""
        if isinstance(ignored.exc_value, Ended):
            self._is_ending = False
            threading.Timer(_AGAIN, send_to_this_process, (ignored.exc_value.number,)).start()
        elif not issubclass(ignored.exc_type, MemoryError):
            sys.__unraisablehook__(ignored)


ENDING: Final = Ending()
"""The signals of this process; the command sets them, never a caller of `run`."""


def _exit(number: int, _: FrameType | None) -> None:
    ended = Ended(number)
    os.write(2, f"xopt: error: {ended.word}; nothing was written\n".encode())
    os._exit(ended.code)
