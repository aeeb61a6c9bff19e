"""Calls that may not return: each has a thread, which is then abandoned, as none can be killed."""

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
_ABANDONED: Final[list[threading.Event]] = []
"""An event for each abandoned call, set when the call ends after all."""
_MOMENT: Final = 1.0  # seconds that a call has to stop after Ctrl-C


class NotEndingError(Exception):
    """A call did not end after it was asked to stop; its thread goes on."""


class ThreadCall(Generic[T]):
    """A call in a thread of its own. ``stop`` asks it to stop, from another thread."""

    def __init__(self, function: Callable[[], T], stop: Callable[[], object]) -> None:
        self._function, self._stop = function, stop
        self._result: list[T] = []
        self._error: BaseException | None = None
        # after an interrupt, Python considers a thread that it waited for as ended
        self._ended = threading.Event()

    def within(self, stop_after: float, abandon_after: float | None) -> T:
        """The result of the call.

        Args:
            stop_after: seconds after which the call is asked to stop.
            abandon_after: seconds, from the start as well, after which a call that has not stopped
                is abandoned; ``None`` to wait for its end.

        Raises:
            TimeoutError: the call was asked to stop, and has ended.
            NotEndingError: the call was asked to stop, and has not ended.
        """
        try:
            threading.Thread(target=self._run, daemon=True).start()
            if self._ended.wait(stop_after):
                return self._outcome()
            self._stop()
            self._ended.wait(
                None if abandon_after is None else max(abandon_after - stop_after, 0.0)
            )
        except BaseException:  # Ctrl-C, or the error of the call
            self._stop()
            self._ended.wait(_MOMENT)
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
        finally:
            self._ended.set()

    def _outcome(self) -> T:
        if self._error is None:
            return self._result[0]
        try:
            raise self._error
        finally:
            # the traceback refers to this object, which keeps the data that the call reads
            self._error = None

    def _abandon(self) -> bool:
        """Abandon the thread if it still runs; returns whether it does."""
        if not self._ended.is_set():
            _ABANDONED.append(self._ended)
        return not self._ended.is_set()


def any_abandoned() -> bool:
    """Whether a call that was abandoned still runs: the process has to end without waiting for its
    threads.
    """
    return not all(event.is_set() for event in _ABANDONED)
