"""This process and the machine: memory, the processor, process groups, signals, limits."""

import ctypes
import itertools
import math
import mmap
import os
import platform
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from xoptim.system.optional import resource
from xoptim.system.signals import send_to_this_process

_DEATH: Final = 1  # PR_SET_PDEATHSIG
_PERTURB: Final = -6  # M_PERTURB
_FILL_BYTES: Final = itertools.cycle(range(0x70, 0x80))
_MAX_WAIT: Final = 1e6  # seconds


def own_group() -> dict[str, Any]:
    """Options of `subprocess.Popen` for a process that Ctrl-C does not reach: its parent ends
    it.
    """
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def start_python(
    code: str, *args: str, prefix: Sequence[str] = (), **options: Any
) -> subprocess.Popen[bytes]:
    """Start a process of this Python that runs code with ``args`` as its command-line arguments.

    ``-P`` keeps the process, and ``PYTHONSAFEPATH`` its children, from importing modules of the
    current folder, which may have any name. ``PYTHONPATH`` still counts. ``prefix`` begins the
    command line; ``options`` are the parameters of `subprocess.Popen`.
    """
    command = [*prefix, this_python(), "-P", "-c", code, *args]
    return subprocess.Popen(command, env=environment_with(PYTHONSAFEPATH="1"), **options)


def this_python() -> str:
    """The Python that runs this process."""
    return sys.executable


def python_in(folder: Path) -> Path:
    """The Python of a virtual environment."""
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def environment_with(**variables: str) -> dict[str, str]:
    """The environment of this process with some variables, for a child."""
    return {**os.environ, **variables}


def set_default_variable(name: str, value: str) -> None:
    """Set a variable of the environment of this process and its children, unless it is set
    already.
    """
    os.environ.setdefault(name, value)


@contextmanager
def without_output() -> Iterator[None]:
    """Drop what libraries write to standard output meanwhile: it may be a file that is being
    written, or an answer.
    """
    try:
        sys.stdout.flush()
        saved = os.dup(1)
    except (AttributeError, OSError, ValueError):  # there is no standard output
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(nowhere)


def memory_filling_command() -> list[str]:
    """The beginning of a command whose process fills all memory that it allocates with bytes 0x7F
    (GNU's C library).

    A tensor that no kernel writes to then holds large numbers or NaN, the same in each run, and not
    the zeros of fresh memory.
    """
    # The cache of each thread would not be filled.
    return (
        ["env", "GLIBC_TUNABLES=glibc.malloc.perturb=128:glibc.malloc.tcache_count=0"]
        if sys.platform == "linux"
        else []
    )


@contextmanager
def filled_memory() -> Iterator[None]:
    """Fill the memory that this process allocates meanwhile with a byte, another one at each call.

    Read as floats, the bytes are large numbers. Small pieces of memory that the process has just
    freed are not filled; without GNU's C library, nothing is.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield
        return
    mallopt(_PERTURB, 0xFF ^ next(_FILL_BYTES))  # malloc fills with the complement
    try:
        yield
    finally:
        mallopt(_PERTURB, 0)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that has a group of its own, and the processes that it started (Windows: only
    the process itself).
    """
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def end_this_process() -> None:
    """Ask this process to end, as another one would: the handler of `on_request_to_end` is called
    in the main thread.
    """
    send_to_this_process(signal.SIGTERM)


def on_request_to_end(handler: Callable[..., None]) -> None:
    """Call a function at SIGTERM, unless the parent of this process ignores SIGTERM."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, handler)


def on_closed_output(handler: Callable[[], None]) -> None:
    """Call a function in a thread when nobody reads the standard output of this process any more,
    also while nothing is written (POSIX).
    """
    if not hasattr(select, "poll"):
        return
    output = os.dup(1)

    def watch() -> None:
        poll = select.poll()
        poll.register(output, 0)
        poll.poll()  # an error or a hang-up: nothing else is asked for
        handler()

    threading.Thread(target=watch, daemon=True).start()


def signal_name(number: int) -> str:
    """The name of a signal, such as ``"SIGKILL"``; its number, where the system has no such
    signal.
    """
    names = {s.value: s.name for s in signal.Signals} if sys.platform != "win32" else {}
    return names.get(number, f"signal {number}")


def end_text(code: int) -> str:
    """The end of a process in words, from its exit code; on POSIX, a negative code is a signal."""
    if code >= 0:
        return f"ended with the exit code {code}"
    return f"ended by {signal_name(-code)}"


def limit_processor_time(seconds: float) -> None:
    """Limit the processor time of this process from now on, in seconds, where the system can.

    0 for no limit.
    """
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def release_memory() -> None:
    """Return freed memory to the system, if the C library can: otherwise the library may keep the
    memory of complete sessions.
    """
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)


CAN_FORK: Final = sys.platform == "linux"
"""Whether a process can continue in a fork: libraries of macOS do not work in forks."""


@contextmanager
def same_signals() -> Iterator[None]:
    """Restore the signal mask at the end of the block: `continue_in_child` blocks signals."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def end_idle_threads() -> None:
    """End the threads that OpenBLAS starts when numpy is loaded.

    OpenBLAS ends them before a fork, and starts them again when it computes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads
        pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)


def continue_in_fork(on_crash: Callable[[int], None]) -> bool:
    """Continue in a fork of this process. After a crash, another fork replaces it: no library is
    loaded again.

    Only on Linux: libraries of macOS do not work in forks.

    Args:
        on_crash: called in this process with the exit code of a fork that crashed.

    Returns:
        True in a fork, and in this process on other systems; False in this process when a fork has
        ended with exit code 0.
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


class ChildEnd(NamedTuple):
    """The end of a child."""

    code: int  # exit code, minus the number of a signal that ended it
    asked: int  # the first signal that was passed on to it, 0 for none


def continue_in_child(
    timeout: float, restarts: Callable[[ChildEnd], bool] = lambda _: False
) -> ChildEnd | None:
    """Fork, continue in the child, and wait for it in this process, which passes signals on.

    The child ends with this process.

    Args:
        timeout: seconds that the child has to end after a signal; then it is killed.
        restarts: whether another child follows one with this end.

    Returns:
        The end of the last child; ``None`` in a child, and in this process if no child is started.
            None is started on other systems than Linux, or while other threads run, also those of
            a library: they would receive the signals instead of this thread.
    """
    if sys.platform != "linux" or len(list(Path("/proc/self/task").iterdir())) > 1:
        return None
    requests = [
        s
        for s in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(s) is not signal.SIG_IGN
    ]
    watched = {signal.SIGCHLD, *requests}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    # an ignored SIGCHLD, which a parent passes on, would leave no child to wait for
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        child = os.fork()
        if not child:
            ctypes.CDLL(None).prctl(_DEATH, signal.SIGTERM)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return None
        end = _end_of(child, watched, timeout)
        if not restarts(end):
            return end


def _end_of(child: int, watched: Collection[int], timeout: float) -> ChildEnd:
    """Wait for the end of a child; other watched signals are passed on to it.

    It is killed if it has not ended ``timeout`` seconds after such a signal.
    """
    pid = status = asked = 0
    deadline = math.inf
    while not pid:
        wait = min(max(deadline - time.monotonic(), 0.0), _MAX_WAIT)
        info = signal.sigtimedwait(watched, wait)
        if info is None:
            if time.monotonic() >= deadline:
                os.kill(child, signal.SIGKILL)
                deadline = math.inf
        elif info.si_signo == signal.SIGCHLD:
            pid, status = os.waitpid(child, os.WNOHANG)
        else:
            asked = asked or info.si_signo
            deadline = min(deadline, time.monotonic() + timeout)
            if info.si_code <= 0:  # signals of a terminal also reach the child
                os.kill(child, info.si_signo)
    return ChildEnd(os.waitstatus_to_exitcode(status), asked)


_INFO: Final = Path("/proc/cpuinfo")


def cores() -> int:
    """Number of cores that this process may use: fewer than the machine has where a container or
    ``taskset`` restricts it.
    """
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The name of the processor, as the system states it."""
    return next(iter(_field("model name")), platform.processor())


def instructions() -> frozenset[str] | None:
    """The CPU flags of the first processor, ``None`` where the system does not list them."""
    if not _INFO.exists():
        return None
    return frozenset(next(iter(_field("flags", "Features")), "").split())


def clock_of_thread() -> Callable[[], float]:
    """A clock of the processor time of the calling thread, in seconds. On Windows, which counts
    processor time in long steps, a clock of elapsed time.
    """
    return time.perf_counter if sys.platform == "win32" else time.thread_time


def _field(*names: str) -> list[str]:
    """The values of a field, one for each processor."""
    try:
        lines = _INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(names)]


def busy_seconds() -> float:
    """Processor time that all processes have taken from the cores of this process since the start
    of the machine, in seconds; 0 where the system does not report it (not Linux).
    """
    if not hasattr(os, "sched_getaffinity"):
        return 0.0
    names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    rows = [words for line in _read("/proc/stat").splitlines() if (words := line.split())]
    ticks = (map(int, (*row[1:4], *row[6:9])) for row in rows if row[0] in names)  # not idle
    return sum(map(sum, ticks)) / os.sysconf("SC_CLK_TCK")


def clock_rates() -> list[float]:
    """The present clock rates of the cores in MHz; empty where the system does not report them."""
    return [float(text) for text in _field("cpu MHz")]


_GROUPS: Final = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_ROOT = Path("/")  # of the files that `_read` reads; tests set another folder


def require_memory(size: int) -> None:
    """Raise MemoryError unless the system grants some bytes, which are freed again."""
    try:
        # The C library may still have free memory when the system grants no more; a mapping always
        # asks the system.
        if sys.platform == "win32":
            mmap.mmap(-1, size).close()
        else:
            mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError from error


def available_memory() -> int | None:
    """Bytes that this process can still allocate, ``None`` where the system does not report them
    (not Linux).
    """
    limits = [
        size
        for size in (
            _bytes_of("/proc/meminfo", "MemAvailable"),
            _left_in_limit(),
            *_left_in_group(),
        )
        if size is not None
    ]
    return max(min(limits), 0) if limits else None


def data_size() -> int | None:
    """Bytes of private memory that this process has reserved, ``None`` where the system does not
    report them.
    """
    return _bytes_of("/proc/self/status", "VmData")


def resident_size() -> int | None:
    """Bytes of this process in memory, ``None`` where the system does not report them."""
    return _bytes_of("/proc/self/status", "VmRSS")


def peak_size() -> int | None:
    """Peak of `resident_size` in bytes, ``None`` where the system does not report it."""
    return _bytes_of("/proc/self/status", "VmHWM")


def limit_data(size: int, *, for_good: bool = False) -> Callable[[], None] | None:
    """Limit the private memory of this process, as ``ulimit -d`` does: files that are mapped into
    memory do not count.

    Args:
        size: bytes.
        for_good: neither this process nor its children can raise the limit again.

    Returns:
        A function that restores the limit that held before; ``None`` where the system has no such
        limit, or forbids the change.
    """
    if resource is None:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit if for_good else hard))
    except (OSError, ValueError):  # a container may forbid it
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _left_in_group() -> list[int]:
    """Bytes that the control group of a container still allows."""
    pairs = [(_read(limit).strip(), _read(current).strip()) for limit, current in _GROUPS]
    # Without a limit, the file contains the word "max".
    return [
        int(limit) - int(current)
        for limit, current in pairs
        if limit.isdecimal() and current.isdecimal()
    ]


def _left_in_limit() -> int | None:
    """Bytes that the limit of the process (``ulimit -d``) still allows."""
    size = data_size()
    if size is None or resource is None:
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return None if soft == resource.RLIM_INFINITY else soft - size


def _bytes_of(path: str, field: str) -> int | None:
    """The bytes that a system file states in kB in a field."""
    return next(
        (
            int(line.split()[1]) << 10
            for line in _read(path).splitlines()
            if line.startswith(f"{field}:")
        ),
        None,
    )


def _read(path: str) -> str:
    try:
        return (_ROOT / path.lstrip("/")).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
