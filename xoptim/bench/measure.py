"""Run models side by side."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median, quantiles
from typing import Final, Unpack

from xoptim.bench.loading import Loading, measure_loading
from xoptim.bench.options import BenchChanges, BenchOptions
from xoptim.bench.report import BenchReport, ModelTimes, joined
from xoptim.bench.rounds import Times, clock_for, measure_pass, ratio_of
from xoptim.bench.subjects import Models, Subject, as_files, known_of, opened, values_for
from xoptim.facts.given import given
from xoptim.validate.report import ValidationReport
from xoptim.validate.runs import ReferenceRun
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
        settings = options.each()
        references = [values_for(subjects[0], each) for each in settings]
        say("measuring")
        times = _measure(subjects, [each.feeds for each in references], options)
        loading: list[Loading | None] = [None] * len(subjects)
        if options.loading:
            say("loading")
            loading = [measure_loading(each.path, options.settings, references[0].feeds) for each in subjects]
        if options.compare:
            say("comparing")
        reports = [_report(subjects, *each, loading) for each in zip(settings, references, times, strict=True)]
    return joined(reports, options) if options.at else reports[0]


def _report(
    subjects: Sequence[Subject],
    options: BenchOptions,
    reference: ReferenceRun,
    times: Sequence[Times],
    loading: Sequence[Loading | None],
) -> BenchReport:
    """The figures of one setting."""
    comparisons: list[ValidationReport | None] = [None] * len(subjects)
    if options.compare:
        comparisons[1:] = [_compare(subjects[0], each, options) for each in subjects[1:]]
    ratios = [None, *(ratio_of(its.rounds, times[0].rounds, options.seed) for its in times[1:])]
    figures = tuple(
        ModelTimes(subject.label, *_statistics(its), load, ratio, comparison)
        for subject, its, load, ratio, comparison in zip(subjects, times, loading, ratios, comparisons, strict=True)
    )
    return BenchReport(figures, reference.sizes, options, reference.refused)


def _statistics(its: Times) -> tuple[float, float, float, int]:
    """Median, best and spread of the seconds of all rounds, and the number of rounds."""
    every = [seconds for rounds in its.rounds for seconds in rounds]
    first, _, third = quantiles(every, n=_QUARTILES)
    return median(every), its.best, third - first, len(every)


def _compare(first: Subject, other: Subject, options: BenchOptions) -> ValidationReport:
    """Sizes that were not given are the ones of a proof: a batch of one, as in a measurement, would hide differences."""
    return validate(first.path, other.path, replace(options.checks, typical=False, fewer_inputs=True))


def _measure(subjects: Sequence[Subject], settings: Sequence[Mapping[str, Value]], options: BenchOptions) -> list[list[Times]]:
    """The times of all models on the values of each setting."""
    rng = random.Random(options.seed)
    times = [[Times() for _ in subjects] for _ in settings]
    for _ in range(options.passes):
        sessions: dict[int, Session] = {}
        for place in rng.sample(range(len(subjects)), len(subjects)):
            sessions[place] = opened(subjects[place], options.settings, settings[0])
        for feeds, its in zip(settings, times, strict=True):
            runs = [sessions[place].runner(feeds) for place in range(len(subjects))]
            measure_pass(runs, its, options.seconds * len(subjects) / options.passes, rng, clock_for([options.settings]))
    return times
