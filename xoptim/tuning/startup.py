"""Settings with which a session starts sooner and runs no slower: ``xopt MODEL --for startup``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time
from typing import Final

import onnx

from xoptim.bench.options import BenchOptions
from xoptim.facts.errors import XoptimError
from xoptim.system.machine import available_memory
from xoptim.tuning.candidates import Model
from xoptim.tuning.choices import UNTOUCHED, Choice
from xoptim.tuning.measurement import Budget, SideBySide
from xoptim.tuning.search import MARGIN, Meter
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.inputs.work import COPIES, weight_bytes
from xoptim.verification.judging.runtime import change_by
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import Level, SessionSettings

NO_PREPACKING: Final = ("session.disable_prepacking", "1")
"""Without it, a session copies each weight of a MatMul into the layout of its kernel."""
_LEVELS: Final[tuple[Level, ...]] = ("off", "extended")
"""Levels of ORT graph optimizations, the fastest start first."""
_BUDGET: Final = 30.0
"""Seconds for the measurement of the runs."""
_MIN_PASSES: Final = 3
"""Passes from which a setting may be accepted: two sessions of one model may differ."""
_MAX_PASSES: Final = 8
_STARTS: Final = 3
"""Number of starts of each session."""
_GAIN: Final = 0.05
"""Part of the time of a start that a setting must save."""
_SESSIONS: Final = 2
"""Sessions in memory at a time."""


@dataclass(frozen=True, slots=True)
class Startup:
    """The settings of a session that starts soon.

    Attributes:
        settings: the settings; ONNX Runtime's defaults where no others were accepted.
        reason: the reason why the defaults were kept without a measurement; empty if other settings
            were measured.
    """

    settings: SessionSettings
    reason: str = ""

    def summary(self) -> str:
        """The settings that differ from the defaults of ONNX Runtime, in one line."""
        changes = []
        if self.settings.level != "all":
            changes.append(f"ORT graph optimizations: {self.settings.level}")
        if NO_PREPACKING in self.settings.entries:
            changes.append("no prepacking")
        text = ", ".join(changes) or "the defaults of ONNX Runtime"
        return f"{text} ({self.reason})" if self.reason else text


def startup_settings(model: onnx.ModelProto, base_dir: Path | None, bench: BenchOptions) -> Startup:
    """Settings with which a model starts sooner than with the defaults of ONNX Runtime.

    A setting is accepted only if the start takes less CPU time, the runs are not measurably slower
    (at most 2 %, by the upper bound of the 95 % confidence interval), and the results stay equal.
    The defaults are kept where the model cannot be measured. All sessions run one thread, so that
    the load of the machine changes no CPU time.

    Args:
        model: the optimized model.
        base_dir: folder of its external data.
        bench: the values and dimensions of the runs.
    """
    memory, defaults = available_memory(), bench.settings.safe_for(model)
    if memory is not None and memory < _SESSIONS * COPIES * weight_bytes(model):
        return Startup(defaults, "not measured: there is not enough memory for two sessions")
    try:
        return Startup(StartupSearch(model, base_dir, bench).run())
    except XoptimError as error:
        return Startup(defaults, f"not measured: {error}")


class StartupSearch:
    """The search for the settings of one model; raises the errors of `run_reference`.

    Attributes:
        baselines: the results without ORT graph optimizations, for each setting of ``bench``.
    """

    def __init__(self, model: onnx.ModelProto, base_dir: Path | None, bench: BenchOptions) -> None:
        self._proto = model
        self._model = Model(model, base_dir)
        self._threads = bench.threads
        self._defaults = replace(bench.settings, threads=1)
        self.baselines = [
            run_reference(model, replace(setting.checks, threads=1, original_dir=base_dir))
            for setting in bench.each()
        ]
        self._rules = replace(bench.checks.rules, exactness="rounding")
        self._meter = self.meter(bench.seed)

    def meter(self, seed: int) -> Meter:
        """A meter of the runs, whose sessions are made anew for each pass."""
        feeds = [reference.runs[0].feeds for reference in self.baselines]
        return SideBySide(lambda _: self._model, feeds, Budget(_BUDGET), seed, max_sessions=0)

    def run(self) -> SessionSettings:
        """The defaults, changed by the first accepted candidate of each kind."""
        settings = self._defaults
        for candidates in (_levels, _prepacking):
            accepted_candidates = (
                candidate
                for candidate in candidates(settings)
                if self._is_accepted(candidate, settings)
            )
            settings = next(accepted_candidates, settings)
        return replace(settings, threads=self._threads).safe_for(self._proto)

    def _is_accepted(self, settings: SessionSettings, base: SessionSettings) -> bool:
        return (
            self.starts_sooner(settings, base)
            and self._is_as_fast(settings)
            and all(not change_by(reference, settings, self._rules) for reference in self.baselines)
        )

    def starts_sooner(self, settings: SessionSettings, base: SessionSettings) -> bool:
        """Whether each start takes at least 5 % less CPU time than every start with ``base``."""
        seconds, base_seconds = list[float](), list[float]()
        for _ in range(_STARTS):
            seconds.append(self._start(settings))
            base_seconds.append(self._start(base))
            if max(seconds) > (1.0 - _GAIN) * min(base_seconds):
                return False
        return True

    def _start(self, settings: SessionSettings) -> float:
        """Seconds of CPU time until the first result."""
        start = process_time()
        session = Session(self._model.model, settings, base_dir=self._model.base_dir)
        session.run(self.baselines[0].runs[0].feeds)
        return process_time() - start

    def _is_as_fast(self, settings: SessionSettings) -> bool:
        """Whether the runs are not slower than with the defaults of ONNX Runtime."""
        defaults, choice = (Choice(UNTOUCHED, s) for s in (self._defaults, settings))
        for passes in range(1, _MAX_PASSES + 1):
            if self._meter.measure([defaults, choice]):
                return False
            low, high = self._meter.ratio(choice, defaults).interval
            if passes >= _MIN_PASSES and high <= 1.0 + MARGIN:
                return True
            if low > 1.0 + MARGIN or not self._meter.fits(2):
                return False
        return False


def _levels(settings: SessionSettings) -> Iterator[SessionSettings]:
    """Lower levels of ORT graph optimizations."""
    return (replace(settings, level=level) for level in _LEVELS)


def _prepacking(settings: SessionSettings) -> Iterator[SessionSettings]:
    """Without copies of the weights."""
    yield replace(settings, entries=(*settings.entries, NO_PREPACKING))
