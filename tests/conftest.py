"""What every test starts from."""

from __future__ import annotations

import gc
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


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Leave whatever earlier tests keep out of later collections of garbage, which took a second or two each in the end."""
    gc.collect()
    gc.freeze()


LONG = ("test_drawn_graphs.py", "test_conformance.py")
"""Files that take minutes: begun first, so that no process works on one of them alone at the end."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Run the tests of a file in one process, for what they share; a test can say otherwise."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    yield
    items.sort(key=lambda item: item.path.name not in LONG)
