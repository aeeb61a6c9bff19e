"""The process of a command, and a parent that waits for it: how it ends, also by a fault in
onnxruntime or by force.
"""

import mmap
import os
import sys
from collections.abc import Callable
from typing import Final

from xoptim.system.journal import JOURNAL
from xoptim.system.machine import end_of_child, signal_name
from xoptim.system.signals import Ended

_PATIENCE: Final = 5.0
"""Seconds that a command has to end after a signal: a kernel of onnxruntime may not return."""
_ROOM: Final = 256
_STEP: list[mmap.mmap] = []  # memory that the two processes share


def note(step: str) -> None:
    """Say what the command does now."""
    for memory in _STEP:
        memory[:] = step.encode(errors="replace")[:_ROOM].ljust(_ROOM, b"\0")


def guarded(command: Callable[[], None]) -> None:
    """Run a command in a child, and exit as it does; without a child where the system has no means
    to pass on signals.

    Nothing large may be loaded before, and no thread may run. The files of a child that dies are
    removed.
    """
    _STEP[:] = [mmap.mmap(-1, _ROOM)]
    JOURNAL.share()
    ended = end_of_child(_PATIENCE)
    if ended is None:
        command()
        return
    if ended.code >= 0:
        _leave(ended.code)
    JOURNAL.clean()
    if ended.asked and ended.asked is not None:
        asked = Ended(ended.asked)
        _say(f"{asked.word}; {JOURNAL.outcome()}")
        _leave(asked.code)
    name, step = signal_name(-ended.code), _STEP[0][:].rstrip(b"\0").decode(errors="replace")
    why = "most likely out of memory" if name == "SIGKILL" else "most likely a bug in onnxruntime"
    where = f" at the step {step!a}" if step else ""
    _say(f"the process was ended by {name}{where}, {why}; {JOURNAL.outcome()}")
    _leave(128 - ended.code)


def _say(text: str) -> None:
    line = f"xopt: error: {text}".encode("ascii", "backslashreplace").replace(b"\n", b"\\n")
    os.write(2, line + b"\n")


def _leave(code: int) -> None:
    """Exit without what Python does at its end: nothing is left to do."""
    sys.stdout.flush()
    os._exit(code)
