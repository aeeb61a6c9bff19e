"""The time for the runs of a validation, planned by the work of each run."""

from __future__ import annotations

from typing import Final

_LEAST: Final = 5.0
_RUNS: Final = 5
"""The budget, unless it is chosen: seconds, or runs at the sizes of the first one, if they take longer."""
_RELIABLE: Final = 0.05  # seconds; a shorter run takes time that is not in proportion to its work
_WORTH: Final = 1 << 20  # operations; neither does one with less work, whatever it took on a busy machine
_SLOWEST: Final = 2e-10  # seconds for one operation that are assumed then, at most


class Budget:
    """The time for the runs of the original: some seconds, ``None`` for the larger of 5 s and five runs like the first one.

    Attributes:
        spent: seconds of all runs so far, failures included.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._first: float | None = None
        self._most = 0
        self._price = 0.0
        self.spent = 0.0

    @property
    def limit(self) -> float:
        """The budget in seconds."""
        return self._seconds if self._seconds is not None else max(_LEAST, _RUNS * (self._first or 0.0))

    def spend(self, seconds: float) -> None:
        """Note the time of a run that failed."""
        self.spent += seconds

    def charge(self, work: int, seconds: float) -> None:
        """Note a run; the one with the most work tells what an operation takes."""
        self.spent += seconds
        if self._first is None:
            self._first = seconds
        if work and work >= self._most:
            price = seconds / work
            is_telling = seconds >= _RELIABLE and work >= _WORTH
            self._most, self._price = work, price if is_telling else min(price, _SLOWEST)

    def estimate(self, work: int) -> float:
        """Seconds that a run is expected to take."""
        return work * self._price

    def allows(self, work: int) -> bool:
        """Whether a run fits into the rest of the budget; the first one always does."""
        return self._first is None or self.spent + self.estimate(work) <= self.limit
