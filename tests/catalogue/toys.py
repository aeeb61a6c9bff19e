"""Patterns that do nothing, in place of the installed ones."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from xoptim import PatternOptimization, Rewrite
from xoptim.dialects.database import PatternSequence

Install = Callable[..., PatternSequence]
"""Makes pattern classes the installed ones, in place of all others.

Returns the principal database.
"""


def toy(name: str, base: type[Rewrite] = PatternOptimization, **attributes: Any) -> Any:
    """A class of a pattern, or of another kind of rewrite, with some metadata."""
    return type(f"{name}Pattern", (base,), attributes)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings so far, which are forgotten then."""
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found
