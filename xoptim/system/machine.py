"""The memory of this process and of the machine, limits of it, and the processor."""

import mmap
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from xoptim.system.optional import resource

_INFO: Final = Path("/proc/cpuinfo")


def cores() -> int:
    """Number of cores that this process may use: fewer than the machine has where a container or ``taskset`` restricts it."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """The name of the processor, as the system states it."""
    return next(iter(_field("model name")), platform.processor())


def instructions() -> frozenset[str] | None:
    """Names of the instructions of the first processor, as Linux lists them; ``None`` where the system does not list them."""
    if not _INFO.exists():
        return None
    return frozenset(next(iter(_field("flags", "Features")), "").split())


def clock_of_thread() -> Callable[[], float]:
    """The clock of the processor time of the calling thread, in seconds; of time, where the system counts in long steps."""
    return time.perf_counter if sys.platform == "win32" else time.thread_time


def _field(*names: str) -> list[str]:
    """The values of a field, one for each processor."""
    try:
        lines = _INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.startswith(names)]


_GROUPS: Final = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
_ROOT = Path("/")


def require_memory(size: int) -> None:
    """Raise MemoryError unless the system grants some bytes, which are given back."""
    try:
        # A heap may hold free memory from which nothing else can be granted; only a mapping asks the system.
        if sys.platform == "win32":
            mmap.mmap(-1, size).close()
        else:
            mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError from error


def available_memory() -> int | None:
    """Bytes that this process can still allocate, ``None`` where the system does not report them (not Linux)."""
    free = [size for size in (_noted("/proc/meminfo", "MemAvailable"), _left_in_limit(), *_left_in_group()) if size is not None]
    return max(min(free), 0) if free else None


def data_size() -> int | None:
    """Bytes of private memory that this process has reserved, ``None`` where the system does not report them."""
    return _noted("/proc/self/status", "VmData")


def resident_size() -> int | None:
    """Bytes of this process in memory, ``None`` where the system does not report them."""
    return _noted("/proc/self/status", "VmRSS")


def peak_size() -> int | None:
    """The most bytes of this process that were in memory, ``None`` where the system does not report them."""
    return _noted("/proc/self/status", "VmHWM")


def limit_data(size: int, *, for_good: bool = False) -> Callable[[], None] | None:
    """Limit the private memory of this process, as ``ulimit -d`` does: files that are mapped into memory do not count.

    Args:
        size: bytes.
        for_good: neither this process nor its children can raise the limit again.

    Returns:
        A function that restores the limit that held before; ``None`` where the system has no such limit, or forbids the change.
    """
    if resource is None:
        return None
    before: tuple[int, int] = resource.getrlimit(resource.RLIMIT_DATA)
    least = size if before[1] == resource.RLIM_INFINITY else min(size, before[1])
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (least, least if for_good else before[1]))
    except (OSError, ValueError):  # a container may forbid it
        return None
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, before)


def _left_in_group() -> list[int]:
    """Bytes that the control group of a container still allows."""
    pairs = [(_read(limit).strip(), _read(current).strip()) for limit, current in _GROUPS]
    # Without a limit, the file contains the word "max".
    return [int(limit) - int(current) for limit, current in pairs if limit.isdecimal() and current.isdecimal()]


def _left_in_limit() -> int | None:
    """Bytes that the limit of the process (``ulimit -d``) still allows."""
    used = data_size()
    if used is None or resource is None:
        return None
    soft: int = resource.getrlimit(resource.RLIMIT_DATA)[0]
    return None if soft == resource.RLIM_INFINITY else soft - used


def _noted(path: str, field: str) -> int | None:
    """The bytes that a field of a file of the system states in kB."""
    return next((int(line.split()[1]) << 10 for line in _read(path).splitlines() if line.startswith(f"{field}:")), None)


def _read(path: str) -> str:
    try:
        return (_ROOT / path.lstrip("/")).read_text(encoding="ascii")
    except (OSError, ValueError):
        return ""
