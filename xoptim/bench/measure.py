"""Run models side by side, and tell the time of each operator by onnxruntime's profiler."""

import json
import random
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, NamedTuple, Unpack

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
    known_of,
    measure_loading,
    opened,
    values_for,
)
from xoptim.facts.given import given
from xoptim.system.journal import ScratchFolder
from xoptim.verification.report import VerificationReport
from xoptim.verification.runs import ReferenceRun
from xoptim.verification.session import Session, Value
from xoptim.verification.verify import verify_models

_WARM_RUNS: Final = 3
_FEWEST_RUNS: Final = 5
_MOST_RUNS: Final = 2000  # the profiler keeps a million events
_KERNEL: Final = "_kernel_time"


class OperatorTime(NamedTuple):
    """The time of the nodes of one operator in a run."""

    # of all of them together, the median of the runs. The time of Loop, If and Scan contains the
    # nodes inside
    seconds: float
    calls: float  # number of executions


def profile(
    models: Models, options: BenchOptions | None = None, **changes: Unpack[BenchChanges]
) -> dict[str, dict[str, OperatorTime]]:
    """The time of each operator in each model, as onnxruntime runs it: after its own graph
    optimizations.

    Returns the operators of each model, by label, as onnxruntime's profiler names them: without
    their domains. The profiler itself takes time, most in models of many small nodes: compare
    models with each other, and take times from `bench`. Raises the errors of `bench`.

    Args:
        models: files or protobufs; a mapping gives them labels.
        options: the options; only the first setting counts; ``seconds`` is the time of the runs of
            one model.
        **changes: fields of `BenchOptions` that differ from ``options``.
    """
    options = given(BenchOptions, options, changes).each()[0]
    with as_files(models, options.base_dirs) as subjects:
        options = replace(options, assume=known_of(subjects, options))
        feeds = values_for(subjects[0], options).feeds
        results = {}
        for subject in subjects:
            with ScratchFolder() as folder:
                session = opened(
                    subject, replace(options.settings, profile=Path(folder) / "profile"), feeds
                )
                results[subject.label] = _operators(_recorded(session, feeds, options.seconds))
        return results


def _recorded(session: Session, feeds: Mapping[str, Value], seconds: float) -> list[dict[str, Any]]:
    """Events of the profiler, including those of warm-up runs."""
    run = session.runner(feeds)
    end = time.perf_counter() + seconds
    for count in range(_MOST_RUNS):
        run()
        if count >= _WARM_RUNS + _FEWEST_RUNS and time.perf_counter() > end:
            break
    events: list[dict[str, Any]] = json.loads(session.end_profiling().read_text(encoding="utf-8"))
    return events


def _operators(events: Sequence[dict[str, Any]]) -> dict[str, OperatorTime]:
    """Times by operator, the median of the runs after the warm-up."""
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

    All models run once a round, in random order; short runs are repeated within a round. The first
    round is not counted. Runs of one thread on the CPU are measured in CPU time. Sessions are made
    anew for each pass. Loading is measured in a process of its own.

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
    options = given(BenchOptions, options, changes)
    say = on_step or (lambda _: None)
    with as_files(models, options.base_dirs) as subjects:
        say("choosing values")
        options = replace(options, assume=known_of(subjects, options))
        settings = options.each()
        references = [values_for(subjects[0], each) for each in settings]
        say("measuring")
        times = _measure(subjects, [each.feeds for each in references], options)
        loading: list[Loading | None] = [None] * len(subjects)
        if options.loading:
            say("loading")
            feeds = references[0].feeds
            for index, each in enumerate(subjects):
                usual = options.settings.without(each.fatal)
                loading[index] = measure_loading(each.path, usual, feeds)
        if options.compare:
            say("comparing")
        reports = [
            _report(subjects, *each, loading)
            for each in zip(settings, references, times, strict=True)
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
        comparisons[1:] = [_compare(subjects[0], each, options) for each in subjects[1:]]
    ratios = [None, *(ratio_of(each.rounds, times[0].rounds, options.seed) for each in times[1:])]
    figures = tuple(
        ModelTimes(subject.label, *_statistics(each), load, ratio, comparison)
        for subject, each, load, ratio, comparison in zip(
            subjects, times, loading, ratios, comparisons, strict=True
        )
    )
    return BenchReport(figures, reference.sizes, options, reference.refused)


def _statistics(times: Times) -> tuple[float, float, float, int]:
    """Median, best and spread of the seconds of all rounds, and the number of rounds."""
    every = [seconds for rounds in times.rounds for seconds in rounds]
    first, _, third = quantiles(every, n=_QUARTILES)
    return median(every), times.best, third - first, len(every)


def _compare(first: Subject, other: Subject, options: BenchOptions) -> VerificationReport:
    """Compare two models. Sizes that were not given are those of a verification: a batch of one, as
    in a measurement, would hide differences.
    """
    checks = replace(
        options.checks,
        typical=False,
        fewer_inputs=True,
        rtol=options.rtol,
        atol=options.atol,
    )
    return verify_models(first.path, other.path, checks)


def _measure(
    subjects: Sequence[Subject], settings: Sequence[Mapping[str, Value]], options: BenchOptions
) -> list[list[Times]]:
    rng = random.Random(options.seed)
    times = [[Times() for _ in subjects] for _ in settings]
    for _ in range(options.passes):
        sessions: dict[int, Session] = {}
        for index in rng.sample(range(len(subjects)), len(subjects)):
            sessions[index] = opened(subjects[index], options.settings, settings[0])
        for feeds, measured in zip(settings, times, strict=True):
            runs = [sessions[index].runner(feeds) for index in range(len(subjects))]
            measure_pass(
                runs,
                measured,
                options.seconds * len(subjects) / options.passes,
                rng,
                clock_for([options.settings]),
            )
    return times
