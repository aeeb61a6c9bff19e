"""Measure models side by side, and the time of each operator with onnxruntime's profiler."""

import json
import random
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, Unpack

from xoptim.bench.machine_watch import MachineWatch
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
from xoptim.bench.subjects import (
    Loading,
    Models,
    Subject,
    as_files,
    assumptions_of,
    measure_loading,
    opened,
    values_for,
)
from xoptim.facts.changes import with_changes
from xoptim.facts.json_results import JsonForm, JsonResult, member, to_milliseconds
from xoptim.facts.progress import with_progress
from xoptim.system.journal import ScratchFolder
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.verify import verify_models

_WARM_RUNS: Final = 3
_MIN_RUNS: Final = 5
_MAX_RUNS: Final = 2000  # the profiler keeps a million events
_KERNEL: Final = "_kernel_time"


@dataclass(frozen=True, slots=True)
class OperatorTime(JsonResult):
    """The time of an operator in one run of a model.

    Attributes:
        seconds: time of all its nodes, in seconds.
        calls: number of calls.
    """

    __json__ = JsonForm(
        member("ms=seconds", to_milliseconds, "time of all its nodes, in milliseconds."), "calls"
    )
    seconds: float  # the median of the runs; for Loop, If and Scan with their subgraphs
    calls: float


def profile(
    models: Models, options: BenchOptions | None = None, **changes: Unpack[BenchChanges]
) -> dict[str, dict[str, OperatorTime]]:
    """The time of each operator in each model, after ORT graph optimizations.

    Returns the operators of each model, by label, as onnxruntime's profiler names them: without
    their domains. The profiler itself takes time, most in models of many small nodes: use it to
    compare models, and `bench` to measure times. Raises the errors of `bench`.

    Args:
        models: files or protobufs; a mapping gives them labels.
        options: the options, of which only the first setting counts; ``seconds`` is the time of the
            runs of one model.
        **changes: fields of `BenchOptions` that differ from ``options``.
    """
    options = with_changes(BenchOptions, options, changes).each()[0]
    with as_files(models, options) as subjects:
        options = replace(options, assume=assumptions_of(subjects, options))
        feeds = values_for(subjects[0], options).feeds
        results = {}
        for subject in subjects:
            with ScratchFolder() as folder:
                session = opened(
                    subject, replace(options.settings, profile=Path(folder) / "profile"), feeds
                )
                run_for_profile(session.runner(feeds), options.seconds)
                results[subject.label] = operator_times(session.end_profiling())
        return results


def run_for_profile(run: Callable[[], object], seconds: float, limit: int = _MAX_RUNS) -> None:
    """Run under the profiler for some seconds, including runs to warm up, at most ``limit``
    times.
    """
    end = time.perf_counter() + seconds
    for count in range(limit):
        run()
        if count >= _WARM_RUNS + _MIN_RUNS and time.perf_counter() > end:
            break


def operator_times(profile: Path) -> dict[str, OperatorTime]:
    """Times by operator in the file of a profiler, the median of the runs after the warm-up."""
    events: list[dict[str, Any]] = json.loads(profile.read_text(encoding="utf-8"))
    starts = sorted(event["ts"] for event in events if event.get("name") == "model_run")
    micros: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(starts))
    calls: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            run = bisect_right(starts, event["ts"]) - 1
            if run >= _WARM_RUNS:
                operator = event["args"]["op_name"]
                micros[operator][run] += event["dur"]
                calls[operator] += 1
    runs = len(starts) - _WARM_RUNS
    return {
        name: OperatorTime(median(times[_WARM_RUNS:]) * 1e-6, calls[name] / runs)
        for name, times in micros.items()
    }


_QUARTILES: Final = 4


def bench(
    models: Models,
    options: BenchOptions | None = None,
    *,
    on_step: Callable[[str], object] | None = None,
    **changes: Unpack[BenchChanges],
) -> BenchReport:
    """Measure how long models run, on the same values and in the same rounds.

    Every round runs each model, in random order: a long model once, a short one several times. The
    first round of each pass is not counted. Runs of one thread on the CPU are measured in CPU time.
    Sessions are created for each pass. Loading is measured in a separate process.

    Args:
        models: files or protobufs; a mapping gives them labels. Ratios are to the first one.
        options: the options.
        on_step: called with a description of the next step.
        **changes: fields of `BenchOptions` that differ from ``options``.

    Raises:
        LoadError: onnxruntime refuses a model.
        FeedError: an input cannot be fed, or the models have different inputs.
        RunError: a model cannot run on the values.
        AssumptionError: assumptions of two models contradict each other.
        ProviderUnavailable: onnxruntime lacks the execution provider.
    """
    options = with_changes(BenchOptions, options, changes)
    notify = on_step or (lambda _: None)
    with as_files(models, options) as subjects:
        notify("choosing values")
        options = replace(options, assume=assumptions_of(subjects, options))
        options_by_setting = options.each()
        references = [values_for(subjects[0], setting) for setting in options_by_setting]
        watch = MachineWatch()
        feeds = [reference.feeds for reference in references]
        times = _measure(subjects, feeds, options, watch, notify)
        machine = tuple(watch.texts())
        loading: list[Loading | None] = [None] * len(subjects)
        if options.loading:
            notify("loading")
            for index, subject in enumerate(subjects):
                session_settings = options.settings.without(subject.fatal)
                loading[index] = measure_loading(subject.path, session_settings, feeds[0])
        if options.compare:
            notify("comparing")
        reports = [
            replace(_report(subjects, *results, loading), machine=machine)
            for results in zip(options_by_setting, references, times, strict=True)
        ]
    return joined(reports, options) if options.at else reports[0]


def _report(
    subjects: Sequence[Subject],
    options: BenchOptions,
    reference: ReferenceRun,
    times: Sequence[Times],
    loading: Sequence[Loading | None],
) -> BenchReport:
    comparisons: list[VerificationReport | None] = [None] * len(subjects)
    if options.compare:
        comparisons[1:] = [_compare(subjects[0], subject, options) for subject in subjects[1:]]
    ratios = [None, *(ratio_of(t.rounds, times[0].rounds, options.seed) for t in times[1:])]
    figures = tuple(
        ModelTimes(subject.label, *statistics_of(model_times), load, ratio, comparison)
        for subject, model_times, load, ratio, comparison in zip(
            subjects, times, loading, ratios, comparisons, strict=True
        )
    )
    return BenchReport(figures, reference.sizes, options, reference.refused)


def statistics_of(times: Times) -> tuple[float, float, float, int]:
    """Median of the rounds, shortest run, interquartile range of the rounds (all in seconds), and
    the number of rounds.
    """
    rounds = [seconds for pass_rounds in times.rounds for seconds in pass_rounds]
    first, _, third = quantiles(rounds, n=_QUARTILES)
    return median(rounds), times.best, third - first, len(rounds)


def _compare(first: Subject, second: Subject, options: BenchOptions) -> VerificationReport:
    """Compare two models, by default at the sizes of a verification: those of a measurement, such
    as a batch of one, would hide differences.
    """
    checks = replace(
        options.checks,
        samples=options.samples,
        typical=False,
        fewer_inputs=True,
        rtol=options.rtol,
        atol=options.atol,
    )
    return verify_models(first.path, second.path, checks)


def _measure(
    subjects: Sequence[Subject],
    feeds: Sequence[Mapping[str, Value]],
    options: BenchOptions,
    watch: MachineWatch,
    on_step: Callable[[str], object],
) -> list[list[Times]]:
    """The times of each model at each setting, which has its own feeds."""
    rng = random.Random(options.seed)
    times = [[Times() for _ in subjects] for _ in feeds]
    for _ in with_progress(range(options.passes), "measuring", on_step):
        sessions: dict[int, Session] = {}
        for index in rng.sample(range(len(subjects)), len(subjects)):
            sessions[index] = opened(subjects[index], options.settings, feeds[0])
        for setting_feeds, setting_times in zip(feeds, times, strict=True):
            runs = [sessions[index].runner(setting_feeds) for index in range(len(subjects))]
            measure_pass(
                runs,
                setting_times,
                options.seconds * len(subjects) / options.passes,
                rng,
                clock_for([options.settings]),
            )
            watch.note_clock()
    return times
