"""Processes that run command lines of ``xopt``, with time and memory limits."""

import json
import os
import select
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Final

from xoptim.system.supervised import CommandResult, Supervised

CODE: Final = "import sys; from xoptim.cli.worker import main; main(sys.argv[1:])"
_MAX_ANSWER_BYTES: Final = 16


def _request(command: Sequence[str], memory: int | None) -> bytes:
    """A command with at most ``memory`` bytes of private memory; `xoptim.cli.worker` reads it."""
    return json.dumps([memory or 0, *command]).encode()


class _Worker(Supervised):
    """A process that runs one command after the other, each in a fork of itself (Linux).

    The process ends with a command that crashes, that is ended from outside, or that cannot run in
    a fork.
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
        self.files.callback(os.close, self._answers)
        self._poll = select.poll()
        self._poll.register(self._answers, select.POLLIN)

    def code_within(self, seconds: float) -> int | None:
        """The exit code of the command, or of the process if it ends with the command."""
        if not self._poll.poll(seconds * 1000):
            return self.process.poll()
        answer = os.read(self._answers, _MAX_ANSWER_BYTES)
        return int(answer) if answer else self.process.wait()


class Workers:
    """A pool of worker processes, each of which runs many commands (Linux only; see `run_here`)."""

    def __init__(self) -> None:
        self._idle: list[_Worker] = []

    def run(
        self,
        command: Sequence[str],
        *,
        timeout: float | None,
        memory: int | None,
        is_needed: Callable[[], bool],
    ) -> CommandResult:
        """Run a command line of ``xopt``; see `run_command`.

        Several threads may call this at the same time.
        """
        worker = self._idle_worker() or _Worker()
        try:
            worker.ask(_request(command, memory))
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
) -> CommandResult:
    """Run a command line of ``xopt`` in a process with at most ``memory`` bytes of private memory.

    The process is ended after ``timeout`` seconds, or when ``is_needed``, which is called several
    times a second, returns False.
    """
    with closing(Supervised(CODE, [])) as process:
        process.ask(_request(command, memory))
        return process.wait(timeout, is_needed)
