"""Calls that may not return."""

import subprocess
import sys
import threading
import time

import pytest

from xoptim.system.threads import NotEndingError, ThreadCall, any_abandoned


def test_results_and_errors() -> None:
    assert ThreadCall(lambda: 7, lambda: None).within(60, None) == 7
    with pytest.raises(KeyError, match="no"):
        ThreadCall(lambda: dict[str, int]()["no"], lambda: None).within(60, 60)
    assert not any_abandoned()


@pytest.mark.parametrize("last", [None, 60.0])
def test_a_call_that_stops(last: float | None) -> None:
    stopped = threading.Event()
    with pytest.raises(TimeoutError):
        ThreadCall(lambda: stopped.wait(60), stopped.set).within(0.01, last)
    assert stopped.is_set()
    assert not any_abandoned()


def test_a_call_that_does_not_stop_is_abandoned() -> None:
    asked, ended = threading.Event(), threading.Event()
    with pytest.raises(NotEndingError):
        ThreadCall(lambda: ended.wait(60), asked.set).within(0.01, 0.05)
    assert asked.is_set()
    assert any_abandoned()
    ended.set()
    for _ in range(1000):
        if not any_abandoned():
            return
        time.sleep(0.01)
    pytest.fail("the call has ended")


def test_an_interrupt_stops_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    wait = threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if event is stopped:
            return wait(event, timeout)
        monkeypatch.setattr(threading.Event, "wait", wait)
        raise KeyboardInterrupt

    call = ThreadCall(lambda: stopped.wait(60), stopped.set)
    monkeypatch.setattr(threading.Event, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call.within(60, 60)
    assert stopped.is_set()
    assert not any_abandoned()


@pytest.mark.skipif(sys.platform == "win32", reason="a signal of POSIX")
def test_a_call_that_an_interrupt_does_not_stop_is_known() -> None:
    """`threading.Thread.join` takes a thread to have ended when a signal interrupts it."""
    code = """
import os, signal, threading, time
from xoptim.system.threads import ThreadCall, any_abandoned
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    ThreadCall(lambda: time.sleep(60), lambda: None).within(60, None)
except KeyboardInterrupt:
    os.write(1, b"abandoned" if any_abandoned() else b"ended")
os._exit(0)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("abandoned", "")
