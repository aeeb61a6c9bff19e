"""Fixtures and order of all tests."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Reset the log of xoptim to that of a new process: the verbosity of one test must not affect another."""
    logger = logging.getLogger("xoptim")
    handlers = list(logger.handlers)
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = []
    yield
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = handlers


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Exclude objects that earlier tests keep from later garbage collections, which otherwise take up to two seconds each."""
    gc.collect()
    gc.freeze()


LONG = ("test_drawn_graphs.py", "test_conformance.py")
"""Files that take minutes: they start first, so that no process runs one of them alone at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Run the tests of a file in one process, since they share fixtures; a test can set another group."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    yield
    items.sort(key=lambda item: item.path.name not in LONG)
