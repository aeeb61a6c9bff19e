"""The current work of a process, for its parent; and the work that ended earlier processes.

A kernel of a library may end the process. The parent of the process then reads here which work
ended it, and may start another process that skips this work.
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


class Work(NamedTuple):
    """The work of a process: of one that runs, or of one that a signal has ended."""

    step: str = ""  # the step of the command, for messages
    key: str = ""  # identifies the work; empty where another process cannot skip it
    sizes: Mapping[str, int] = {}  # of the dynamic dimensions, where a model runs
    is_trial: bool = False  # whether a search chose the sizes, and may choose others instead
    signal: str = ""  # name of the signal that ended the process; empty while it runs

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether a trial with ``sizes`` is skipped: it would be no larger, in any dimension, than
        the trial that ended the process.
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
        self._work = Work()
        self.crashes: list[Work] = []
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
        self._write(Work(step[:_MAX_STEP]))

    @contextmanager
    def at(self, sizes: Mapping[str, int], *, is_trial: bool = False) -> Iterator[None]:
        """Note the sizes with which models are run meanwhile."""
        outer_work = self._work
        if len(sizes) <= _MAX_SIZES:
            self._write(outer_work._replace(sizes=dict(sizes), is_trial=is_trial))
        try:
            yield
        finally:
            self._write(outer_work)

    @contextmanager
    def doing(self, key: str) -> Iterator[None]:
        """Note work that is done meanwhile, and that another process could skip."""
        outer_work = self._work
        self._write(outer_work._replace(key=key))
        try:
            yield
        finally:
            self._write(outer_work)

    def end_of(self, key: str) -> str:
        """The signal that ended an earlier process while it did the work ``key``; empty if none
        did.
        """
        return next((crash.signal for crash in self.crashes if crash.key == key), "")

    def end_at(self, sizes: Mapping[str, int]) -> str:
        """The signal that ended an earlier process at a trial of these sizes or larger ones; empty
        if none did.
        """
        return next((crash.signal for crash in self.crashes if crash.covers(sizes)), "")

    def last(self) -> Work:
        """The last note."""
        raw = b"" if self._memory is None else self._memory[:].rstrip(b"\0")
        try:
            return Work(*json.loads(raw))
        except (ValueError, TypeError):  # it ended while it wrote
            return Work()

    def _write(self, work: Work) -> None:
        self._work = work
        if self._memory is not None:
            raw = json.dumps(work).encode()
            raw = raw if len(raw) <= _MAX_BYTES else json.dumps(Work(work.step)).encode()
            self._memory[:] = raw.ljust(_MAX_BYTES, b"\0")


WATCH: Final = Watch()
"""The notes of this process."""
