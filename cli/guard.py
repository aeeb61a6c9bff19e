"""Where the process of a command dies, as of a fault in onnxruntime: one line and an exit code; a limit of its memory."""

import mmap
import sys
from collections.abc import Callable, Sequence
from typing import Final

from xoptim.system.machine import available_memory, data_size, end_of_child, limit_data, signal_name
from xoptim.validate import resolve_providers

_SHARE: Final = 0.95  # of what is free


class MemoryBound:
    """Limits the private memory of this process to the memory that is free at its start.

    Allocations beyond it fail, in Python, numpy and onnxruntime alike, and end as an error message; without it, Linux grants
    them and kills a process, often another one, when they are used. On other systems there is no limit.
    """

    def __init__(self) -> None:
        self._lift: Callable[[], None] | None = None

    def set(self) -> None:
        """Set the limit."""
        free, used = available_memory(), data_size()
        if free is None or used is None:  # not Linux
            return
        self._lift = limit_data(used + int(_SHARE * free))

    def lift_for(self, providers: Sequence[str]) -> None:
        """Remove the limit when any of these execution providers is not the CPU."""
        if resolve_providers(providers) != resolve_providers(("cpu",)):
            self.lift()

    def lift(self) -> None:
        """Remove the limit: drivers of accelerators reserve far more than they use."""
        if self._lift is not None:
            self._lift()
            self._lift = None


MEMORY_BOUND: Final = MemoryBound()
"""The limit of this process; the command sets it when it starts, never a caller of `run`."""

_ROOM: Final = 256
_STEP: list[mmap.mmap] = []  # memory that the two processes share


def note(step: str) -> None:
    """Say what the command does now."""
    for memory in _STEP:
        memory[:] = step.encode()[:_ROOM].ljust(_ROOM, b"\0")


def guarded(command: Callable[[], None]) -> None:
    """Run a command in a child, and exit as it does; without a child where the system has no means to pass on signals.

    Nothing large may be loaded before, and no thread may run.
    """
    _STEP[:] = [mmap.mmap(-1, _ROOM)]
    code = end_of_child()
    if code is None:
        command()
        return
    if code >= 0:
        sys.exit(code)
    name, step = signal_name(-code), _STEP[0][:].rstrip(b"\0").decode(errors="replace")
    why = "most likely for its memory" if name == "SIGKILL" else "most likely a defect of onnxruntime"
    where = f" at the step {step!r}" if step else ""
    print(f"xopt: error: the process was ended by {name}{where}, {why}; no model was written", file=sys.stderr)
    sys.exit(128 - code)
