"""Run models side by side."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Final, Unpack

from xoptim.bench.loading import Loading, measure_loading
from xoptim.bench.options import BenchChanges, BenchOptions
from xoptim.bench.report import BenchReport, ModelTimes
from xoptim.bench.rounds import Times, clock_for, measure_pass, ratio_of
from xoptim.bench.subjects import Models, Subject, as_files, known_of, opened, values_for
from xoptim.facts.given import given
from xoptim.validate.options import ValidationOptions
from xoptim.validate.report import ValidationReport
from xoptim.validate.session import Session, Value
from xoptim.validate.validation import validate

_QUARTILES: Final = 4


def bench(
    models: Models,
    options: BenchOptions | None = None,
    *,
    on_step: Callable[[str], object] | None = None,
    **changes: Unpack[BenchChanges],
) -> BenchReport:
    """Measure how long models run, on the same values and in the same rounds.

    Each model has a session with onnxruntime's defaults. All models run once a round, in random order, and short runs are
    repeated within a round. Runs before the measurement, and the first round, are not counted. Runs of one thread on the CPU
    are measured in processor time. The sessions are made anew for each pass. Time and memory to load a model are measured in a
    process of its own.

    Args:
        models: files or protobufs; a mapping gives them labels. Ratios are to the first one.
        options: the options.
        on_step: called with a description of the next step.
        **changes: fields of `BenchOptions` that differ from ``options``.

    Raises:
        LoadError: onnxruntime refuses a model.
        FeedError: an input cannot be fed, or the models have different inputs.
        RunError: a model cannot run on the values.
        AssumptionError: what was assumed of one model contradicts what was assumed of another one.
        ProviderUnavailable: onnxruntime lacks the execution provider.
    """
    options = given(BenchOptions, options, changes)
    say = on_step or (lambda _: None)
    with as_files(models, options.base_dirs) as subjects:
        say("choosing values")
        options = replace(options, assume=(*options.assume, *known_of(subjects)))
        reference = values_for(subjects[0], options)
        say("measuring")
        times = _measure(subjects, reference.feeds, options)
        comparisons: list[ValidationReport | None] = [None] * len(subjects)
        if options.compare:
            say("comparing")
            comparisons[1:] = [_compare(subjects[0], each, reference.feeds, options) for each in subjects[1:]]
        loading: list[Loading | None] = [None] * len(subjects)
        if options.loading:
            say("loading")
            loading = [measure_loading(each.path, options.settings, reference.feeds) for each in subjects]
    ratios = [None, *(ratio_of(its.rounds, times[0].rounds, options.seed) for its in times[1:])]
    figures = tuple(
        ModelTimes(subject.label, *_statistics(its), load, ratio, comparison)
        for subject, its, load, ratio, comparison in zip(subjects, times, loading, ratios, comparisons, strict=True)
    )
    return BenchReport(figures, dict(reference.sizes), options)


def _statistics(its: Times) -> tuple[float, float, float, int]:
    """Median, best and spread of the seconds of all rounds, and the number of rounds."""
    every = [seconds for rounds in its.rounds for seconds in rounds]
    first, _, third = quantiles(every, n=_QUARTILES)
    return median(every), its.best, third - first, len(every)


def _compare(first: Subject, other: Subject, feeds: Mapping[str, Value], options: BenchOptions) -> ValidationReport:
    given = ValidationOptions(
        providers=(options.provider,), feeds=feeds, assignments=1, extremes=False, run_limit=None, fewer_inputs=True
    )
    return validate(first.path, other.path, given)


def _measure(subjects: Sequence[Subject], feeds: Mapping[str, Value], options: BenchOptions) -> list[Times]:
    rng = random.Random(options.seed)
    times = [Times() for _ in subjects]
    for _ in range(options.passes):
        sessions: dict[int, Session] = {}
        for place in rng.sample(range(len(subjects)), len(subjects)):
            sessions[place] = opened(subjects[place], options.settings, feeds)
        runs = [sessions[place].runner(feeds) for place in range(len(subjects))]
        measure_pass(runs, times, options.seconds * len(subjects) / options.passes, rng, clock_for([options.settings]))
    return times
