"""Fixtures and order of all tests."""

import gc
import logging
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import onnx
import pytest
from hypothesis import HealthCheck, settings

from tests.share import is_slow_in_share
from xoptim.catalogue import discovery
from xoptim.catalogue.registry import registry
from xoptim.facts import operators as facts_operators
from xoptim.operators.registry import OPERATORS
from xoptim.verification.inputs.work import RunBudget
from xoptim.verification.runs.session_settings import SessionSettings, session_options

settings.register_profile(
    "any machine", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")  # --hypothesis-profile comes later


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    """Reset the log of xoptim to that of a new process: the verbosity of one test must not affect
    another.
    """
    logger = logging.getLogger("xoptim")
    handlers = list(logger.handlers)
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = []
    yield
    logger.setLevel(logging.NOTSET)
    logger.handlers[:] = handlers


@pytest.fixture(autouse=True, scope="module")
def _frozen() -> None:
    """Exclude objects that earlier tests keep from later garbage collections, which otherwise take
    up to two seconds each.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def own_operators() -> Iterator[None]:
    """Facts about custom operators that a test adds are forgotten afterwards."""
    before = {*OPERATORS}
    yield
    for key in OPERATORS.keys() - before:
        definition = OPERATORS.pop(key).schema
        if definition is not None:
            onnx.defs.deregister_schema(
                definition.name, definition.since_version, definition.domain
            )
    facts_operators._CUSTOM_DOMAINS.clear()
    facts_operators.add_schemas([])
    for entry in list(registry()):
        if (
            isinstance(entry.item, type)
            and entry.item.__module__ == "xoptim.match.pack_definitions"
        ):
            registry().remove(entry)
    discovery.use_pack.cache_clear()


_BRIEFLY = {
    ("xoptim.bench.rounds", "_WARM_SECONDS"): 0.0,
    ("xoptim.bench.rounds", "_TURN_SECONDS"): 0.0,
    ("xoptim.tuning.measurement", "_MAX_TURN_SECONDS"): 0.001,
    ("xoptim.tuning.measurement", "PROFILE_SECONDS"): 0.001,
    ("xoptim.tuning.speed", "SECONDS"): 0.1,
    ("xoptim.cli.commands.optimize", "PATIENCE"): 0.01,
    ("xoptim.cli.commands.diff", "PATIENCE"): 0.01,
}
"""Seconds of measurements.

Each of them has a fewest number of runs besides, which is left as it is.
"""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements take few runs, for tests to which the values of the figures do not matter."""
    for (module, name), seconds in _BRIEFLY.items():
        monkeypatch.setattr(import_module(module), name, seconds)


_OF_AN_OPERATION = 5e-11
_OF_A_RUN = 1e-6


class _EvenBudget(RunBudget):
    """Takes the time of a run from its work, not from a clock: a busy machine leaves out no run."""

    def charge(self, work: int, seconds: float) -> None:
        super().charge(work, _OF_A_RUN + work * _OF_AN_OPERATION)

    def spend(self, seconds: float) -> None:
        super().spend(_OF_A_RUN)


def _calmly(settings: SessionSettings) -> Any:
    """The options of a session whose threads wait without spinning: sessions of small models take a
    fifth of the time.
    """
    options = session_options(settings)
    if "session.intra_op.allow_spinning" not in dict(settings.entries):
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


@pytest.fixture(autouse=True, scope="session")
def _even_runs() -> Iterator[None]:
    """The runs of a verification do not depend on the speed of the machine, and take little."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xoptim.verification.inputs.reference.RunBudget", _EvenBudget)
        patched.setattr("xoptim.verification.runs.session.session_options", _calmly)
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The settings file of the user who runs the tests does not count."""
    with pytest.MonkeyPatch.context() as patched:
        folder = str(tmp_path_factory.mktemp("config"))
        for name in ("XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"):
            patched.setenv(name, folder)
        yield


@pytest.fixture(autouse=True)
def _own_signals() -> Iterator[None]:
    """A test that runs a command in this process leaves no handler of signals: children would
    inherit it.
    """
    numbers = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", None))
        if number is not None
    ]
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture
def faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything quantized is assumed to be faster, whatever it takes here."""
    monkeypatch.setattr("xoptim.precision.attempts.worthwhile", lambda measured, _: list(measured))
    monkeypatch.setattr(
        "xoptim.precision.attempts.fastest",
        lambda _, made, __, ___: next((each for each in made if each.applied), None),
    )


SKIPPED = pytest.StashKey[int]()
"""Number of slow tests that the options leave out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that run the tests of some files, or some tests, only."""
    parser.addoption(
        "--share",
        default="0/1",
        metavar="K/N",
        help="run the tests of every N-th file, from number K on",
    )
    parser.addoption(
        "--shard",
        default="1/1",
        type=shard_of,
        metavar="K/N",
        help="run the part K of N of all tests, from 1 on; each test is in one part",
    )


def shard_of(text: str) -> tuple[int, int]:
    """The number and the count of a shard ``K/N``."""
    number, count = map(int, text.split("/"))
    if not 1 <= number <= count:
        raise ValueError(f"{text} is not a part from 1/{count} to {count}/{count}")
    return number, count


def is_in_shard(test: str, shard: tuple[int, int]) -> bool:
    """Whether a test belongs to a shard, by its name: other tests do not matter."""
    number, count = shard
    return crc32(test.encode()) % count == number - 1


def is_in_share(path: Path, share: str) -> bool:
    """Whether a file belongs to a share ``K/N`` of all files, by its name: other files do not
    matter.
    """
    number, count = map(int, share.split("/"))
    return crc32(path.name.encode()) % count == number


def _is_left_out(item: pytest.Item) -> bool:
    """Whether a test is slow, and not in the share of slow tests."""
    if item.get_closest_marker("slow") is None:
        return False
    module = vars(getattr(item, "module", None) or item)
    return not is_slow_in_share(item.nodeid, item.path, module)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Run the tests of a file in one process, since they share fixtures.

    A test can set another group.

    Files with slow tests start first, so that no process runs one of them alone at the end.
    """
    items[:] = [
        item
        for item in items
        if is_in_share(item.path, config.option.share)
        and is_in_shard(item.nodeid, config.option.shard)
    ]
    if config.args_source is not config.ArgsSource.ARGS:  # named files run whole
        left = [item for item in items if _is_left_out(item)]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not _is_left_out(item)]
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path)))
    yield
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count the slow tests."""
    if items:
        stash = items[0].config.stash
        stash[SKIPPED] = stash.get(SKIPPED, 0) + sum(
            item.get_closest_marker("slow") is not None for item in items
        )


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Each process has seen all tests; the one that prints has seen none when there are several."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left out"] = session.config.stash.get(SKIPPED, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear from one of several processes."""
    node.config.stash[SKIPPED] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was not run."""
    dropped = config.stash.get(SKIPPED, 0)
    if dropped and config.option.markexpr:
        terminalreporter.write_line(f"{dropped} slow tests left out: make test runs some of them")
    elif dropped and not config.option.keyword:
        terminalreporter.write_line(f"{dropped} slow tests left out: make batteries runs all")
