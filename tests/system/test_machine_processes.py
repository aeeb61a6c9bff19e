"""Groups of processes, signals and copies, on POSIX and on Windows."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from xoptim.system import machine as processes

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="signals and copies of Linux")


def test_options_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 512, raising=False)
    for platform, options in (
        ("linux", {"start_new_session": True}),
        ("darwin", {"start_new_session": True}),
        ("win32", {"creationflags": 512}),
    ):
        monkeypatch.setattr(sys, "platform", platform)
        assert processes.own_group() == options


@on_linux
def test_a_group_ends_as_a_whole() -> None:
    """The grandchild holds the pipe open until it is ended, too."""
    inner = "import time; time.sleep(300)"
    code = (
        f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}]); "
        f"print(flush=True); {inner}"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, **processes.own_group()
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        processes.kill_group(process)
        assert process.stdout.read() == b""
        assert process.wait(60) == -9


def test_a_process_ends_alone_where_there_are_no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "killpg", raising=False)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"]) as process:
        processes.kill_group(process)
        assert process.wait(60)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a signal, which Python handles a moment after the system delivers it."""
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)


def test_the_request_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It calls what is set, in the ways of POSIX and of Windows."""
    called: list[Any] = []
    before = signal.getsignal(signal.SIGTERM)
    try:
        processes.on_request_to_end(lambda number, _: called.append(number))
        for platform in (sys.platform, "win32"):
            monkeypatch.setattr(sys, "platform", platform)
            processes.end_this_process()
        wait_until(lambda: len(called) == 2)
        assert called == [signal.SIGTERM] * 2
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        processes.on_request_to_end(called.append)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN, "the parent ignores it"
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("system", "code", "text"),
    [
        ("linux", 3, "ended with the exit code 3"),
        ("darwin", -15, "ended by SIGTERM"),
        ("linux", -99, "ended by signal 99"),
        ("win32", 3221225477, "ended with the exit code 3221225477"),
        ("win32", -15, "ended by signal 15"),
    ],
)
def test_how_a_process_ended(
    system: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert processes.end_text(code) == text


@on_linux
def test_a_limit_of_processor_time(monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "from xoptim.system.machine import limit_processor_time as limit; limit(0.1)\nwhile True: "
        "pass"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode
        == -signal.SIGPROF
    )
    monkeypatch.delattr(signal, "setitimer")
    processes.limit_processor_time(1.0)


@on_linux
def test_a_copy_that_crashes_is_replaced() -> None:
    code = (
        "import os, sys; from xoptim.system.machine import continue_in_fork\n"
        "crashes = []\n"
        "if continue_in_fork(crashes.append): os._exit((3, 4, 0)[len(crashes)])\n"
        "print(crashes)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[3, 4]\n"
    )


@on_linux
@pytest.mark.parametrize(("end", "code"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9)])
def test_the_end_of_a_child(end: str, code: int) -> None:
    text = "import os; from xoptim.system.machine import continue_in_child\n"
    text += "code = continue_in_child(5)\n"
    text += f"if code is None: {end}\nprint(code.code)"
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == f"{code}\n"


@on_linux
def test_no_child_next_to_threads() -> None:
    """Whether they are Python's or a library's: they would receive the signals of this process."""
    text = "import threading, _thread, time; from xoptim.system.machine import continue_in_child\n"
    text += (
        "_thread.start_new_thread(time.sleep, (300,))\n"
        "assert threading.active_count() == 1\n"
        "print(continue_in_child(5), flush=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "None\n"


def test_systems_without_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork", raising=False)
    for platform in ("darwin", "win32"):
        monkeypatch.setattr(sys, "platform", platform)
        assert processes.continue_in_fork(lambda _: None)
        assert processes.continue_in_child(5) is None


def test_output_of_libraries_is_dropped(capfd: pytest.CaptureFixture[str]) -> None:
    os.write(1, b"before\n")
    with processes.without_output():
        os.write(1, b"noise\n")
    os.write(1, b"after\n")
    assert capfd.readouterr() == ("before\nafter\n", "")
