"""A Python process that answers questions: a library that crashes ends it, and not this process.

Questions and answers are pickled, and go through its standard input and output.
"""

import os
import pickle
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, Final

from xoptim.system.machine import end_text, kill_group, own_group, start_python

_TAIL_BYTES: Final = 4096  # that are read from the end of the error output
_PATIENCE: Final = 5.0
"""Seconds that a process has to end after it has closed its output."""
_CHILD_GONE_ERRORS: Final = (EOFError, OSError, pickle.UnpicklingError)
"""Errors of a pipe and of pickle when the other process has ended."""


class ChildGoneError(Exception):
    """The process has ended without an answer."""


class Child:
    """A process of this Python, which ends with this object, and which Ctrl-C does not reach.

    Attributes:
        errors: error output of the process, empty unless it is kept.

    Args:
        code: Python code that the process runs; see `questions_and_answers`.
        prefix: beginning of the command line of the process.
        keeps_errors: whether to keep the error output.
    """

    def __init__(self, code: str, prefix: Sequence[str] = (), *, keeps_errors: bool = True) -> None:
        # The file is closed with this object.
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        pipe, errors = subprocess.PIPE, self.errors if keeps_errors else subprocess.DEVNULL
        self._process = start_python(
            code, prefix=prefix, stdin=pipe, stdout=pipe, stderr=errors, **own_group()
        )
        self.close = weakref.finalize(self, _close, self._process, self.errors)
        """Ends the process."""

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def ask(self, question: object) -> Any:
        """The answer to a question; raises `ChildGoneError` when the process has ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            pickle.dump(question, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except _CHILD_GONE_ERRORS:
            raise ChildGoneError from None

    def ask_last(self, question: object, seconds: float | None = None) -> Any:
        """The answer to the last question: the process ends after it.

        Raises `ChildGoneError` when it ends without an answer, and `TimeoutError` after some
        seconds.
        """
        try:
            answer, _ = self._process.communicate(pickle.dumps(question), timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        if self._process.returncode or not answer:
            raise ChildGoneError
        return pickle.loads(answer)

    def end_code(self) -> int:
        """The exit code of a process that ends; it is killed if that takes long."""
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            _kill(self._process)
            return self._process.wait()

    def end_text(self) -> str:
        """The end of the process in words, and the last line that it wrote."""
        return f"{end_text(self.end_code())}{last_line(self.errors)}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        kill_group(process)  # does nothing for a process that has ended


def _close(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    _kill(process)
    process.wait()
    for stream in (process.stdin, process.stdout, errors):
        with suppress(OSError):  # unsent data cannot be flushed any more
            if stream is not None:
                stream.close()


def last_line(errors: IO[bytes]) -> str:
    """The last line of the error output of a process, as the end of a message."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TAIL_BYTES))
    lines = errors.read().decode(errors="replace").split("\n")
    text = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
    return f": {text[-300:]}" if text else ""


def questions_and_answers() -> tuple[IO[bytes], IO[bytes]]:
    """The streams of questions and of answers, for the process that a `Child` starts.

    Redirects standard output to standard error, so that what libraries print does not mix with the
    answers.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, answers


def send(answers: IO[bytes], answer: object) -> None:
    """Answer a question."""
    pickle.dump(answer, answers)
    answers.flush()
