"""Runs of the original on further samples of the caller."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import onnx

from xoptim.facts.advice import Advice
from xoptim.verification.errors import FeedError, RunError
from xoptim.verification.inputs.archives import Archive
from xoptim.verification.inputs.feeding import Feeding, ReferenceRun, ResultStore, RunPlan, run_plan
from xoptim.verification.inputs.work import SkippedRun
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Session, Value

_SECONDS: Final = 120.0
"""Seconds for the runs of the original on all samples, unless the caller sets a budget."""


def run_samples(
    runs: list[ReferenceRun],
    session: Session,
    model: onnx.ModelProto,
    options: VerificationOptions,
    store: ResultStore,
    check: Callable[[RunPlan], object],
) -> tuple[list[ReferenceRun], list[SkippedRun]]:
    """The runs of the original with those on ``options.samples``, and the samples that were skipped
    because of the time limit. Each run names its file.

    Args:
        runs: on ``options.feeds``, and on values derived from these.
        session: of the original.
        model: the original.
        options: of the verification.
        store: keeps the results.
        check: raises `RunError` for values that a model must refuse.

    Raises:
        FeedError: the values of a sample do not fit the model; the message names the sample.
        RunError: the original fails on a sample.
    """
    if not options.samples:
        return runs, []
    limit = _SECONDS if options.budget is None else options.budget
    end = time.perf_counter() + limit
    file = _path(options.feeds)
    usual = ("given", "random")
    complete = [replace(run, sample=file) if run.source in usual else run for run in runs]
    for index, sample in enumerate(options.samples):
        if time.perf_counter() > end:
            advice = Advice("verify-budget")
            reason = f"was not begun: the time limit of {limit:.2g} s is over ({advice})"
            return complete, [SkippedRun({}, reason)] * (len(options.samples) - index)
        name = _path(sample) or f"sample {index + 1}"
        try:
            plan = _plan(model, sample, options, index + 1)
            check(plan)
            run = run_plan(session, plan)
        except (FeedError, RunError) as error:
            raise type(error)(f"{name}: {error}") from error
        complete.append(store.keep(replace(run, sample=name)))
    return complete, []


def _plan(
    model: onnx.ModelProto, sample: Mapping[str, Value], options: VerificationOptions, index: int
) -> RunPlan:
    """The values of a sample, and random ones for inputs that it lacks."""
    feeds = sample.unread() if isinstance(sample, Archive) else sample
    feeding = Feeding(model, replace(options, feeds=feeds, samples=()))
    sizes = next(iter(feeding.assignments()), {})
    return feeding.plan(sizes, index if feeding.random else 0, False)


def _path(values: Mapping[str, Value]) -> str:
    return str(values.path) if isinstance(values, Archive) else ""
