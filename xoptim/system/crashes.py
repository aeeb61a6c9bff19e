"""The current work of a process, for its parent; and the work that ended earlier processes.

A kernel of a library may end the process. Its parent reads here what it was doing, and may start
another one that skips it.
"""

import json
import math
import mmap
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple

_MAX_BYTES: Final = 1 << 14
_MAX_STEP: Final = 200  # characters of a step
_MAX_SIZES: Final = 64


class Crash(NamedTuple):
    """The end of a process at work."""

    step: str = ""
    key: str = ""  # of the work, empty where it cannot be skipped
    sizes: Mapping[str, int] = {}  # of the dynamic dimensions in that run
    is_trial: bool = False  # whether the sizes were tried, and others would do
    signal: str = ""

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether a trial of sizes is skipped: none is larger than in the one that ended the
        process.
        """
        return (
            self.is_trial
            and bool(self.sizes)
            and all(sizes.get(name, math.inf) <= size for name, size in self.sizes.items())
        )


class Watch:
    """Notes the current work of this process, in memory shared with its forks."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._now = Crash()
        self.crashes: list[Crash] = []
        """The work that ended earlier processes."""

    @property
    def is_active(self) -> bool:
        """Whether another process reads the notes."""
        return self._memory is not None

    def share(self) -> None:
        """Let forks of this process note what they do (Linux), and forget earlier crashes."""
        self.crashes.clear()
        if sys.platform == "linux":
            self._memory = mmap.mmap(-1, _MAX_BYTES)

    def note(self, step: str) -> None:
        """Note the current step."""
        self._write(Crash(step[:_MAX_STEP]))

    @contextmanager
    def at(self, sizes: Mapping[str, int], *, is_trial: bool = False) -> Iterator[None]:
        """Note the sizes with which models are run meanwhile."""
        before = self._now
        if len(sizes) <= _MAX_SIZES:
            self._write(before._replace(sizes=dict(sizes), is_trial=is_trial))
        try:
            yield
        finally:
            self._write(before)

    @contextmanager
    def doing(self, key: str) -> Iterator[None]:
        """Note work that is done meanwhile, and that another process could skip."""
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
        """The last note."""
        raw = b"" if self._memory is None else self._memory[:].rstrip(b"\0")
        try:
            return Crash(*json.loads(raw))
        except (ValueError, TypeError):  # it ended while it wrote
            return Crash()

    def _write(self, now: Crash) -> None:
        self._now = now
        if self._memory is not None:
            raw = json.dumps(now).encode()
            raw = raw if len(raw) <= _MAX_BYTES else json.dumps(Crash(now.step)).encode()
            self._memory[:] = raw.ljust(_MAX_BYTES, b"\0")


WATCH: Final = Watch()
"""The notes of this process."""
