"""The line that moves while the command works, on terminals only."""

from itertools import count

import onnx
import pytest

from tests.cli.command import TRANSPOSES, Xopt, types_in, write
from tests.precision.models import network
from xoptim.cli.progress import Progress
from xoptim.engine.events import Event

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
        assert str(progress._status.status) == "optimizing: 7 nodes, 2 rewrites"
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
    with Progress(enabled=True, is_logged=True, clock=lambda: next(times)) as progress:
        for count in range(5):
            progress.say(f"measuring the error of each operator: {count} of 5")
    lines = [f"xopt: measuring the error of each operator: {count} of 5" for count in (1, 3)]
    assert capsys.readouterr() == ("", "".join(f"{line}\n" for line in lines))


def test_quiet_logs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 100.0])
    with Progress(enabled=False, is_logged=True, clock=lambda: next(times)) as progress:
        progress.say("measuring")
    assert capsys.readouterr() == ("", "")


def test_operators_are_counted(xopt: Xopt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is a line where ten seconds pass between two of them."""
    clock = count(0.0, 10.0)
    monkeypatch.setattr(
        Progress.__init__, "__kwdefaults__", {"is_logged": False, "clock": lambda: next(clock)}
    )
    onnx.save(network(layers=1), "model.onnx")
    options = ("--precision", "int8", "--for", "size", "--tolerance", "20%")
    lines = xopt("model.onnx", *options).err.splitlines()
    for stage in ("time of each operator", "error of each operator", "error of each constant"):
        text = f"xopt: measuring the {stage}: "
        counts = [line.removeprefix(text) for line in lines if line.startswith(text)]
        total = int(counts[0].rpartition(" ")[2])
        assert counts == [f"{done} of {total}" for done in range(total)]
    assert xopt("model.onnx", *options, "-q").err == ""
    assert xopt("model.onnx", "-o", "plain.onnx").err == ""
