"""The process of a model of a batch: the command ``xopt WORDS...`` with a limit of memory.

Standard input is a pipe that the process which runs the batch holds open: the child ends when that process has ended, however
that came about.
"""

import os
import runpy
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from xoptim.facts.lazy import lazy_module

resource = lazy_module("resource")  # of POSIX only
GRACE: Final = 5.0
"""Seconds between the request to end, after which temporary files are removed, and the end."""


def limit_memory(size: int) -> None:
    """Limit the private memory of this process, as ``ulimit -d`` does: files that are mapped into memory do not count.

    The command takes the limit into account when it chooses how to validate a model. There is no limit where the system has
    none.
    """
    with suppress(ImportError, OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        least = size if hard == resource.RLIM_INFINITY else min(size, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (least, least))


def end_with_parent() -> None:
    """End this process when standard input ends."""
    while True:
        with suppress(OSError):
            if os.read(0, 1):  # not sys.stdin, whose lock may be held when the interpreter ends
                continue
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)


def main(words: Sequence[str]) -> None:
    """Run the command of a line that begins with a number of bytes, 0 for no limit."""
    limit, *command = words
    if int(limit):
        limit_memory(int(limit))
    threading.Thread(target=end_with_parent, daemon=True).start()
    sys.argv[1:] = command
    runpy.run_module("xoptim", run_name="__main__", alter_sys=True)
