"""One line and an exit code where the process of a command dies, as of a fault in onnxruntime: Python cannot handle that."""

import ctypes
import mmap
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

from xoptim.system.processes import end_text

_DEATH: Final = 1  # PR_SET_PDEATHSIG
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
    if sys.platform != "linux" or threading.active_count() > 1:
        command()
        return
    _STEP[:] = [mmap.mmap(-1, _ROOM)]
    watched = {signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    child = os.fork()
    if child:
        sys.exit(_watch(child, watched))
    ctypes.CDLL(None).prctl(_DEATH, signal.SIGTERM)  # when the parent is killed
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    command()


def _watch(child: int, watched: set[signal.Signals]) -> int:
    """Wait for the end of the child; returns the exit code. Signals are passed on."""
    ended = status = 0
    while not ended:
        info = signal.sigwaitinfo(watched)
        if info.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
        elif info.si_code <= 0:  # those of a terminal reach the child too
            os.kill(child, info.si_signo)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    step = _STEP[0][:].rstrip(b"\0").decode(errors="replace")
    why = "most likely for its memory" if -code == signal.SIGKILL else "most likely a defect of onnxruntime"
    where = f" at the step {step!r}" if step else ""
    text = f"the process was {end_text(code)}{where}, {why}; no model was written"
    sys.stderr.write(f"xopt: error: {text}\n")
    return 128 - code
