"""A catalogue for one test."""

import pytest

from tests.catalogue.toys import Install
from xoptim import Rewrite, database
from xoptim.catalogue.discovery import InstalledPattern
from xoptim.catalogue.entries import warn_once
from xoptim.dialects.database import PatternSequence


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs patterns in place of all others; warnings that were given once are given again."""
    warn_once.cache_clear()

    def replace(*classes: type[Rewrite]) -> PatternSequence:
        ordered = sorted(classes, key=lambda cls: cls.name())
        found = {cls.name(): InstalledPattern(cls, "") for cls in ordered}
        monkeypatch.setattr("xoptim.catalogue.registry.installed", lambda: found)
        return database()

    return replace
