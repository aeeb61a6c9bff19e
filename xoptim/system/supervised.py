"""Processes that run code: when they end, and how they are ended."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from io import RawIOBase
from typing import Any, Final, Literal

from xoptim.system.dependent import GRACE
from xoptim.system.machine import kill_group, own_group, start_python

_PERIOD: Final = 0.25  # seconds between two checks whether the process is still needed
_MAX_ERROR_BYTES: Final = 1 << 16  # of standard error, whose end has the reason


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command that has ended."""

    code: int  # exit code; minus the number of a signal that ended it
    out: str  # standard output
    err: str  # the end of standard error
    seconds: float  # elapsed time of the command
    # the reason why the command was ended from outside; empty if it ended by itself
    cut_off: Literal["", "timeout", "not needed"] = ""


class Supervised:
    """A process of this Python that runs code. Its standard input ends with this process.

    ``options`` are parameters of `subprocess.Popen`.

    Attributes:
        process: the process.
        files: files that `close` closes after it has ended the process.
    """

    def __init__(self, code: str, words: Sequence[str], **options: Any) -> None:
        with ExitStack() as stack:
            self._out = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            self._err = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            self.process = start_python(
                code,
                *words,
                stdin=subprocess.PIPE,
                stdout=self._out,
                stderr=self._err,
                **options,
                **own_group(),  # Ctrl-C reaches this process only, which ends the others
            )
            self.files = stack.pop_all()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def ask(self, request: bytes) -> None:
        """Write a line to standard input. What the process wrote before is dropped."""
        for stream in (self._out, self._err):  # the process writes at the same position
            stream.truncate(0)
            stream.seek(0)
        stdin = self.process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # the process has ended, as `wait` will find
            stdin.write(request + b"\n")
            stdin.flush()

    def wait(self, timeout: float | None, is_needed: Callable[[], bool]) -> CommandResult:
        """Wait for the end of the command.

        The process is ended after ``timeout`` seconds, or when ``is_needed``, which is called
        several times a second, returns False.
        """
        start = time.monotonic()
        deadline = None if timeout is None else start + timeout
        code, cut_off = self._wait(deadline, is_needed)
        if cut_off:
            code = self._end()
        out, err = _text(self._out), _text(self._err, _MAX_ERROR_BYTES)
        return CommandResult(code, out, err, time.monotonic() - start, cut_off)

    def close(self) -> None:
        """End the process, and those that it started, unless it has ended."""
        with self.files:
            self._end()
            if self.process.stdin is not None:
                with suppress(BrokenPipeError):
                    self.process.stdin.close()

    def _wait(
        self, deadline: float | None, is_needed: Callable[[], bool]
    ) -> tuple[int, Literal["", "timeout", "not needed"]]:
        """The exit code when the command ends, or 0 and the reason once it has to be ended."""
        while True:
            period = _PERIOD if deadline is None else min(_PERIOD, deadline - time.monotonic())
            code = self.code_within(max(period, 0))
            if code is not None:
                return code, ""
            if not is_needed():
                return 0, "not needed"
            if deadline is not None and time.monotonic() >= deadline:
                return 0, "timeout"

    def code_within(self, seconds: float) -> int | None:
        """The exit code if the process ends within some seconds, else ``None``."""
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(seconds)
        return None

    def _end(self) -> int:
        """End the process if it still runs, first by a request, so that it removes temporary files.

        Returns its exit code.
        """
        if self.is_running:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                return self.process.wait(GRACE)
            kill_group(self.process)
        return self.process.wait()


def run_code(
    code: str,
    words: Sequence[str],
    *,
    timeout: float | None,
    is_needed: Callable[[], bool],
    **options: Any,
) -> CommandResult:
    """Run Python code in a process, and wait for its end, as `Supervised.wait` does.

    ``options`` are parameters of `subprocess.Popen`.
    """
    with closing(Supervised(code, words, **options)) as process:
        return process.wait(timeout, is_needed)


def _text(stream: RawIOBase, last: int | None = None) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0 if last is None else max(size - last, 0))
    return stream.read().decode(errors="replace")
