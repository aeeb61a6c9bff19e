"""The command in a process of its own, whose memory is measured and limited."""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.cli.command import Outcome

_COMMAND = "from xoptim.cli.main import main; main()"
_SIGNALS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
"""A process ignores what its parent ignores, and a shell makes its background jobs ignore SIGINT.

Some tests send it.
"""
_PATIENCE = 300.0
"""Seconds after which a process that ought to take moments is killed."""
_BEGIN = (
    "import resource; resource.setrlimit(resource.{0}, ({1}, "
    "resource.getrlimit(resource.{0})[1])); "
)


class Measured(NamedTuple):
    """How a process ended, and what it took.

    Attributes:
        outcome: exit code (negative: the signal that ended it) and what it wrote.
        megabytes: largest resident size; infinite when a signal ended the process before it could
            say so.
    """

    outcome: Outcome
    megabytes: float


def start(
    *words: str, limit: tuple[str, Any] | None = None, before: str = ""
) -> subprocess.Popen[str]:
    """Start the command.

    Args:
        words: its command line.
        limit: a resource and how much of it there is, such as ``("RLIMIT_DATA", 1 << 30)``.
        before: Python code to run in the process first.
    """
    code = f"{_SIGNALS}\n{before}\n{_BEGIN.format(*limit) if limit is not None else ''}{_COMMAND}"
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *words], **options)


def finish(process: subprocess.Popen[str], timeout: float = 300) -> Outcome:
    """Wait for the end; a process that does not come to it is killed."""
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
    return Outcome(process.returncode, out, err)


_PEAK = """
import atexit, resource, sys
def peak():
    try:  # what the system counts for a child begins with the size of its parent
        with open("/proc/self/status") as status:
            kilobytes = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    except OSError:
        unit = 1024 if sys.platform == "darwin" else 1
        kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // unit
    with open({!r}, "w") as file:
        file.write(str(kilobytes))
atexit.register(peak)
"""


def measure(*words: str, limit: tuple[str, Any] | None = None, before: str = "") -> Measured:
    """Run the command as `start` does and measure it.

    One that does not come to an end is killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "peak"
        process = start(*words, limit=limit, before=_PEAK.format(str(file)) + before)
        outcome = finish(process, _PATIENCE)
        return Measured(outcome, int(file.read_text()) / 1024 if file.exists() else float("inf"))


def wait_for(condition: Callable[[], bool], seconds: float = 300) -> None:
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
