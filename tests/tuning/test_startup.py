"""Settings for a soon start: only what starts sooner, is not slower, and changes no result."""

import re
from collections.abc import Callable
from dataclasses import replace

import onnx
import pytest

from tests.support import parse
from tests.tuning.fakes import FakeMeter
from tests.verification.test_fatal import PRODUCT
from xoptim.bench import BenchOptions
from xoptim.tuning import startup
from xoptim.tuning.choices import Choice
from xoptim.tuning.startup import NO_PREPACKING, StartupSearch, startup_settings
from xoptim.verification.runs.session_settings import SessionSettings

MODEL = "agraph (float[n,4] x) => (float[n,4] y) { a = Relu(x) y = Sigmoid(a) }"
Costs = Callable[[SessionSettings], float]


def searched(
    monkeypatch: pytest.MonkeyPatch,
    start: Costs,
    run: Costs = lambda _: 1.0,
    change: Callable[[SessionSettings], str] = lambda _: "",
    **meter: object,
) -> startup.Startup:
    """The settings of a model whose times and changes are known."""

    def seconds(choice: Choice) -> float:
        assert choice.settings.threads == 1
        return run(choice.settings)

    monkeypatch.setattr(StartupSearch, "_start", lambda _, settings: start(settings))
    monkeypatch.setattr(StartupSearch, "meter", lambda *_: FakeMeter(seconds, **meter))  # type: ignore[arg-type]
    monkeypatch.setattr(startup, "change_by", lambda _, settings, __: change(settings))
    return startup_settings(parse(MODEL), None, BenchOptions())


def is_unpacked(settings: SessionSettings) -> bool:
    return NO_PREPACKING in settings.entries


def sooner(settings: SessionSettings) -> float:
    """Each step saves a part of the start."""
    level = {"off": 1.0, "extended": 1.5}.get(settings.level, 2.0)
    return level / (2 if is_unpacked(settings) else 1)


def test_the_soonest_start(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, sooner)
    assert (found.settings.level, found.settings.entries) == ("off", (NO_PREPACKING,))
    assert found.settings.threads == 0
    assert found.summary().endswith(": off, no prepacking")


def test_slower_runs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(settings: SessionSettings) -> float:
        return 1.05 if settings.level == "off" or is_unpacked(settings) else 1.0

    found = searched(monkeypatch, sooner, run)
    assert (found.settings.level, found.settings.entries) == ("extended", ())


def test_runs_that_may_be_slower_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The intervals stay too wide, or there is no time for three passes."""
    assert searched(monkeypatch, sooner, noise=1.0).settings.level == "all"
    assert searched(monkeypatch, sooner, most=4).settings.level == "all"
    assert searched(monkeypatch, sooner, most=8).settings.level == "off"


def test_other_results_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, sooner, change=lambda s: "output 'y'" if s.level == "off" else "")
    assert (found.settings.level, found.settings.entries) == ("extended", (NO_PREPACKING,))


def test_a_setting_that_saves_little_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = searched(monkeypatch, lambda s: 0.96 if is_unpacked(s) else 1.0)
    assert found.settings == BenchOptions().settings
    assert "defaults" in found.summary()


def test_every_start_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that is as slow as one of the defaults refuses the setting."""
    starts = iter([0.5, 1.0, 0.5, 1.0, 1.2, 1.1] * 3)
    assert searched(monkeypatch, lambda _: next(starts)).settings.level == "all"


def test_settings_that_do_not_run_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(FakeMeter):
        def measure(self, choices):  # type: ignore[no-untyped-def]
            return {choices[1]: "no kernel"}

    monkeypatch.setattr(StartupSearch, "_start", lambda _, settings: sooner(settings))
    monkeypatch.setattr(StartupSearch, "meter", lambda *_: Failing(lambda _: 1.0))
    assert startup_settings(parse(MODEL), None, BenchOptions()).settings.level == "all"


def test_a_model_that_cannot_run() -> None:
    found = startup_settings(
        parse("agraph (float[2] x) => (float[2] y) { y = NoSuch(x) }"), None, BenchOptions()
    )
    assert found.settings == BenchOptions().settings
    assert re.search(r"defaults .*\(not measured: ", found.summary())


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "available_memory", lambda: -1)
    found = startup_settings(parse(MODEL), None, BenchOptions())
    assert re.match("not measured: .*memory", found.reason)


def test_an_optimization_that_ends_the_process_stays_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "available_memory", lambda: -1)
    found = startup_settings(parse(PRODUCT, 13), None, BenchOptions())
    assert "NchwcTransformer" in found.settings.disabled_optimizers


def test_the_clock() -> None:
    """Without known times: whatever is chosen runs."""
    model: onnx.ModelProto = parse(MODEL)
    settings = startup_settings(model, None, BenchOptions()).settings
    assert replace(settings, level="all", entries=()) == BenchOptions().settings
