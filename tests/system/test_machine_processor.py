"""The processor, on systems that describe it and on others."""

import os
import sys
import time
from pathlib import Path

import pytest

from xoptim.system import machine as processor


def test_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container or `taskset` restricts the process; macOS and Windows know the machine only."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 5, 7}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    assert processor.cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processor.cores() == 16
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processor.cores() == 1


@pytest.mark.parametrize(
    ("text", "name", "instructions"),
    [
        (
            "model name\t: Fast 9000\nflags\t\t: sse avx\n\nmodel name\t: other\nflags\t: mmx\n",
            "Fast 9000",
            {"sse", "avx"},
        ),
        ("processor\t: 0\nFeatures\t: fp asimddp\n", "of platform", {"fp", "asimddp"}),
        ("processor\t: 0\n", "of platform", set()),
        (None, "of platform", None),
    ],
)
def test_description(
    text: str | None,
    name: str,
    instructions: set[str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processor, "_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr("platform.processor", lambda: "of platform")
    if text is not None:
        (tmp_path / "cpuinfo").write_text(text)
    assert processor.processor() == name
    assert processor.instructions() == instructions


def test_the_clock_of_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert processor.clock_of_thread() is time.thread_time
    monkeypatch.setattr(sys, "platform", "win32")
    assert processor.clock_of_thread() is time.perf_counter


def test_the_time_that_the_cores_were_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the cores of this process; time in which they were idle, or waited, does not count."""
    monkeypatch.setattr(processor, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda _: 100, raising=False)
    assert processor.busy_seconds() == 0
    (tmp_path / "proc").mkdir()
    row = "100 20 30 5000 700 4 5 6 900 0"
    lines = [f"cpu  {row}", f"cpu0 {row}", f"cpu1 {row}", f"cpu2 {row}", "intr 5", ""]
    (tmp_path / "proc/stat").write_text("\n".join(lines))
    assert processor.busy_seconds() == pytest.approx(2 * 1.65)
    monkeypatch.delattr(os, "sched_getaffinity")
    assert processor.busy_seconds() == 0


def test_clock_rates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_INFO", tmp_path / "cpuinfo")
    assert processor.clock_rates() == []
    (tmp_path / "cpuinfo").write_text("cpu MHz\t\t: 2100.5\nflags\t: a\ncpu MHz\t\t: 800\n")
    assert processor.clock_rates() == [2100.5, 800.0]
