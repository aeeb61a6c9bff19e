"""Signals of this process. Nothing else is imported here: a command reads it before it can handle any."""

import os
import signal
import sys


def send_to_this_process(number: int) -> None:
    """Send a signal to this process, as another one would: its handler is called in the main thread, which wakes up."""
    if sys.platform == "win32":  # where os.kill ends the process at once
        signal.raise_signal(number)
    else:
        os.kill(os.getpid(), number)
