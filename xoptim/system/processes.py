"""Processes: groups, signals, copies of a process, limits of their time."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_DEATH: Final = 1  # PR_SET_PDEATHSIG
_PERTURB: Final = -6, 128
"""Makes the GNU C library fill allocated memory with bytes 0x7F: a tensor that no kernel writes to holds large numbers
or NaN, not the zeros of fresh memory. Other C libraries have no such option."""


def own_group() -> dict[str, Any]:
    """Options of `subprocess.Popen` for a process that Ctrl-C does not reach: its parent ends it."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that has a group of its own, and the processes that it started (Windows: it alone)."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def end_this_process() -> None:
    """Ask this process to end, as another one would: what is set by `on_request_to_end` is called in the main thread."""
    if sys.platform == "win32":  # where os.kill ends the process at once
        signal.raise_signal(signal.SIGTERM)
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def on_request_to_end(handler: Callable[..., None]) -> None:
    """Call a function when this process is asked to end, unless its parent ignores such requests: they stay ignored."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, handler)


def signal_name(number: int) -> str:
    """The name of a signal, such as ``"SIGKILL"``; its number, where the system has no such signal."""
    names = {each.value: each.name for each in signal.Signals} if sys.platform != "win32" else {}
    return names.get(number, f"signal {number}")


def end_text(code: int) -> str:
    """How a process ended, by its exit code, which is minus the number of a signal on POSIX."""
    if code >= 0:
        return f"ended with the exit code {code}"
    return f"ended by {signal_name(-code)}"


def limit_processor_time(seconds: float) -> None:
    """Limit the processor time of this process from now on, in seconds, where the system can; 0 for no limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def perturb_memory() -> None:
    """Fill memory that is allocated from now on with large numbers, where the C library can."""
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        ctypes.CDLL(None).mallopt(*_PERTURB)


def continue_in_copy(on_crash: Callable[[int], None]) -> bool:
    """Continue in a copy of this process, so that a crash costs no new start: the next copy replaces it.

    Only on Linux: libraries of macOS do not work in copies.

    Args:
        on_crash: called in this process with the exit code of a copy that crashed.

    Returns:
        True in a copy, and where the system makes none; False in this process when a copy ended well.
    """
    while sys.platform == "linux":
        worker = os.fork()
        if not worker:
            break
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        if not status:
            return False
        on_crash(status)
    return True


def end_of_child() -> int | None:
    """Continue in a child, and wait for its end in this process, which passes signals on. The child ends with this process.

    Returns:
        ``None`` in the child, and in this process where there is none: on other systems than Linux, and when threads run.
        Otherwise the exit code of the child, minus the number of a signal that ended it.
    """
    if sys.platform != "linux" or threading.active_count() > 1:
        return None
    watched = {signal.SIGCHLD, signal.SIGHUP, signal.SIGINT, signal.SIGTERM}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a parent that ignores it would leave nothing to wait for
    child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(_DEATH, signal.SIGTERM)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        return None
    ended = status = 0
    while not ended:
        info = signal.sigwaitinfo(watched)
        if info.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
        elif info.si_code <= 0:  # those of a terminal reach the child too
            os.kill(child, info.si_signo)
    return os.waitstatus_to_exitcode(status)
