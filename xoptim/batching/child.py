"""The process of a model of a batch: its memory limit, and its end when the batch ends.

It loads no library, so that the command can run in a copy of the process.
"""

import os
import runpy
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from xoptim.system.crashes import WATCH
from xoptim.system.machine import end_this_process, limit_data

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


def main(words: Sequence[str]) -> None:
    """Run a command line after a limit of private memory in bytes, 0 for none.

    The command considers the limit when it chooses how to verify a model.
    """
    limit, *command = words
    if int(limit):
        limit_data(int(limit), for_good=True)
    # A thread in this process would keep the command from running in a copy of it.
    WATCH.starts.append(threading.Thread(target=end_with_parent, daemon=True).start)
    run_module(command)


def run_module(command: Sequence[str]) -> None:
    """Run a command line of ``xopt`` in this process."""
    sys.argv[1:] = command
    runpy.run_module("xoptim", run_name="__main__", alter_sys=True)
