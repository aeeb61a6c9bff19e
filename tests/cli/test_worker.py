"""The process of models of a batch: copies, limits of memory, and its end."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import onnx
import pytest

from tests.support import parse
from xoptim.batching import workers
from xoptim.batching.workers import Workers
from xoptim.system.supervised import CommandResult

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies and limits of Linux")
CODE = """
import os, signal, sys, time
from types import SimpleNamespace
from xoptim.cli import worker
def run():
    exec(sys.argv[1])
    sys.exit(0)
sys.modules["xoptim.cli.main"] = SimpleNamespace(main=run)
worker._load = lambda: None
worker.main(sys.argv[1:])
"""
"""A process whose commands are pieces of Python."""


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    monkeypatch.setattr(workers, "CODE", CODE)
    with closing(Workers()) as processes:
        yield processes


def run(
    processes: Workers, text: str, timeout: float | None = None, memory: int | None = None
) -> CommandResult:
    return processes.run([text], timeout=timeout, memory=memory, is_needed=lambda: True)


PARENT = "print(os.getppid())"


def test_commands_run_in_copies(kept: Workers) -> None:
    """What one changes, the next does not see."""
    change = "import builtins; builtins.mark = 1; os.environ['MARK'] = '1'; signal.alarm(0)"
    first = run(kept, f"{PARENT}; {change}; sys.exit(3)")
    second = run(kept, f"{PARENT}; print('mark' in dir(__builtins__), 'MARK' in os.environ)")
    assert (first.code, first.err) == (3, "")
    assert (second.code, second.out) == (0, f"{first.out}False False\n")


def test_a_crash_costs_one_model(kept: Workers) -> None:
    before = run(kept, PARENT).out
    crash = run(kept, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert crash.code == 139
    assert re.match("xopt: error: .*SIGSEGV", crash.err)
    after = run(kept, PARENT)
    assert (after.code, after.err) == (0, "")
    assert after.out != before


def test_a_command_that_takes_too_long(kept: Workers) -> None:
    """It is asked to end, and removes its files."""
    clean = "signal.signal(signal.SIGTERM, lambda *_: (print('cleaned'), sys.exit(0)))"
    late = run(kept, f"{clean}; print('ready', flush=True); time.sleep(300)", timeout=3.0)
    assert (late.cut_off, late.out) == ("timeout", "ready\ncleaned\n")
    assert run(kept, PARENT).code == 0


def test_a_run_that_ends_the_process_is_skipped_for_its_model_only(kept: Workers) -> None:
    text = """from xoptim.system.crashes import WATCH
print(len(WATCH.crashes))
sys.stdout.flush()
if not WATCH.crashes:
    with WATCH.at({"n": 2}), WATCH.doing("k"):
        os.kill(os.getpid(), signal.SIGFPE)
"""
    first, second = run(kept, text), run(kept, text)
    assert (first.code, first.out) == (0, "0\n1\n")
    assert re.match("xopt: warning: .* n=2 ", first.err)
    assert (second.code, second.out, second.err) == (first.code, first.out, first.err)


def test_memory_is_limited_for_one_command(kept: Workers) -> None:
    allocate = "[print(len(bytearray(n << 20)), flush=True) for n in (64, 4096)]"
    limited = run(kept, allocate, memory=2 << 30)
    assert limited.out == f"{64 << 20}\n"
    assert "MemoryError" in limited.err
    limits = "import resource; print(*resource.getrlimit(resource.RLIMIT_DATA))"
    assert run(kept, limits, memory=3 << 30).out == f"{3 << 30} {3 << 30}\n"
    assert run(kept, limits).out.split() == ["-1", "-1"]


def test_a_process_with_threads_runs_the_command_itself(
    kept: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy would lose the threads, and the process ends with the command."""
    threads = "import threading; threading.Thread(target=threading.Event().wait, daemon=True)"
    monkeypatch.setattr(workers, "CODE", f"{threads}.start()\n{CODE}")
    pid = "print(os.getpid())"
    first, second = run(kept, f"{pid}; sys.exit(1)"), run(kept, pid)
    assert (first.code, second.code) == (1, 0)
    assert first.out != second.out


@pytest.mark.parametrize("words", [[], ["1"]])
def test_it_ends_when_the_batch_is_killed(words: list[str]) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", CODE, *words]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        request = [0, "print(os.getpid(), flush=True); time.sleep(300)"]
        process.stdin.write(f"{json.dumps(request)}\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(60) == 143
    assert not Path(f"/proc/{child}").exists()


@pytest.mark.slow
def test_what_a_copy_needs_is_loaded(tmp_path: Path) -> None:
    """But no thread is left: a copy would lack it."""
    model = parse("agraph (float[n] x) => (float[n] y) { t = Neg(x) u = Neg(t) y = Relu(u) }")
    onnx.save(model, tmp_path / "m.onnx")
    code = """
import os, sys
from xoptim.cli import worker
worker._load()
loaded = set(sys.modules)
print(os.listdir("/proc/self/task") == [str(os.getpid())], "onnxruntime" in loaded)
from xoptim.cli.main import run
from xoptim.match.easy import _PROGRAMS
compiled = set(_PROGRAMS)
print(run(["--no-config", sys.argv[1], "--dry-run", "--no-verify", "-q"]))
print([name for name in set(sys.modules) - loaded if name.startswith("xoptim.")])
print([pattern for pattern in set(_PROGRAMS) - compiled])
"""
    words = [sys.executable, "-c", code, str(tmp_path / "m.onnx")]
    numbers = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    env = {name: value for name, value in os.environ.items() if name not in numbers}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "True False\n0\n[]\n[]\n"
