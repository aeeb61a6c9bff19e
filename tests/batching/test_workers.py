"""Processes that end by themselves, processes that are ended, and processes that are kept."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from xoptim.batching import workers
from xoptim.batching.workers import Workers, run_command
from xoptim.system.machine import CAN_FORK
from xoptim.system.supervised import CommandResult

REAL = workers.CODE
ONE = "import json, sys; memory, text = json.loads(sys.stdin.readline()); exec(text)"
"""The command is a piece of Python."""
MANY = """
import json, os, sys
for line in sys.stdin:
    memory, text = json.loads(line)
    code = 0
    try:
        exec(text)
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    os.write(int(sys.argv[1]), str(code).encode())
"""
"""The same in a process that goes on."""
copies = pytest.mark.skipif(not CAN_FORK, reason="processes are not copied")


@pytest.fixture(autouse=True)
def _python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CODE", ONE)
    monkeypatch.setattr("xoptim.system.supervised.GRACE", 0.5)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Processes that go on."""
    monkeypatch.setattr(workers, "CODE", MANY)
    with closing(Workers()) as processes:
        yield processes


def run(processes: Workers, text: str, timeout: float | None = None) -> CommandResult:
    return processes.run([text], timeout=timeout, memory=None, is_needed=lambda: True)


def test_output_and_code() -> None:
    text = "print(memory); print('x' * 200_000 + 'end', file=sys.stderr); sys.exit(3)"
    ended = run_command([text], timeout=None, memory=10**9)
    assert (ended.code, ended.out, ended.cut_off) == (3, "1000000000\n", "")
    assert len(ended.err) == 1 << 16
    assert ended.err.endswith("end\n")


@pytest.mark.slow
def test_one_that_ignores_the_request_to_end() -> None:
    text = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    ended = run_command([text], timeout=1.0, memory=None)
    assert ended.cut_off == "timeout"
    assert ended.code in (-9, -15), "SIGTERM when it came before the signal was ignored"


def test_one_that_is_not_needed() -> None:
    ended = run_command(
        ["import time; time.sleep(300)"], timeout=None, memory=None, is_needed=lambda: False
    )
    assert (ended.cut_off, ended.code) == ("not needed", -15)


@pytest.mark.slow
def test_warnings_as_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of the real command gives none."""
    monkeypatch.setattr(workers, "CODE", REAL)
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    ended = run_command(["--version"], timeout=None, memory=None)
    assert (ended.code, ended.err) == (0, "")


def test_standard_input_is_open_until_it_ends() -> None:
    text = "import os, select; print(select.select([0], [], [], 0.1)[0])"
    assert run_command([text], timeout=None, memory=None).out == "[]\n"


@copies
def test_a_process_is_kept(kept: Workers) -> None:
    """A command sees nothing of the output of the one before."""
    text = "print(os.getpid(), 'x' * {}); print('e' * {}, file=sys.stderr); sys.exit({})"
    first, second = run(kept, text.format(10, 20, 2)), run(kept, text.format(1, 2, 0))
    process = first.out.split()[0]
    assert (first.code, first.out, first.err) == (2, f"{process} {'x' * 10}\n", f"{'e' * 20}\n")
    assert (second.code, second.out, second.err) == (0, f"{process} x\n", "ee\n")


@copies
@pytest.mark.parametrize(
    ("text", "code", "cut_off"),
    [
        ("os.kill(os.getpid(), 9)", -9, ""),
        ("os._exit(139)", 139, ""),
        ("import time; time.sleep(300)", -15, "timeout"),
    ],
)
def test_a_process_that_ends_is_replaced(kept: Workers, text: str, code: int, cut_off: str) -> None:
    pid = "print(os.getpid())"
    before = run(kept, pid).out
    ended = run(kept, text, timeout=1.0)
    assert (ended.code, ended.cut_off) == (code, cut_off)
    after = run(kept, pid)
    assert after.code == 0
    assert after.out != before


@copies
def test_a_process_that_was_killed_while_it_waited(kept: Workers) -> None:
    pid = int(run(kept, "print(os.getpid())").out)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert run(kept, "print(os.getpid())").out != f"{pid}\n"


@copies
def test_no_process_is_left(kept: Workers) -> None:
    pid = int(run(kept, "print(os.getpid())").out)
    kept.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@copies
def test_a_long_command_line(kept: Workers) -> None:
    """Longer than a pipe holds."""
    assert run(kept, f"print(1)  # {'x' * 200_000}").out == "1\n"
