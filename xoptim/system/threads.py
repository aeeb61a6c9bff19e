"""Calls that may not return, each in a thread that is abandoned then: no thread can be ended from outside."""

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_ABANDONED: Final[list[threading.Thread]] = []
_MOMENT: Final = 1.0  # seconds that a call has to stop after Ctrl-C


class NotEndingError(Exception):
    """A call did not end after it was asked to stop; its thread goes on."""


class Call(Generic[T]):
    """A call in a thread of its own. ``stop`` asks it to stop, from another thread."""

    def __init__(self, function: Callable[[], T], stop: Callable[[], object]) -> None:
        self._function, self._stop = function, stop
        self._result: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def within(self, seconds: float, last: float | None) -> T:
        """The result of the call.

        Args:
            seconds: after which the call is asked to stop.
            last: seconds after which it is abandoned, if it has not stopped; ``None`` to wait for it.

        Raises:
            TimeoutError: the call was asked to stop, and has ended.
            NotEndingError: it has not.
        """
        self._thread.start()
        try:
            self._thread.join(seconds)
            if not self._thread.is_alive():
                return self._outcome()
            self._stop()
            self._thread.join(None if last is None else max(last - seconds, 0.0))
        except BaseException:  # Ctrl-C
            self._stop()
            self._thread.join(_MOMENT)
            self._abandon()
            raise
        if self._abandon():
            raise NotEndingError
        raise TimeoutError

    def _run(self) -> None:
        try:
            self._result.append(self._function())
        except BaseException as error:
            self._error = error

    def _outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result[0]

    def _abandon(self) -> bool:
        """Abandon the thread if it still runs; returns whether it does."""
        if self._thread.is_alive():
            _ABANDONED.append(self._thread)
        return self._thread.is_alive()


def any_abandoned() -> bool:
    """Whether a call that was abandoned still runs: the process has to end without waiting for its threads."""
    return any(thread.is_alive() for thread in _ABANDONED)
