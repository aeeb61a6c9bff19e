"""The process of one model."""

import os
import runpy
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Final, Literal

from xoptim.system.machine import limit_data
from xoptim.system.processes import end_this_process, kill_group, own_group

GRACE: Final = 5.0
"""Seconds between the request to end, after which temporary files are removed, and the end."""


def end_with_parent() -> None:
    """End this process when standard input ends."""
    while True:
        with suppress(OSError):
            if os.read(0, 1):  # not sys.stdin, whose lock may be held when the interpreter ends
                continue
        end_this_process()
        time.sleep(GRACE)
        os._exit(1)


def main(words: Sequence[str]) -> None:
    """Run the command of a line that begins with a number of bytes of private memory, 0 for no limit.

    The command takes the limit into account when it chooses how to validate a model.
    """
    limit, *command = words
    if int(limit):
        limit_data(int(limit), for_good=True)
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv[1:] = command
    runpy.run_module("xoptim", run_name="__main__", alter_sys=True)


# -P: no module of the current folder hides one of Python or of a package.
# Not -m: Python warns that the package has imported the module before.
COMMAND: Final = (sys.executable, "-P", "-c", "import sys; from xoptim.batching.process import main; main(sys.argv[1:])")
_PERIOD: Final = 0.25  # seconds between two looks at whether the process is still needed
_LAST: Final = 1 << 16  # bytes of standard error that are kept: its end has the reason


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    code: int  # exit code; minus the number of a signal that ended it
    out: str  # standard output
    err: str  # the end of standard error
    seconds: float  # its time
    cut_off: Literal["", "timeout", "not needed"] = ""  # why it was ended from outside, empty when nothing ended it


def run_command(
    words: Sequence[str], *, timeout: float | None, memory: int | None, is_needed: Callable[[], bool] = lambda: True
) -> Ended:
    """Run a command line of ``xopt`` in a process, and wait for its end.

    The process is ended after ``timeout`` seconds, or when ``is_needed``, which is asked several times a second, returns False.
    It may reserve ``memory`` bytes of private memory.
    """
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        held, lifeline = os.pipe()  # its end tells the child that this process has ended
        try:
            process = subprocess.Popen(
                [*COMMAND, str(memory or 0), *words],
                stdin=held,
                stdout=out,
                stderr=err,
                **own_group(),  # Ctrl-C reaches this process only, which ends the others
            )
            try:
                cut_off = _wait(process, None if timeout is None else began + timeout, is_needed)
            finally:
                _end(process)
        finally:
            os.close(held)
            os.close(lifeline)
        return Ended(process.returncode, _text(out), _text(err, _LAST), time.monotonic() - began, cut_off)


def _wait(
    process: subprocess.Popen[bytes], deadline: float | None, is_needed: Callable[[], bool]
) -> Literal["", "timeout", "not needed"]:
    """Wait until the process ends, or until it has to be ended; returns why."""
    while True:
        left = _PERIOD if deadline is None else min(_PERIOD, deadline - time.monotonic())
        try:
            process.wait(max(left, 0))
            return ""
        except subprocess.TimeoutExpired:
            if not is_needed():
                return "not needed"
            if deadline is not None and time.monotonic() >= deadline:
                return "timeout"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, and those that it started; first by a request, so that it removes temporary files."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
            return
        kill_group(process)
        process.wait()


def _text(stream: IO[bytes], last: int | None = None) -> str:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0 if last is None else max(size - last, 0))
    return stream.read().decode(errors="replace")
