"""Patterns that do nothing, in place of the installed ones."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from xoptim import PatternOptimization
from xoptim.catalogue.database import PatternSequence

Install = Callable[..., PatternSequence]
"""Makes pattern classes the installed ones, in place of all others; returns the principal database."""


def toy(name: str, base: type[PatternOptimization] = PatternOptimization, **attributes: Any) -> type[PatternOptimization]:
    """A pattern class with some metadata."""
    return type(f"{name}Pattern", (base,), attributes)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings so far, which are forgotten then."""
    found = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    return found
