"""Comparison of the results of one run of two models."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from xoptim.system.crashes import WATCH
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.judging.compare import Comparison, compare_values
from xoptim.verification.judging.report import RunReport, is_small
from xoptim.verification.options import ComparisonRules, VerificationOptions
from xoptim.verification.runs.session import Port, Session, Value

_OVERFLOWING: Final = ("wide", "far", "level", "branches")
"""Sources of values so large that results may overflow, which depends on the order of
operations.
"""


def compare_run(
    run: ReferenceRun, outputs: Sequence[Port], candidate: Session, options: VerificationOptions
) -> RunReport:
    """Run a model on the values of a run of the original, and compare the results.

    Raises `RunError`.
    """
    start = time.perf_counter()
    with WATCH.at(run.sizes):
        results = candidate.run(run.feeds)
    seconds = time.perf_counter() - start
    rules = rules_of(run, options)
    comparisons = compare_results(outputs, run.results, results, rules)
    is_coarse = run.source in _OVERFLOWING and options.considers_noise
    return RunReport(
        run.source,
        dict(run.sizes),
        run.seed,
        run.seconds,
        seconds,
        comparisons,
        is_probe=run.is_probe,
        is_coarse=is_coarse,
        level=run.level,
        sample=run.sample,
    )


def compare_results(
    outputs: Sequence[Port],
    expected: Sequence[Value],
    actual: Sequence[Value],
    rules: ComparisonRules,
) -> tuple[Comparison, ...]:
    """The comparisons of all outputs, in order."""
    triples = zip(outputs, expected, actual, strict=True)
    return tuple(c for port, e, a in triples for c in compare_values(port.name, e, a, rules))


def alike_outputs(
    run: ReferenceRun,
    outputs: Sequence[Port],
    first: Sequence[Value],
    second: Sequence[Value],
    options: VerificationOptions,
) -> set[str]:
    """The outputs on which two results of a run agree."""
    comparisons = compare_results(outputs, first, second, rules_of(run, options))
    different = {c.output for c in comparisons if not c.ok and not (run.is_probe and is_small(c))}
    return {c.output for c in comparisons} - different


def largest_ulp_of(run: RunReport) -> float:
    """The largest difference of an output in units in the last place."""
    return max((c.max_ulp for c in run.comparisons if c.tolerance is not None), default=0.0)


def rules_of(run: ReferenceRun, options: VerificationOptions) -> ComparisonRules:
    """The rules for the results of a run."""
    is_loose = options.exactness in ("finite", "approximate")
    return replace(
        options.rules,
        signed_zeros=run.source == "odd" and options.exactness == "exact",
        only_finite=run.source in (*_OVERFLOWING, "offset") or (run.is_probe and is_loose),
    )
