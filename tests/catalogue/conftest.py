"""A catalogue for one test."""

import pytest

from tests.catalogue.toys import Install
from xoptim import Rewrite, database
from xoptim.catalogue.database import PatternSequence
from xoptim.catalogue.entries import warn_once


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs patterns in place of all others; warnings that were given once are given again."""
    warn_once.cache_clear()

    def replace(*classes: type[Rewrite]) -> PatternSequence:
        found = {cls.name(): cls for cls in sorted(classes, key=lambda cls: cls.name())}
        monkeypatch.setattr("xoptim.catalogue.database.installed_patterns", lambda: found)
        return database()

    return replace
