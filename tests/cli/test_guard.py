"""A command whose process dies, and signals that its parent gets."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

from tests.support import parse

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="signals are passed on with means of Linux"
)


def start(code: str, *words: str) -> subprocess.Popen[str]:
    """A process that runs code as the command of a guard, and reacts to signals also where this one
    ignores them.
    """
    start = (
        "import os, signal, sys, time\n"
        "from xoptim.cli.guard import guarded, note\n"
        "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):\n"
        "    signal.signal(number, signal.SIG_DFL)\n"
        "def command():\n"
        "    "
    )
    return subprocess.Popen(
        [sys.executable, "-c", f"{start}{code}\nguarded(command)", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("code", "ended", "said"),
    [
        ("sys.exit(3)", 3, ""),
        ("pass", 0, ""),
        (
            "os.kill(os.getpid(), signal.SIGKILL)",
            137,
            "SIGKILL, most likely out of memory; nothing was written",
        ),
        (
            "note('loading'); os.abort()",
            134,
            "SIGABRT at the step 'loading', most likely a bug in onnxruntime",
        ),
        ("sys.exit('no file')", 1, "no file"),
    ],
)
def test_the_end_of_a_command(code: str, ended: int, said: str) -> None:
    process = start(code)
    _, error = process.communicate(timeout=300)
    assert process.returncode == ended
    assert said in error if said else not error
    assert error.count("\n") == bool(said)


ENDS = """from xoptim.system.crashes import WATCH
    key = {key}
    if WATCH.end_of(key):
        print("left out", WATCH.crashes[0].sizes, WATCH.end_at({{"n": 1}}))
        return
    note("verifying")
    with WATCH.at({{"n": 2}}, is_trial=True), WATCH.doing(key):
        os.kill(os.getpid(), signal.SIGFPE)
"""


def test_a_run_that_ends_the_process_is_left_out() -> None:
    process = start(ENDS.format(key="'k'"))
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out == "left out {'n': 2} SIGFPE\n"
    assert re.match("xopt: warning: .* n=2 .*SIGFPE.* --dim n=8 .*\n$", error)


def test_a_command_that_does_not_get_on_ends() -> None:
    process = start(ENDS.format(key="str(len(WATCH.crashes))"))
    out, error = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGFPE
    assert out == ""
    *warnings, last = error.splitlines()
    assert len(warnings) == 4
    assert re.match("xopt: error: .*SIGFPE .*'verifying' .* n=2, .*nothing .* --dim n=8 ", last)


def test_names_of_dimensions_are_escaped() -> None:
    process = start(ENDS.format(key="'k'").replace('{"n": 2}', '{"n\\x1b[2J\\n\\ud800": 2}'))
    _, error = process.communicate(timeout=300)
    assert error.count("\n") == 1
    assert " n\\x1b[2J\\n\\ud800=2 " in error


def test_a_command_that_reads_a_stream_does_not_begin_anew() -> None:
    process = start(ENDS.format(key="'k'"), "-")
    _, error = process.communicate(timeout=300)
    assert process.returncode == 128 + signal.SIGFPE
    assert error.count("\n") == 1


@pytest.mark.slow
def test_verification_goes_on_without_sizes_that_end_the_process(tmp_path: Path) -> None:
    model = parse("agraph (float[n] x) => (float[n] y) { y = Neg(x) }")
    onnx.save(model, tmp_path / "m.onnx")
    patch = """from xoptim.verification.runs.session import Session
    plain = Session._results
    def results(self, feeds, limit):
        if len(feeds["x"]) == 1:
            os.kill(os.getpid(), signal.SIGFPE)
        return plain(self, feeds, limit)
    Session._results = results
    from xoptim.cli.main import main
    """
    file = str(tmp_path / "m.onnx")
    process = start(f"{patch}main()", "verify", file, file)
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0
    assert out.startswith("equal ")
    assert re.search(r" n=1 .*\(SIGFPE\)", out)
    assert re.search(" n=1 .*SIGFPE", error)


def test_a_parent_that_ignores_the_ends_of_its_children() -> None:
    ignoring = "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
    code = "from xoptim.cli.guard import guarded; import sys; guarded(lambda: sys.exit(3))"
    start = f"import os; os.execv(sys.executable, [sys.executable, '-c', {code!r}])"
    assert (
        subprocess.run(
            [sys.executable, "-c", f"{ignoring}; {start}"], check=False, timeout=300
        ).returncode
        == 3
    )


@pytest.mark.parametrize(
    ("number", "ended"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_signals_reach_the_command(number: signal.Signals, ended: int) -> None:
    handler = f"signal.signal({int(number)}, lambda *_: sys.exit({ended}))"
    with start(f"{handler}; print('ready', flush=True); time.sleep(60)") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(30) == ended


def test_the_command_ends_when_its_parent_is_killed() -> None:
    with start("print(os.getpid(), flush=True); time.sleep(60)") as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.kill()
    for _ in range(300):
        state = Path(f"/proc/{child}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the command goes on")


def test_the_one_process_of_a_thread_runs_the_command_itself() -> None:
    """A fork would lose the threads."""
    code = (
        "pass\n"
        "import threading\n"
        "threading.Thread(target=time.sleep, args=(1,), daemon=True).start()\n"
        "parent = os.getpid()\n"
    )
    process = start(f"{code}def command():\n    print(os.getpid() == parent)")
    assert process.communicate(timeout=300)[0] == "True\n"
