"""A model compared with expected results, such as those of a Python function or torch module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reach import Reach
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.judging.error_bins import ErrorBin, add_bins, explains, spread
from xoptim.verification.judging.evidence import hollow_reason
from xoptim.verification.judging.judge import sensitivity_text, values_text, where_text
from xoptim.verification.judging.noise import HOPELESS, NoisyModel
from xoptim.verification.judging.report import (
    Cause,
    Noise,
    RunReport,
    Status,
    VerificationReport,
    rounding_note,
)
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import Located
from xoptim.verification.runs.session import Port, Session, Value

_DRAWS: Final = 4  # times that the effect of rounding is measured


@dataclass(frozen=True, slots=True)
class Expectation:
    """The results that a model must compute in one run.

    Attributes:
        results: the value of each output, in order.
        accurate: the same results computed in 64-bit floats, ``None`` where they are not known.
            Their distance to ``results`` is the rounding error that the model may have as well.
        seconds: wall time of computing ``results``.
    """

    results: tuple[Value, ...]
    accurate: tuple[np.ndarray | None, ...]
    seconds: float = 0.0


class ExpectedRun(NamedTuple):
    """A run of the model, and its expected results."""

    run: ReferenceRun
    expected: Expectation


def judge_expected(
    runs: Sequence[ExpectedRun],
    model: Located,
    outputs: Sequence[Port],
    options: VerificationOptions,
    notes: Sequence[str] = (),
) -> VerificationReport:
    """Compare the results of a model with the expected ones.

    A difference beyond the tolerance of the type still counts as rounding if the expected results
    are as far from their values in float64. If these are not known, it counts as rounding if the
    results of the model move as much when all of its numbers move by one unit in the last place.
    """
    reports = [_compared(run, outputs, options) for run in runs]
    on_cpu = replace(options.settings, providers=("cpu",))
    reach = Reach.of(model.proto, [run.run for run in runs], model.base_dir, on_cpu).coverage()
    if options.considers_noise:
        _measure_noise(reports, runs, model, outputs, options)

    def report(status: Status, reason: str = "", cause: Cause = "") -> VerificationReport:
        return VerificationReport(
            status=status,
            reason=reason,
            cause=cause,
            exactness=options.exactness,
            providers=tuple(options.providers),
            runs=tuple(reports),
            notes=(*notes, *rounding_note(reports), *reach.notes),
            assumptions=tuple(options.assume),
            unreached=reach.unreached,
            uncounted=reach.uncounted,
        )

    rejected = [(run, c) for run in reports for c in run.comparisons if not run.accepts(c)]
    # an output that no comparison can judge does not hide one that differs
    rejected.sort(key=lambda pair: pair[0].is_hopeless(pair[1]))
    for run, comparison in rejected[:1]:
        place = f"output {comparison.output!r}{where_text(run.dims)}{values_text(run)}"
        if run.is_hopeless(comparison):
            return report(
                "not verified", f"{place} {sensitivity_text(run, comparison)}", "evidence"
            )
        return report("different", f"{place}: {comparison.message}")
    if reason := hollow_reason(reports, model.proto.graph):
        return report("not verified", reason, "evidence")
    return report("equal")


def _compared(
    expected_run: ExpectedRun, outputs: Sequence[Port], options: VerificationOptions
) -> RunReport:
    """The comparison of one run, with the rounding error of the expected results."""
    run, expected = expected_run
    triples = zip(outputs, expected.results, run.results, strict=True)
    comparisons = tuple(
        c for port, e, a in triples for c in compare_values(port.name, e, a, options.rules)
    )
    report = RunReport(
        run.source, dict(run.sizes), run.seed, expected.seconds, run.seconds, comparisons
    )
    if not options.considers_noise:
        return report
    own_errors = {
        port.name: _own_error(value, accurate)
        for port, value, accurate in zip(outputs, expected.results, expected.accurate, strict=True)
        if accurate is not None
    }
    return replace(report, noise=_noise(report, own_errors, options.noise_multiple))


def _own_error(value: Value, accurate: np.ndarray) -> dict[int, ErrorBin]:
    """The rounding error of an expected result, by the magnitude of its elements."""
    narrow = np.asarray(value).astype(np.float64).reshape(-1)
    wide = accurate.reshape(-1)
    bins: dict[int, ErrorBin] = {}
    with np.errstate(all="ignore"):  # both may hold infinities
        add_bins(bins, spread(np.abs(narrow), np.abs(narrow - wide), np.zeros(narrow.shape)))
    return bins


def _noise(
    report: RunReport, levels: dict[str, dict[int, ErrorBin]], multiple: float
) -> dict[str, Noise]:
    """The effect of rounding on the outputs that differ by finite numbers, where it is known."""
    noise = dict(report.noise)
    for c in report.comparisons:
        is_number = c.fault == "value" and c.tolerance is not None and math.isfinite(c.excess)
        if not is_number or report.accepts(c) or c.output not in levels:
            continue
        bins = levels[c.output]
        level = max((error_bin.largest for error_bin in bins.values()), default=0.0)
        explained = explains(bins, c.error_bins, multiple)
        accepted = explained and multiple * level <= HOPELESS * c.top
        noise[c.output] = Noise(level, explained, accepted)
    return noise


def _measure_noise(
    reports: list[RunReport],
    runs: Sequence[ExpectedRun],
    model: Located,
    outputs: Sequence[Port],
    options: VerificationOptions,
) -> None:
    """Measure how far rounding moves the results of the model, for the runs that differ."""
    broken = [at for at, report in enumerate(reports) if not report.is_accepted()]
    if not broken:
        return
    rng = np.random.default_rng(options.seed)
    try:
        noisy = NoisyModel(model.proto, model.base_dir, rng)
        session = Session(
            noisy.proto, options.settings, base_dir=model.base_dir, weights=noisy.weights
        )
        for at in broken:
            run, levels = runs[at].run, dict[str, dict[int, ErrorBin]]()
            for _ in range(_DRAWS):
                moved = session.run(noisy.feeds(run.feeds, rng))
                for port, value, moved_value in zip(outputs, run.results, moved, strict=True):
                    for c in compare_values(port.name, value, moved_value, options.rules):
                        add_bins(levels.setdefault(c.output, {}), iter(c.error_bins.items()))
            reports[at] = replace(
                reports[at], noise=_noise(reports[at], levels, options.noise_multiple)
            )
    except (LoadError, RunError):
        return  # then the tolerance decides
