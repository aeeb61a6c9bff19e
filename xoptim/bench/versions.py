"""Measure one model with several versions of onnxruntime, each in a process of its own."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias, Unpack

import numpy as np

from xoptim.bench.environments import python_with_onnxruntime
from xoptim.bench.machine_watch import MachineWatch
from xoptim.bench.measure import OperatorTime, operator_times, run_for_profile, statistics_of
from xoptim.bench.options import BenchChanges, BenchOptions
from xoptim.bench.rounds import (
    BenchReport,
    ModelTimes,
    Times,
    clock_for,
    joined,
    measure_pass,
    ratio_of,
)
from xoptim.bench.subjects import Loading, Subject, as_files, assumptions_of, values_for
from xoptim.facts.changes import with_changes
from xoptim.facts.progress import silent, with_progress
from xoptim.system.journal import ScratchFolder
from xoptim.system.machine import end_text
from xoptim.verification.errors import FeedError, LoadError, ProviderUnavailable, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.runs.operator_libraries import library_file
from xoptim.verification.runs.protos import ModelLike
from xoptim.verification.runs.session import PROCESSOR, Value, resolve_providers

PythonOf: TypeAlias = Callable[[str], Path]
"""The Python of an environment with a version of onnxruntime."""

_WORKER: Final = Path(__file__).with_name("version_worker.py")
_PLAIN: Final = "biufU"  # kinds of arrays that a file passes without pickling
_ADDED: Final = 2  # value of ``dtype.isbuiltin`` of a type that a package adds to numpy
_TURN_RUNS: Final = 5  # runs of a process under the profiler, before the next one runs
_TURN_SECONDS: Final = 0.02
_MAX_TURNS: Final = 60  # under the profiler, whose file takes long to read
_PATIENCE: Final = 10.0  # seconds for a process to end


@dataclass(frozen=True, slots=True)
class VersionsReport:
    """The times of one model with several versions of onnxruntime.

    Attributes:
        report: the times; the models are the versions, in the order in which they were given.
        operators: the time of each operator by version, as `profile` measures it.
    """

    report: BenchReport
    operators: Mapping[str, Mapping[str, OperatorTime]]


def bench_versions(
    model: ModelLike,
    versions: Sequence[str],
    options: BenchOptions | None = None,
    *,
    python_of: PythonOf | None = None,
    on_step: Callable[[str], object] = silent,
    **changes: Unpack[BenchChanges],
) -> VersionsReport:
    """Measure how long a model runs with several versions of onnxruntime, on the CPU.

    Each version runs in a process of its own. The processes take turns, as models do in `bench`,
    and are started anew for each pass. Each one measures its own runs, so messages between
    processes do not count. The onnxruntime of this process chooses the values.

    Args:
        model: a file or a protobuf.
        versions: such as ``["1.30", "1.32"]``; ratios are to the first one.
        options: the options; models are not compared.
        python_of: gives the Python of a version; by default from an environment in the cache folder
            of the user.
        on_step: called with a description of the next step.
        **changes: fields of `BenchOptions` that differ from ``options``.

    Raises:
        InstallError: a version cannot be installed.
        LoadError: a version refuses the model.
        FeedError: an input cannot be fed, or has a type that cannot be passed to other versions.
        RunError: a version cannot run the model.
        ProviderUnavailable: the execution provider is not the CPU.
    """
    options = with_changes(BenchOptions, options, changes)
    if resolve_providers((options.provider,)) != [PROCESSOR]:
        raise ProviderUnavailable("several versions of onnxruntime are measured on the CPU only")
    ready = [_ready(version, python_of or python_with_onnxruntime, on_step) for version in versions]
    with as_files([model], options) as (subject,), ScratchFolder() as folder:
        on_step("choosing values")
        options = replace(options, assume=assumptions_of([subject], options))
        bench, settings = _VersionBench(subject, ready, options, Path(folder)), options.each()
        references = [values_for(subject, setting) for setting in settings]
        watch = MachineWatch()
        reports = [
            bench.measured(setting, reference, watch, on_step)
            for setting, reference in zip(settings, references, strict=True)
        ]
        on_step("profiling")
        operators = bench.operators(references[0].feeds)
    machine = tuple(watch.texts())
    reports = [replace(report, machine=machine) for report in reports]
    return VersionsReport(joined(reports, options) if options.at else reports[0], operators)


class _Version(NamedTuple):
    """A version as the caller names it, and the Python that has it."""

    requested: str
    python: Path


def _ready(version: str, python_of: PythonOf, on_step: Callable[[str], object]) -> _Version:
    on_step(f"preparing onnxruntime {version}")
    return _Version(version, python_of(version))


class _VersionBench:
    """Measures one model in one process for each version."""

    def __init__(
        self, subject: Subject, versions: Sequence[_Version], options: BenchOptions, folder: Path
    ) -> None:
        self._subject, self._versions, self._options = subject, versions, options
        self._folder = folder
        self._rng = random.Random(options.seed)

    def measured(
        self,
        options: BenchOptions,
        reference: ReferenceRun,
        watch: MachineWatch,
        on_step: Callable[[str], object],
    ) -> BenchReport:
        """The times at one setting."""
        order = range(len(self._versions))
        times = [Times() for _ in order]
        loading: list[list[float]] = [[] for _ in order]
        task = self._task(reference.feeds)
        for _ in with_progress(range(options.passes), "measuring", on_step):
            with ExitStack() as stack:
                processes: dict[int, VersionProcess] = {}
                for index in self._rng.sample(order, len(order)):
                    process = _started(self._versions[index], self._subject.label, task)
                    processes[index] = stack.enter_context(process)
                    loading[index].append(processes[index].loading)
                labels = _labels([processes[index] for index in order])
                measure_pass(
                    [processes[index].run for index in order],
                    times,
                    options.seconds * len(order) / options.passes,
                    self._rng,
                    partial(_seconds_of, processes),
                )
                watch.note_clock()
        ratios = [None, *(ratio_of(t.rounds, times[0].rounds, options.seed) for t in times[1:])]
        models = tuple(
            ModelTimes(label, *statistics_of(rounds), Loading(median(seconds), None), ratio, None)
            for label, rounds, seconds, ratio in zip(labels, times, loading, ratios, strict=True)
        )
        return BenchReport(models, reference.sizes, options, reference.refused)

    def operators(self, feeds: Mapping[str, Value]) -> dict[str, dict[str, OperatorTime]]:
        """The time of each operator by version; the processes take turns."""
        task = self._task(feeds)
        processes = []
        with ExitStack() as stack:
            for number, version in enumerate(self._versions):
                task["profile"] = str(self._folder / f"profile{number}")
                process = _started(version, self._subject.label, task)
                processes.append(stack.enter_context(process))
            turns = partial(_take_turns, processes, self._rng)
            run_for_profile(turns, self._options.seconds * len(processes), _MAX_TURNS)
            times = [operator_times(process.end_profiling()) for process in processes]
            return dict(zip(_labels(processes), times, strict=True))

    def _task(self, feeds: Mapping[str, Value]) -> dict[str, Any]:
        """The task of a process: the model to load and run, and a file with the values."""
        settings = self._options.settings.without(self._subject.fatal)
        level = "DISABLE_ALL" if settings.level == "off" else f"ENABLE_{settings.level.upper()}"
        names = {f"v{number}": name for number, name in enumerate(feeds)}
        path = self._folder / "feeds.npz"
        arrays = {key: _plain(name, feeds[name]) for key, name in names.items()}
        np.savez(path, **arrays)  # type: ignore[arg-type]
        return {
            "model": str(self._subject.path),
            "feeds": str(path),
            "names": names,
            "threads": settings.threads,
            "level": f"ORT_{level}",
            "disabled": list(settings.disabled_optimizers),
            "libraries": [library_file(library) for library in settings.custom_op_libs],
            "cpu_time": clock_for([settings]) is not time.perf_counter,
            "profile": "",
        }


def _take_turns(processes: Sequence[VersionProcess], rng: random.Random) -> None:
    """Run each process a few times, in random order: the first run finds the caches filled by
    another one.
    """
    for process in rng.sample(processes, len(processes)):
        end = process.seconds + _TURN_SECONDS
        for _ in range(_TURN_RUNS):
            process.run()
            if process.seconds > end:
                break


def _labels(processes: Sequence[VersionProcess]) -> list[str]:
    """The exact versions; one that comes again is numbered."""
    counts: Counter[str] = Counter()
    labels = []
    for process in processes:
        counts[process.version] += 1
        number = counts[process.version]
        labels.append(f"onnxruntime {process.version}{f' ({number})' if number > 1 else ''}")
    return labels


def _seconds_of(processes: Mapping[int, VersionProcess]) -> float:
    """The time of all runs so far, as a clock that stands still between runs."""
    return sum(process.seconds for process in processes.values())


def _plain(name: str, value: Value) -> np.ndarray:
    """A value as an array that numpy writes without pickling."""
    if isinstance(value, np.ndarray):
        array = value.astype(np.str_) if value.dtype.kind == "O" else value
        if array.dtype.kind in _PLAIN and array.dtype.isbuiltin != _ADDED:
            return array
    raise FeedError(
        f"input {name!r} has a type that cannot be passed to other versions of onnxruntime; "
        "measure a part of the model without it"
    )


class VersionProcess:
    """A process in which another version of onnxruntime has loaded a model.

    Attributes:
        version: the version, exactly.
        loading: time to create the session, in seconds.
        seconds: time of all runs so far.
    """

    def __init__(self, process: subprocess.Popen[str], requested: str, model: str) -> None:
        self._process, self._requested, self._model = process, requested, model
        self.version = ""
        self.loading = self.seconds = 0.0

    def load(self, task: Mapping[str, Any]) -> None:
        """Load the model of a task and run it once; raises `LoadError`."""
        answer = self._ask(json.dumps(task), LoadError)
        self.version, self.loading = answer["version"], answer["seconds"]

    def run(self) -> None:
        """Run the model once; raises `RunError`."""
        self.seconds += self._ask("run", RunError)["seconds"]

    def end_profiling(self) -> Path:
        """Stop the profiler of the task; return the file that it wrote."""
        return Path(self._ask("end", RunError)["profile"])

    def _ask(self, line: str, kind: type[LoadError | RunError]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        answer = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        values: dict[str, Any] = json.loads(answer) if answer else {}
        if not values or "error" in values:
            fault = values.get("error") or f"it {end_text(self._process.wait(_PATIENCE))}"
            version = self.version or self._requested
            raise kind(f"{self._model!r} does not run with onnxruntime {version}: {fault}")
        return values


@contextmanager
def _started(version: _Version, model: str, task: Mapping[str, Any]) -> Iterator[VersionProcess]:
    """A process with a version of onnxruntime that has loaded the model of a task."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [str(version.python), "-I", str(_WORKER)],
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    try:
        session = VersionProcess(process, version.requested, model)
        session.load(task)
        yield session
    finally:
        process.kill()  # its session may take long to end, and holds no data
        with suppress(BrokenPipeError):  # a question that it never read
            process.communicate()
