"""The processor: how many cores, its name, its instructions, a clock of its time."""

import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

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
