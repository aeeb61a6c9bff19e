"""One line and an exit code where the process of a command dies, as of a fault in onnxruntime: Python cannot handle that."""

import mmap
import sys
from collections.abc import Callable
from typing import Final

from xoptim.system.processes import end_of_child, signal_name

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
