"""Other work of a machine, and its clock rate, while models are measured."""

import os
import time
from collections.abc import Iterator
from typing import Final

from xoptim.system.machine import busy_seconds, clock_rates, cores

_MIN_BUSY_CORES: Final = 0.25  # cores that other processes keep busy
_MIN_CHANGE: Final = 0.05  # of the clock rate


class MachineWatch:
    """Watches the load by other processes and the clock rate, from now on."""

    def __init__(self) -> None:
        self._start, self._load = time.perf_counter(), _seconds_of_other_processes()
        self._clocks: list[float] = []

    def note_clock(self) -> None:
        """Note the clock rate of the fastest core; call it when the processor has just worked."""
        rates = clock_rates()
        if rates:
            self._clocks.append(max(rates))

    def texts(self) -> Iterator[str]:
        """The disturbances of a measurement, in words."""
        seconds = _seconds_of_other_processes() - self._load
        busy_cores = seconds / (time.perf_counter() - self._start)
        if busy_cores >= _MIN_BUSY_CORES:
            yield f"other processes keep {busy_cores:.1f} of {cores()} cores busy"
        low, high = min(self._clocks, default=1.0), max(self._clocks, default=1.0)
        if high >= (1 + _MIN_CHANGE) * low:
            yield f"the clock rate is between {low:.0f} and {high:.0f} MHz"


def _seconds_of_other_processes() -> float:
    """Processor time, in seconds, of all processes except this one and its ended children."""
    return busy_seconds() - sum(os.times()[:4])
