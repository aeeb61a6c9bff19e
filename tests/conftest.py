"""Fixtures and order of all tests."""

import gc
import logging
from collections.abc import Iterator
from importlib import import_module
from typing import Any

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


_BRIEFLY = {
    ("xoptim.bench.rounds", "_WARM"): 0.0,
    ("xoptim.bench.rounds", "_TURN"): 0.0,
    ("xoptim.tuning.measurement", "_TURNS"): 0.001,
    ("xoptim.tuning.measurement", "PROFILED"): 0.001,
    ("xoptim.tuning.speed", "SECONDS"): 0.1,
    ("xoptim.cli.commands.optimize", "PATIENCE"): 0.01,
    ("xoptim.cli.commands.report", "PATIENCE"): 0.01,
}
"""Seconds of measurements. Each of them has a fewest number of runs besides, which is left as it is."""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements take few runs, for tests to which the values of the figures do not matter."""
    for (module, name), seconds in _BRIEFLY.items():
        monkeypatch.setattr(import_module(module), name, seconds)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything with fewer bits is taken for faster, whatever it takes here."""
    monkeypatch.setattr("xoptim.precision.attempts.worthwhile", lambda products, _: list(products))
    monkeypatch.setattr(
        "xoptim.precision.attempts.fastest", lambda _, made, __: next((each for each in made if each.patterns), None)
    )


LEFT_OUT = pytest.StashKey[int]()
"""Number of slow tests that the options leave out."""


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Run the tests of a file in one process, since they share fixtures; a test can set another group.

    Files with slow tests start first, so that no process runs one of them alone at the end.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    yield
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the slow tests."""
    if items:
        stash = items[0].config.stash
        stash[LEFT_OUT] = stash.get(LEFT_OUT, 0) + sum(item.get_closest_marker("slow") is not None for item in items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Each process has seen all tests; the one that prints has seen none when there are several."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear from one of several processes."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was not run."""
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out and config.option.markexpr:
        terminalreporter.write_line(f"{left_out} slow tests left out: make test runs them")
