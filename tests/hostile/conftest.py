"""The command, in this process or in one of its own, in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from xoptim.cli.main import run

from tests.cli.command import Outcome, Xopt


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder in an empty folder."""
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """Runs a command line."""

    def command(*words: str | Path) -> Outcome:
        capsys.readouterr()
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return command
