"""A process that ends with the one that has started it.

No library is loaded here, so that a command can run in a fork of the process.
"""

import os
import runpy
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from xoptim.system.machine import end_this_process

GRACE: Final = 5.0
"""Seconds between the request to end, when temporary files are removed, and the forced end."""


def end_with_parent() -> None:
    """End this process when standard input ends."""
    while True:
        with suppress(OSError):
            if os.read(0, 1):  # not sys.stdin, whose lock may be held when the interpreter ends
                continue
        end_this_process()
        time.sleep(GRACE)
        os._exit(1)


def run_module(command: Sequence[str]) -> None:
    """Run a command line of ``xopt`` in this process."""
    sys.argv[1:] = command
    runpy.run_module("xoptim", run_name="__main__", alter_sys=True)
