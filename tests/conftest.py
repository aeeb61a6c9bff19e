"""What every test starts from."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """The log of xoptim as a new process has it: verbosity in one test must not show in another."""
    logger = logging.getLogger("xoptim")
    handlers = list(logger.handlers)
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = []
    yield
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = handlers
