"""The command, in this process or in one of its own, in an empty folder."""

from pathlib import Path

import pytest

from tests.cli.command import Xopt, runner


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder in an empty folder."""
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """Runs a command line."""
    return runner(capsys)
