"""Calls that may not return."""

import threading

import pytest

from xoptim.system.threads import Call, NotEndingError, any_abandoned


def test_results_and_errors() -> None:
    assert Call(lambda: 7, lambda: None).within(60, None) == 7
    with pytest.raises(KeyError, match="no"):
        Call(lambda: dict[str, int]()["no"], lambda: None).within(60, 60)
    assert not any_abandoned()


@pytest.mark.parametrize("last", [None, 60.0])
def test_a_call_that_stops(last: float | None) -> None:
    stopped = threading.Event()
    with pytest.raises(TimeoutError):
        Call(lambda: stopped.wait(60), stopped.set).within(0.01, last)
    assert stopped.is_set()
    assert not any_abandoned()


def test_a_call_that_does_not_stop_is_abandoned() -> None:
    asked, ended = threading.Event(), threading.Event()
    with pytest.raises(NotEndingError):
        Call(lambda: ended.wait(60), asked.set).within(0.01, 0.05)
    assert asked.is_set()
    assert any_abandoned()
    ended.set()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and thread.daemon:
            thread.join(10)
    assert not any_abandoned()


def test_an_interrupt_stops_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    join = threading.Thread.join

    def interrupted(thread: threading.Thread, timeout: float | None = None) -> None:
        monkeypatch.setattr(threading.Thread, "join", join)
        raise KeyboardInterrupt

    call = Call(lambda: stopped.wait(60), stopped.set)
    monkeypatch.setattr(threading.Thread, "join", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call.within(60, 60)
    assert stopped.is_set()
    assert not any_abandoned()
