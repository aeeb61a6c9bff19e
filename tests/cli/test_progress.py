"""The line that moves while the command works, on terminals only."""

from itertools import count
from threading import Event as Signal

import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, types_in, write
from tests.precision.models import network
from tests.support import values_in
from xoptim.cli.progress import Progress
from xoptim.engine.events import Event
from xoptim.facts.progress import StageProgress

MOVES = "\x1b[?25l"  # hides the cursor


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error passes for a terminal."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")


@pytest.mark.usefixtures("terminal")
def test_steps_and_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(enabled=True) as progress:
        assert progress.shown
        progress.say("loading")
        for event in (Event("matched"), Event("applied"), Event("applied")):
            progress.event(event)
        progress.event(Event("round", nodes=7))
        assert progress._status is not None
        assert values_in(str(progress._status.status)) == ["7", "2"]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert MOVES in captured.err


def test_nothing_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(enabled=True) as progress:
        assert not progress.shown
        progress.say("loading")
        progress.event(Event("applied"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal")
def test_not_when_it_would_disturb(xopt: Xopt) -> None:
    write(TRANSPOSES)
    assert MOVES in xopt("model.onnx").err
    for words in (("-q",), ("--json",), ("-v",)):
        assert MOVES not in xopt("model.onnx", *words).err
    assert types_in("model.opt.onnx") == ["Relu"]


def test_a_line_every_ten_seconds_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 9.9, 10.0, 15.0, 20.5, 30.0])
    with Progress(enabled=True, clock=lambda: next(times)) as progress:
        for count in range(5):
            progress.say(f"measuring the error of each operator: {count} of 5")
    lines = [f"xopt: measuring the error of each operator: {count} of 5" for count in (1, 3)]
    assert capsys.readouterr() == ("", "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize(
    ("seconds", "done", "text"),
    [
        (40.0, 0, "models: 0 of 4 (40 s)"),
        (40.0, 2, "models: 2 of 4, 40 s left"),
        (119.0, 2, "models: 2 of 4, 119 s left"),
        (120.0, 2, "models: 2 of 4, 2 min left"),
        (3600.0, 1, "models: 1 of 4, 3 h left"),
    ],
)
def test_the_time_left(
    capsys: pytest.CaptureFixture[str], seconds: float, done: int, text: str
) -> None:
    """It counts from the beginning of the stage."""
    times = iter([0.0, 5.0, 5.0 + seconds])
    progress = Progress(enabled=True, clock=lambda: next(times))
    for number in (0, done):
        progress.say(StageProgress("models", number, 4))
    assert capsys.readouterr() == ("", f"xopt: {text}\n")


def test_a_step_that_takes_long_is_said_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while nothing new is said, until the end."""
    monkeypatch.setattr("xoptim.cli.progress._PERIOD", 0.001)
    seconds = count(0.0, 1.0)
    is_logged = Signal()

    def clock() -> float:
        now = next(seconds)
        if now == 25.0:
            is_logged.set()
        return now

    progress = Progress(enabled=True, clock=clock)
    progress.say("verifying")
    with progress:
        assert is_logged.wait(60)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ["xopt: verifying", "xopt: verifying (19 s)"]


def test_quiet_logs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 100.0])
    with Progress(enabled=False, clock=lambda: next(times)) as progress:
        progress.say("measuring")
    assert capsys.readouterr() == ("", "")


def test_operators_are_counted(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a line where ten seconds pass between two of them."""
    clock = count(0.0, 10.0)
    monkeypatch.setattr("xoptim.cli.progress._SECONDS", 10.0)
    monkeypatch.setattr("xoptim.cli.progress._PERIOD", 3600.0)  # steps alone read the clock
    monkeypatch.setattr(Progress.__init__, "__kwdefaults__", {"clock": lambda: next(clock)})
    onnx.save(network(layers=1), "model.onnx")
    options = ("--precision", "int8", "--for", "size", "--tolerance", "20%")
    lines = xopt("model.onnx", *options).err.splitlines()
    for stage in ("time of each operator", "error of each operator", "error of each constant"):
        text = f"xopt: measuring the {stage}: "
        counts = [line.removeprefix(text) for line in lines if line.startswith(text)]
        total = int(counts[0].rpartition(" ")[2])
        left = [f", {10 * (total - done)} s left" if done else "" for done in range(total)]
        assert total <= 12, "more would be minutes"
        assert counts == [f"{done} of {total}{left[done]}" for done in range(total)]
    assert xopt("model.onnx", *options, "-q").err == ""


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (("model.onnx", "-o", "out.onnx"), "verifying: comparing runs: 1 of "),
        (("verify", "model.onnx", "model.onnx"), "verifying"),
        (("bench", "model.onnx", "--seconds", "0.01"), "measuring"),
        (("tune", "model.onnx", "-o", "out.onnx", "--budget", "1"), "profiling"),
        (("batch", "model.onnx", "-o", "out"), "models: 0 of 1"),
    ],
)
def test_long_work_says_what_it_does(
    xopt: Xopt, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], step: str
) -> None:
    clock = count(0.0, 10.0)
    monkeypatch.setattr("xoptim.cli.progress._SECONDS", 10.0)
    monkeypatch.setattr("xoptim.cli.progress._PERIOD", 3600.0)
    monkeypatch.setattr(Progress.__init__, "__kwdefaults__", {"clock": lambda: next(clock)})
    write(TRANSPOSES)
    lines = xopt(*words).err.splitlines()
    assert any(line.startswith(f"xopt: {step}") for line in lines)
    assert xopt(*words, "-q").err == ""
