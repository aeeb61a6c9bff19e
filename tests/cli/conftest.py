"""The command in an empty folder of its own, and patterns that are installed for one test."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from tests.cli.command import Xopt, runner
from xoptim.bench.options import BenchOptions
from xoptim.catalogue import discovery

MOMENT = 0.1  # seconds


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Xopt:
    """Runs a command line; one that takes long on a busy machine says nothing of it."""
    monkeypatch.setattr("xoptim.cli.progress._SECONDS", 3600.0)
    return runner(capsys)


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements take a moment only, for tests to which the numbers do not matter."""
    monkeypatch.setattr("xoptim.cli.commands.optimize.PATIENCE", MOMENT)
    monkeypatch.setattr("xoptim.cli.commands.diff.PATIENCE", MOMENT)
    usual = BenchOptions.__init__.__kwdefaults__
    assert usual is not None
    monkeypatch.setitem(usual, "seconds", MOMENT)


@pytest.fixture
def bad_patterns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The patterns of ``bad_patterns.py`` are installed, the way a pack is."""
    pack = EntryPoint("bad", "tests.cli.bad_patterns", discovery.GROUP)
    found = list(entry_points(group=discovery.GROUP))
    monkeypatch.setattr("xoptim.catalogue.discovery.entry_points", lambda group: [*found, pack])
    discovery.refresh()
    yield
    discovery.refresh()
