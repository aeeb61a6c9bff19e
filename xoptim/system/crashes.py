"""What a process does now, for the one that outlives it; and the work that ended earlier processes,
which is left out.

A kernel of a library may end the process. Its parent, which has read here what it did, may start
another one that leaves that out.
"""

import json
import math
import mmap
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

_ROOM: Final = 1 << 14
_LONGEST: Final = 200  # characters of a step
_MOST_SIZES: Final = 64


class Crash(NamedTuple):
    """The end of a process at work."""

    step: str = ""
    key: str = ""  # of the work, empty where it cannot be left out
    sizes: Mapping[str, int] = {}  # of the dynamic dimensions in that run
    is_trial: bool = False  # whether the sizes were tried, and others would do
    signal: str = ""

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether a trial of sizes is left out: none is larger than in the one that ended the
        process.
        """
        return (
            self.is_trial
            and bool(self.sizes)
            and all(sizes.get(name, math.inf) <= size for name, size in self.sizes.items())
        )


class Watch:
    """Notes what this process does, in memory that copies of it share."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._now = Crash()
        self.crashes: list[Crash] = []
        """The work that ended earlier processes."""
        self.starts: list[Callable[[], object]] = []
        """Called in the process of a command before it begins."""

    @property
    def is_active(self) -> bool:
        """Whether another process reads the notes."""
        return self._memory is not None

    def share(self) -> None:
        """Let copies of this process note what they do (Linux)."""
        if sys.platform == "linux":
            self._memory = mmap.mmap(-1, _ROOM)

    def note(self, step: str) -> None:
        """Say what the process does now."""
        self._write(Crash(step[:_LONGEST]))

    @contextmanager
    def at(self, sizes: Mapping[str, int], *, is_trial: bool = False) -> Iterator[None]:
        """Say with which sizes models are run meanwhile."""
        before = self._now
        if len(sizes) <= _MOST_SIZES:
            self._write(before._replace(sizes=dict(sizes), is_trial=is_trial))
        try:
            yield
        finally:
            self._write(before)

    @contextmanager
    def doing(self, key: str) -> Iterator[None]:
        """Say that the process does work meanwhile that another one could leave out."""
        before = self._now
        self._write(before._replace(key=key))
        try:
            yield
        finally:
            self._write(before)

    def end_of(self, key: str) -> str:
        """The signal that ended an earlier process at some work; empty for other work."""
        return next((crash.signal for crash in self.crashes if crash.key == key), "")

    def end_at(self, sizes: Mapping[str, int]) -> str:
        """The signal that ended an earlier process at a trial of these sizes or larger ones."""
        return next((crash.signal for crash in self.crashes if crash.covers(sizes)), "")

    def last(self) -> Crash:
        """What the process did last that noted it."""
        raw = b"" if self._memory is None else self._memory[:].rstrip(b"\0")
        try:
            return Crash(*json.loads(raw))
        except (ValueError, TypeError):  # it ended while it wrote
            return Crash()

    def _write(self, now: Crash) -> None:
        self._now = now
        if self._memory is not None:
            raw = json.dumps(now).encode()
            raw = raw if len(raw) <= _ROOM else json.dumps(Crash(now.step)).encode()
            self._memory[:] = raw.ljust(_ROOM, b"\0")


WATCH: Final = Watch()
"""The notes of this process."""
