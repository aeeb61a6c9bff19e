"""Processes that run command lines of ``xopt``, with time and memory limits."""

import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from io import RawIOBase
from typing import Any, Final, Literal

from xoptim.batching.child import GRACE
from xoptim.system.machine import kill_group, own_group, start_python

CODE: Final = "import sys; from xoptim.cli.worker import main; main(sys.argv[1:])"
_PERIOD: Final = 0.25  # seconds between two checks whether the process is still needed
_MAX_ERROR_BYTES: Final = 1 << 16  # of standard error, whose end has the reason
_MAX_ANSWER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command."""

    code: int  # exit code; minus the number of a signal that ended it
    out: str  # standard output
    err: str  # the end of standard error
    seconds: float  # its time
    # the reason why the command was ended from outside; empty if it ended by itself
    cut_off: Literal["", "timeout", "not needed"] = ""


class _Process:
    """A process of this Python that runs code. Its standard input ends with this process.

    ``options`` are parameters of `subprocess.Popen`.
    """

    def __init__(self, code: str, words: Sequence[str], **options: Any) -> None:
        with ExitStack() as stack:
            self._out = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            self._err = stack.enter_context(tempfile.TemporaryFile(buffering=0))
            self._popen = start_python(
                code,
                *words,
                stdin=subprocess.PIPE,
                stdout=self._out,
                stderr=self._err,
                **options,
                **own_group(),  # Ctrl-C reaches this process only, which ends the others
            )
            self._files = stack.pop_all()

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self._popen.poll() is None

    def ask(self, command: Sequence[str], memory: int | None) -> None:
        """Ask for a command with at most ``memory`` bytes of private memory.

        `xoptim.cli.worker` reads it. The output of the one before is dropped.
        """
        for stream in (self._out, self._err):  # the process writes at the same position
            stream.truncate(0)
            stream.seek(0)
        stdin = self._popen.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):  # the process has ended, as `wait` will find
            stdin.write(json.dumps([memory or 0, *command]).encode() + b"\n")
            stdin.flush()

    def wait(self, timeout: float | None, is_needed: Callable[[], bool]) -> Ended:
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
        return Ended(code, out, err, time.monotonic() - start, cut_off)

    def close(self) -> None:
        """End the process, and those that it started, unless it has ended."""
        with self._files:
            self._end()
            if self._popen.stdin is not None:
                with suppress(BrokenPipeError):
                    self._popen.stdin.close()

    def _wait(
        self, deadline: float | None, is_needed: Callable[[], bool]
    ) -> tuple[int, Literal["", "timeout", "not needed"]]:
        """The exit code, or the reason to end the process; the other one is 0 or empty."""
        while True:
            period = _PERIOD if deadline is None else min(_PERIOD, deadline - time.monotonic())
            code = self._code_within(max(period, 0))
            if code is not None:
                return code, ""
            if not is_needed():
                return 0, "not needed"
            if deadline is not None and time.monotonic() >= deadline:
                return 0, "timeout"

    def _code_within(self, seconds: float) -> int | None:
        """The exit code if the command ends within some seconds."""
        with suppress(subprocess.TimeoutExpired):
            return self._popen.wait(seconds)
        return None

    def _end(self) -> int:
        """End the process if it still runs, first by a request, so that it removes temporary files.

        Returns its exit code.
        """
        if self.is_running:
            self._popen.terminate()
            with suppress(subprocess.TimeoutExpired):
                return self._popen.wait(GRACE)
            kill_group(self._popen)
        return self._popen.wait()


class _Worker(_Process):
    """A process that runs one command after the other, each in a copy of itself (Linux).

    The process ends with a command that crashes, that is ended from outside, or that cannot run in
    a copy.
    """

    def __init__(self) -> None:
        self._answers, write_end = os.pipe()
        try:
            super().__init__(CODE, [str(write_end)], pass_fds=(write_end,))
        except BaseException:
            os.close(self._answers)
            raise
        finally:
            os.close(write_end)
        self._files.callback(os.close, self._answers)
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)

    def _code_within(self, seconds: float) -> int | None:
        """The exit code of the command, or of the process if it ends with the command."""
        if not self._poll.poll(seconds * 1000):
            return self._popen.poll()
        answer = os.read(self._answers, _MAX_ANSWER_BYTES)
        return int(answer) if answer else self._popen.wait()


class Workers:
    """Processes that are kept for further commands, where a process can be copied."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float | None,
        memory: int | None,
        is_needed: Callable[[], bool],
    ) -> Ended:
        """Run a command line of ``xopt``; see `run_command`.

        Several threads may call this at the same time.
        """
        worker = self._idle_worker() or _Worker()
        try:
            worker.ask(command, memory)
            outcome = worker.wait(timeout, is_needed)
        except BaseException:
            worker.close()
            raise
        self._idle.append(worker)
        return outcome

    def close(self) -> None:
        """End all processes."""
        while self._idle:
            self._idle.pop().close()

    def _idle_worker(self) -> _Worker | None:
        """A process that waits for a command, if there is one."""
        with suppress(IndexError):
            while True:
                worker = self._idle.pop()
                if worker.is_running:
                    return worker
                worker.close()
        return None


def run_command(
    command: Sequence[str],
    *,
    timeout: float | None,
    memory: int | None,
    is_needed: Callable[[], bool] = lambda: True,
) -> Ended:
    """Run a command line of ``xopt`` in a process with at most ``memory`` bytes of private memory.

    The process is ended after ``timeout`` seconds, or when ``is_needed``, which is called several
    times a second, returns False.
    """
    with closing(_Process(CODE, [])) as process:
        process.ask(command, memory)
        return process.wait(timeout, is_needed)


def run_code(
    code: str,
    words: Sequence[str],
    *,
    timeout: float | None,
    is_needed: Callable[[], bool],
    **options: Any,
) -> Ended:
    """Run Python code in a process, and wait for its end, as `run_command` does.

    ``options`` are parameters of `subprocess.Popen`.
    """
    with closing(_Process(code, words, **options)) as process:
        return process.wait(timeout, is_needed)


def _text(stream: RawIOBase, last: int | None = None) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0 if last is None else max(size - last, 0))
    return stream.read().decode(errors="replace")
