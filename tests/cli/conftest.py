"""The command in an empty folder of its own, and patterns that are installed for one test."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from tests.cli.command import Xopt, runner
from xoptim import installed_patterns
from xoptim.catalogue import discovery


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def xopt(capsys: pytest.CaptureFixture[str]) -> Xopt:
    """Runs a command line."""
    return runner(capsys)


@pytest.fixture
def bad_patterns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The patterns of ``bad_patterns.py`` are installed, the way a pack is."""
    pack = EntryPoint("bad", "tests.cli.bad_patterns", discovery.GROUP)
    found = list(entry_points(group=discovery.GROUP))
    monkeypatch.setattr("xoptim.catalogue.discovery.entry_points", lambda group: [*found, pack])
    installed_patterns.cache_clear()
    yield
    installed_patterns.cache_clear()
