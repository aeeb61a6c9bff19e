"""Memory as Linux reports it, and on systems that report nothing."""

import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from xoptim.system import machine as memory

MEBI = 1 << 20
FILES = {
    "proc/meminfo": "MemTotal: 4096 kB\nMemAvailable: 2048 kB\n",
    "proc/self/status": "VmHWM: 512 kB\nVmRSS: 256 kB\nVmData: 128 kB\n",
}


class Limits:
    """The module `resource`, with a soft and a hard limit."""

    RLIMIT_DATA = 2
    RLIM_INFINITY = -1

    def __init__(self, soft: int = -1, hard: int = -1, *, is_forbidden: bool = False) -> None:
        self.now = soft, hard
        self._is_forbidden = is_forbidden

    def getrlimit(self, kind: int) -> tuple[int, int]:
        assert kind == self.RLIMIT_DATA
        return self.now

    def setrlimit(self, kind: int, limits: tuple[int, int]) -> None:
        if self._is_forbidden:
            raise ValueError("not allowed to raise maximum limit")
        self.now = limits


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a Linux without limits."""
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    monkeypatch.setattr(memory, "resource", Limits())
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.usefixtures("root")
def test_sizes_that_linux_reports() -> None:
    assert (memory.data_size(), memory.resident_size(), memory.peak_size()) == (
        128 << 10,
        256 << 10,
        512 << 10,
    )
    assert memory.available_memory() == 2 * MEBI


@pytest.mark.usefixtures("root")
def test_a_limit_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "resource", Limits(soft=MEBI))
    assert memory.available_memory() == MEBI - (128 << 10)
    monkeypatch.setattr(memory, "resource", Limits(soft=1))
    assert memory.available_memory() == 0


@pytest.mark.parametrize(
    ("folder", "limit", "used"),
    [
        ("sys/fs/cgroup", "memory.max", "memory.current"),
        ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_a_limit_of_a_container(root: Path, folder: str, limit: str, used: str) -> None:
    (root / folder).mkdir(parents=True)
    (root / folder / used).write_text("1000\n")
    for text, expected in (("max\n", 2 * MEBI), ("5000\n", 4000)):
        (root / folder / limit).write_text(text)
        assert memory.available_memory() == expected


def test_a_system_that_reports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS has limits, but no files of sizes; Windows has neither."""
    monkeypatch.setattr(memory, "_ROOT", tmp_path)
    for module in (Limits(soft=1), None):
        monkeypatch.setattr(memory, "resource", module)
        assert (
            memory.available_memory()
            is memory.data_size()
            is memory.resident_size()
            is memory.peak_size()
            is None
        )


@pytest.mark.parametrize(
    ("hard", "for_good", "expected"),
    [
        (-1, False, (5, -1)),
        (-1, True, (5, 5)),
        (3, False, (3, 3)),
        (3, True, (3, 3)),
        (9, False, (5, 9)),
    ],
)
def test_limits(
    hard: int, *, for_good: bool, expected: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(hard=hard)
    monkeypatch.setattr(memory, "resource", limits)
    lift = memory.limit_data(5, for_good=for_good)
    assert limits.now == expected
    assert lift is not None
    lift()
    assert limits.now == (-1, hard)


def test_limits_that_cannot_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (None, Limits(is_forbidden=True)):
        monkeypatch.setattr(memory, "resource", module)
        assert memory.limit_data(5) is None


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_limit_holds() -> None:
    code = (
        "from xoptim.system.machine import limit_data, require_memory, data_size\n"
        "limit_data(data_size() + (64 << 20)); require_memory(1 << 20)\n"
        "try: require_memory(1 << 30)\n"
        "except MemoryError: print('refused')"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "refused\n"
    )


def test_memory_is_asked_for_in_the_way_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows maps memory without flags."""
    asked: list[dict[str, Any]] = []
    real = mmap.mmap

    def mapped(_file: int, size: int, **options: Any) -> mmap.mmap:
        asked.append(options)
        return real(-1, size)

    monkeypatch.setattr(mmap, "mmap", mapped)
    for platform in ("win32", "linux", "darwin"):
        monkeypatch.setattr(sys, "platform", platform)
        memory.require_memory(1)
    assert [bool(options) for options in asked] == [False, True, True]
