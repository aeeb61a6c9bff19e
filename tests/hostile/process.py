"""The command in a process of its own, whose memory is measured and limited."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.cli.command import Outcome

_COMMAND = "from xoptim.cli.main import main; main()"
_PATIENCE = 300.0
"""Seconds after which a process that ought to take moments is killed."""
_BEGIN = "import resource; resource.setrlimit(resource.{0}, ({1}, resource.getrlimit(resource.{0})[1])); "


class Measured(NamedTuple):
    """How a process ended, and what it took.

    Attributes:
        outcome: exit code (negative: the signal that ended it) and what it wrote.
        megabytes: largest resident size.
    """

    outcome: Outcome
    megabytes: float


def start(*words: str, limit: tuple[str, int] | None = None, before: str = "") -> subprocess.Popen[str]:
    """Start the command.

    Args:
        words: its command line.
        limit: a resource and how much of it there is, such as ``("RLIMIT_DATA", 1 << 30)``.
        before: Python code to run in the process first.
    """
    code = f"{before}\n{_BEGIN.format(*limit) if limit is not None else ''}{_COMMAND}"
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *words], **options)


def finish(process: subprocess.Popen[str], timeout: float = 60) -> Outcome:
    """Wait for the end."""
    out, err = process.communicate(timeout=timeout)
    return Outcome(process.returncode, out, err)


def measure(*words: str, **options: Any) -> Measured:
    """Run the command and measure it; one that does not come to an end is killed."""
    process = start(*words, **options)
    watchdog = threading.Timer(_PATIENCE, process.kill)
    watchdog.start()
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        out, err = process.stdout.read(), process.stderr.read()  # a few lines: no pipe fills up
        _, status, usage = os.wait4(process.pid, 0)
    watchdog.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    scale = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Measured(Outcome(process.returncode, out, err), usage.ru_maxrss / scale)


def wait_for(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait until something has happened.

    Raises:
        TimeoutError: it has not.
    """
    end = time.perf_counter() + seconds
    while not condition():
        if time.perf_counter() > end:
            raise TimeoutError
        time.sleep(0.002)


def is_limited() -> bool:
    """Whether the system keeps the limit of a process on its data (Linux does)."""
    return sys.platform == "linux" and hasattr(resource, "RLIMIT_DATA")
