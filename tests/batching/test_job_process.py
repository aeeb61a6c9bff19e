"""Processes that end by themselves, and processes that are ended."""

import pytest

from xoptim.batching import job as process
from xoptim.batching.job import run_command

REAL = process.CODE


@pytest.fixture(autouse=True)
def _python(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command is a piece of Python, in the first word."""
    monkeypatch.setattr(process, "CODE", "import sys; exec(sys.argv[2])")
    monkeypatch.setattr(process, "GRACE", 0.5)


def test_output_and_code() -> None:
    text = "print(sys.argv[1]); print('x' * 200_000 + 'end', file=sys.stderr); sys.exit(3)"
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
    monkeypatch.setattr(process, "CODE", REAL)
    monkeypatch.setenv("PYTHONWARNINGS", "error")
    ended = run_command(["--version"], timeout=None, memory=None)
    assert (ended.code, ended.err) == (0, "")


def test_standard_input_is_open_until_it_ends() -> None:
    text = "import os, select; print(select.select([0], [], [], 0.1)[0])"
    assert run_command([text], timeout=None, memory=None).out == "[]\n"
