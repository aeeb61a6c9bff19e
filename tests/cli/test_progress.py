"""The line that moves while the command works, on terminals only."""

import pytest

from tests.cli.command import TRANSPOSES, Xopt, types_in, write
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
