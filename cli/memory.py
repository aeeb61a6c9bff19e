"""The limit of the memory of a command."""

from collections.abc import Callable, Sequence
from typing import Final

from xoptim.system.machine import available_memory, data_size, limit_data
from xoptim.verification import resolve_providers

_SHARE: Final = 0.95
"""The share of the free memory that a command may use."""


class MemoryBound:
    """Limits the private memory of this process to its present size and 95 % of the free memory.

    Allocations beyond the limit fail with an error message, in Python, numpy and onnxruntime alike.
    Without a limit, Linux grants these allocations, and kills a process, often another one, when
    they are used. On other systems there is no limit.
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
        """Remove the limit if an execution provider is not the CPU."""
        if resolve_providers(providers) != resolve_providers(("cpu",)):
            self.lift()

    def lift(self) -> None:
        """Remove the limit: drivers of accelerators reserve far more than they use."""
        if self._lift is not None:
            self._lift()
            self._lift = None


MEMORY_BOUND: Final = MemoryBound()
"""The limit of this process. `main` sets the limit; callers of `run` have none."""
