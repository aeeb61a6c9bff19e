"""The tests run a second time on a slowed machine, and none decides by a clock."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import loaded
from tests.conftest import is_in_shard, is_in_share, shard_of
from tests.meta.sources import ROOT


def test_each_file_is_in_one_share() -> None:
    files = sorted(ROOT.glob("tests/**/test_*.py"))
    shares = [[path for path in files if is_in_share(path, f"{number}/6")] for number in range(6)]
    assert sorted(path for share in shares for path in share) == files
    assert min(map(len, shares)) > len(files) / 12
    assert all(is_in_share(path, "0/1") for path in files)


def test_each_test_is_in_one_shard() -> None:
    names = [f"tests/test_a.py::test[{number}]" for number in range(1000)]
    shards = [[name for name in names if is_in_shard(name, (n, 10))] for n in range(1, 11)]
    assert sorted(name for shard in shards for name in shard) == sorted(names)
    assert min(map(len, shards)) > 60
    assert all(is_in_shard(name, shard_of("1/1")) for name in names)
    assert shard_of("3/10") == (3, 10)
    for wrong in ("0/3", "4/3"):
        with pytest.raises(ValueError, match="is not a part from 1/3 to 3/3"):
            shard_of(wrong)


@pytest.mark.slow
def test_the_shards_of_a_file_are_all_its_tests() -> None:
    def collected(shard: str) -> list[str]:
        words = ["--collect-only", "-q", "-p", "no:randomly", "--shard", shard]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "-o", "addopts=", "tests/meta/test_limits.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in done.stdout.splitlines() if "::" in line]

    parts = [collected(f"{number}/2") for number in (1, 2)]
    assert all(parts)
    assert set(parts[0]).isdisjoint(parts[1])
    text = (ROOT / "tests" / "meta" / "test_limits.py").read_text(encoding="utf-8")
    functions = set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    assert {
        name.rpartition("::")[2].partition("[")[0] for name in (*parts[0], *parts[1])
    } == functions


def test_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its processes are replaced: a run takes minutes."""
    started: list[list[str]] = []
    killed: list[object] = []

    class Process:
        returncode = 5

        def __init__(self, words: list[str], **how: object) -> None:
            started.append(words)
            environment = how.get("env", {})
            assert "pytest" not in words or (
                isinstance(environment, dict) and environment["OMP_NUM_THREADS"] == "1"
            )

        def kill(self) -> None:
            killed.append(self)

        def wait(self) -> None:
            assert self in killed

    monkeypatch.setattr("subprocess.Popen", Process)
    monkeypatch.setattr("subprocess.run", Process)
    monkeypatch.setattr("os.nice", lambda step: None, raising=False)
    monkeypatch.setattr("sys.argv", ["loaded", "--shares", "6", "tests/graph"])
    monkeypatch.setattr(Process, "returncode", 0)
    assert loaded.main() == 0
    assert len(killed) == loaded.LOOPS
    assert started[-1][-3:] == ["--share", "1/6", "tests/graph"]


def test_continuous_integration_runs_it() -> None:
    for path in (".ci/run", "CONTRIBUTING.md", "Makefile"):
        assert "test-loaded" in Path(ROOT, path).read_text(encoding="utf-8"), path


CLOCKS = {"perf_counter", "perf_counter_ns", "monotonic", "process_time", "thread_time"}
READING = {
    "tests/reporting/test_reports_page_browser.py": "prints how long a page takes",
    "tests/system/test_machine_processor.py": "names the clock that is chosen",
}
"""Tests that name a clock, and why."""


def clocks(text: str) -> Iterator[str]:
    """The clocks that a file names.

    To replace one is to give it as a keyword, or as the name in a text.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names if alias.name in CLOCKS)


def test_no_test_decides_by_a_clock() -> None:
    files = {path.relative_to(ROOT).as_posix(): path for path in ROOT.glob("tests/**/test_*.py")}
    assert {
        name for name, path in files.items() if [*clocks(path.read_text(encoding="utf-8"))]
    } == READING.keys()
    assert [*clocks("import time\nstart = time.monotonic()")] == ["monotonic"]
    assert [*clocks("from time import perf_counter")] == ["perf_counter"]
    assert [*clocks("SimpleNamespace(monotonic=now)")] == []
