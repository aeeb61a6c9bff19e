"""Runs the optimized model on the values of the original, and judges the differences."""

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.progress import silent, with_progress
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.inputs.branches import Coverage
from xoptim.verification.inputs.dims import sizes_text
from xoptim.verification.inputs.feeding import ReferenceRun, RunPlan
from xoptim.verification.inputs.further import TINY
from xoptim.verification.inputs.reference import Reference
from xoptim.verification.inputs.work import SkippedRun, weight_bytes
from xoptim.verification.judging.arbiter import Arbiter, Finding
from xoptim.verification.judging.compare import Comparison
from xoptim.verification.judging.error_bins import ErrorBin, add_bins, explains
from xoptim.verification.judging.evidence import hollow_reason
from xoptim.verification.judging.noise import HOPELESS, NoisyModel
from xoptim.verification.judging.randomness import may_drop, unseeded_operator
from xoptim.verification.judging.report import (
    Cause,
    Noise,
    RunReport,
    Status,
    VerificationReport,
    rounding_note,
)
from xoptim.verification.judging.run_comparison import (
    alike_outputs,
    compare_results,
    compare_run,
    largest_ulp_of,
    rules_of,
)
from xoptim.verification.judging.runtime import RuntimeOutcome, under_optimizations
from xoptim.verification.judging.signatures import compare_signatures
from xoptim.verification.judging.steady import unsteady_output
from xoptim.verification.options import ComparisonRules, VerificationOptions
from xoptim.verification.runs.fatal import computes_in_half
from xoptim.verification.runs.protos import Located, ModelLike, read_proto
from xoptim.verification.runs.session import PROCESSOR, Session, resolve_providers

_MAX_DRAWS: Final = 4  # times that the noise is measured
_Levels: TypeAlias = dict[str, dict[int, ErrorBin]]
"""Differences that rounding makes in each output, by the magnitude of its elements."""
_LOGGER = logging.getLogger("xoptim")
_SUSPICIOUS: Final = 4.0  # units in the last place; smaller differences are not checked in float64
_SUSPICIOUS_HALF: Final = 1.0  # the same in 16 bits, where a bias hides in rounding
_MAX_ARBITRATED: Final = 3  # rejected runs that are repeated in float64
_MAX_TINY: Final = 32  # the same if a differing run takes almost no time
_WORK: Final = 1 << 25  # operations; a run of more is repeated only if it is rejected
_LIGHT: Final = 1 << 23  # bytes of weights; a model with more is treated like a run with more work


def judge(
    reference: Reference,
    optimized: ModelLike,
    options: VerificationOptions,
    base_dir: Path | None = None,
    *,
    is_part: bool = False,
    other: Located | None = None,
    name: str = "the optimized model",
    on_step: Callable[[str], object] = silent,
) -> VerificationReport:
    """Compare a model, whose external data is in ``base_dir``, with runs of the original.

    ``other`` is ``optimized`` if it was already read; ``name`` is what messages call it.
    ``is_part``: whether the models are sections of others. Their results may hold infinities and
    NaN, and differences are not checked in float64 or on the CPU. ``on_step`` is called before each
    run.
    """
    judging = Judge(options)
    judging.skipped, judging.coverage = reference.skipped, reference.coverage
    try:
        candidate = Session(optimized, reference.settings, base_dir=base_dir)
    except LoadError as error:
        return judging.report("different", f"onnxruntime cannot load {name}: {error}")
    expected, actual = (reference.inputs, reference.outputs), (candidate.inputs, candidate.outputs)
    judging.faults = compare_signatures(expected, actual, fewer_inputs=options.fewer_inputs)
    if judging.faults:
        fault = judging.faults[0]
        return judging.report("different", f"{fault.output}: {fault.message}")
    for run in with_progress(reference.runs, "verifying: comparing runs", on_step):
        try:
            judging.runs.append(compare_run(run, reference.outputs, candidate, options))
        except RunError as error:
            where = where_text(run.sizes) + values_text(run)
            return judging.report("different", f"onnxruntime cannot run {name}{where}: {error}")
    other = other or Located(*read_proto(optimized, base_dir))
    if not is_part:
        judging.arbitrate(reference, candidate, other)
        judging.check_on_cpu(reference, candidate, other)
    del candidate  # frees its weights before the verdict loads further sessions
    report = judging.verdict(reference, is_part)
    if report.ok and options.is_thorough and reference.is_short:
        outcome = under_optimizations(reference, optimized, other, options.rules, report.runs)
        return _with_optimizations(report, outcome)
    return report


def _with_optimizations(report: VerificationReport, outcome: RuntimeOutcome) -> VerificationReport:
    """The verdict, with what was found under onnxruntime's own optimizations."""
    if outcome.note:
        report = replace(report, notes=(*report.notes, outcome.note))
    if outcome.is_doubt:
        reason = f"{outcome.difference}; this may be rounding, but is too large to be accepted"
        return replace(report, status="not verified", reason=reason, cause="evidence")
    if outcome.unsteady:
        reason = f"the original is not deterministic: {outcome.unsteady}"
        return replace(report, status="not verified", reason=reason, cause="evidence")
    if outcome.difference:
        where = "with ORT graph optimizations, under which the original is right"
        return replace(report, status="different", reason=f"{where}, {outcome.difference}")
    return report


_DESCRIBED: Final = {
    "overridden": ", initializers overridden",
    "wide": ", large numbers and zeros",
    "odd": ", NaN and infinities",
    "free": ", numbers of any sign",
    "far": ", numbers of many magnitudes",
    "ties": ", equal numbers and halves",
    "sorted": ", numbers that ascend",
    "single": ", a single 1 in each row",
    "tiny": ", numbers close to 0",
    "offset": ", numbers close to each other",
    "level": ", one number everywhere",
    "operands": ", other bounds, axes and target shapes",
    "branches": ", values that reach another branch",
    "goal": ", values that decide a condition",
    "mask": ", a mask that keeps nothing, one position or all but one",
    "range": ", very large and very small numbers",
    "strings": ", strings that match, or almost match",
    "items": ", sequences of other lengths",
    "absent": ", optional inputs absent",
    "iterations": ", loops with many iterations",
    "small": ", smaller numbers",
}
"""Values of runs by their source, as the end of a sentence."""


def where_text(sizes: Mapping[str, int]) -> str:
    """The sizes of a run, as the end of a sentence."""
    return f" with {sizes_text(sizes)}" if sizes else ""


def values_text(run: RunPlan | RunReport) -> str:
    """The kind of values of a run, or its sample, as the end of a sentence; else empty."""
    return _DESCRIBED.get(run.source, f" on {run.sample!r}" if run.sample else "")


def _excused(c: Comparison) -> Comparison:
    """A comparison without its differences."""
    return Comparison(
        c.output, scale=c.scale, top=c.top, count=c.count, judged=c.judged, tolerance=c.tolerance
    )


def sensitivity_text(run: RunReport, c: Comparison) -> str:
    """The reason why an output cannot be judged, as the end of a sentence about the output."""
    return (
        f"differs by {c.max_abs:.2g}, but changes by {run.noise[c.output].level:.2g} when all "
        f"values change by 1 ULP (its largest magnitude is {c.top:.2g}); set rtol and atol to "
        "judge it"
    )


def _severity(pair: tuple[RunReport, Comparison]) -> tuple[bool, float]:
    """A key that sorts rejected outputs: too sensitive ones last, samples by their difference."""
    run, comparison = pair
    return run.is_hopeless(comparison), -comparison.excess if run.sample else 0.0


def _worst_sample(runs: Iterable[RunReport]) -> list[str]:
    """A line about the sample with the largest accepted difference; empty if no sample differs."""
    excesses = {
        run.sample: max((c.excess for c in run.telling), default=0.0) for run in runs if run.sample
    }
    worst = max(excesses, key=lambda name: excesses[name], default="")
    return [f"the largest difference is on {worst!r}"] if worst and excesses[worst] else []


class Judge:
    """Collects comparisons and decides the verdict."""

    def __init__(self, options: VerificationOptions) -> None:
        self._options = options
        self._notes: list[str] = []
        if any(name.lower().startswith("cuda") for name in options.providers):
            self._notes.append(f"TF32 is {'on' if options.tf32 else 'off'}")
        self.faults: tuple[Comparison, ...] = ()
        self.runs: list[RunReport] = []
        self.skipped: tuple[SkippedRun, ...] = ()
        self.coverage = Coverage()

    def report(self, status: Status, reason: str = "", cause: Cause = "") -> VerificationReport:
        """The report so far."""
        return VerificationReport(
            status=status,
            reason=reason,
            cause=cause,
            exactness=self._options.exactness,
            providers=tuple(self._options.providers),
            faults=self.faults,
            runs=tuple(self.runs),
            notes=tuple(self._notes),
            skipped=self.skipped,
            unreached=self.coverage.unreached,
            uncounted=self.coverage.uncounted,
            assumptions=Assumptions.of(self._options.assume).texts,
        )

    def arbitrate(self, reference: Reference, candidate: Session, other: Located) -> None:
        """Look at the differences of some runs in double, where that is possible.

        See `xoptim.verification.judging.arbiter`.
        """
        indices = self._doubtful(reference)
        if indices:
            self._arbitrate(reference, candidate, other, indices)
        for index, run in enumerate(self.runs):
            # Close to the type's limits, a difference counts only if the models differ in double.
            if run.source == "range" and not run.refuted:
                self.runs[index] = replace(run, comparisons=tuple(map(_excused, run.comparisons)))

    def _arbitrate(
        self, reference: Reference, candidate: Session, other: Located, indices: Sequence[int]
    ) -> None:
        try:
            settings = replace(reference.settings, providers=("cpu",))
            arbiter = Arbiter(Located(reference.proto, reference.base_dir), other, settings)
            for index in indices:
                run = reference.runs[index]
                findings = arbiter.findings(
                    run, candidate.run(run.feeds), reference.outputs, self._rules_of(run)
                )
                self._settle(index, findings)
        # what cannot run in double (kernels, weights or memory are missing) is judged as usual
        except Exception as error:
            _LOGGER.debug("not run in 64-bit floats: %s", error)

    def check_on_cpu(self, reference: Reference, candidate: Session, other: Located) -> None:
        """Accept differences that come from an execution provider, not from the optimized model.

        The provider's kernels may compute the original wrongly: an output is accepted if the
        optimized model agrees with the original on the CPU. On unusual values, the kernels may also
        overflow or cancel digits: an output is accepted if both models agree on the CPU.
        """
        indices = [
            index
            for index, run in enumerate(self.runs)
            if not run.is_accepted() and not run.refuted
        ]
        if not indices or resolve_providers(reference.settings.providers) == [PROCESSOR]:
            return
        settings = reference.settings.on_cpu()
        try:
            original = Session(reference.proto, settings, base_dir=reference.base_dir)
            candidate_on_cpu: Session | None = None
            for index in indices:
                run, report = reference.runs[index], self.runs[index]
                expected = original.run(run.feeds)
                agreed_outputs = alike_outputs(
                    run, reference.outputs, expected, candidate.run(run.feeds), self._options
                )
                wrong_outputs = {
                    c.output for c in report.comparisons if not report.accepts(c)
                } & agreed_outputs
                self._notes += [
                    note
                    for note in map(self._wrong_original, sorted(wrong_outputs))
                    if note not in self._notes
                ]
                if report.is_probe:
                    candidate_on_cpu = candidate_on_cpu or Session(
                        other.proto, settings, base_dir=other.base_dir
                    )
                    agreed_outputs |= alike_outputs(
                        run,
                        reference.outputs,
                        expected,
                        candidate_on_cpu.run(run.feeds),
                        self._options,
                    )
                self.runs[index] = replace(report, settled=report.settled | agreed_outputs)
        except (LoadError, RunError) as error:  # the CPU lacks a kernel
            _LOGGER.debug("not run on the CPU: %s", error)

    def _wrong_original(self, output: str) -> str:
        where = ", ".join(self._options.providers)
        return (
            f"on {where}, the original computes output {output!r} wrongly; the optimized model "
            "agrees with the original on the CPU"
        )

    def _doubtful(self, reference: Reference) -> list[int]:
        """The runs to repeat in float64, of those with a suspicious difference.

        They are the first rejected runs, the first run of at most `_WORK`, preferably on usual
        values, and the run of at most `TINY` with the largest difference.
        """
        if not self._options.considers_noise or self._options.exactness == "approximate":
            return []
        threshold = _SUSPICIOUS_HALF if computes_in_half(reference.proto) else _SUSPICIOUS
        runs = [
            index
            for index, run in enumerate(self.runs)
            if largest_ulp_of(run) > threshold or (run.source == "range" and not run.is_accepted())
        ]
        broken = [index for index in runs if not self.runs[index].is_accepted()]
        is_light = weight_bytes(reference.proto) <= _LIGHT
        cheap = [index for index in runs if is_light and reference.runs[index].work <= _WORK]
        usual = [index for index in cheap if not self.runs[index].is_probe] or cheap
        tiny = [index for index in cheap if reference.runs[index].work <= TINY]
        max_broken = _MAX_TINY if tiny else _MAX_ARBITRATED
        indices = (
            *broken[:max_broken],
            *usual[:1],
            *sorted(tiny, key=self._by_difference)[-1:],
        )
        return list(dict.fromkeys(indices))

    def _by_difference(self, index: int) -> float:
        return largest_ulp_of(self.runs[index])

    def _rules_of(self, run: ReferenceRun) -> ComparisonRules:
        return rules_of(run, self._options)

    def _settle(self, index: int, findings: Mapping[str, Finding]) -> None:
        """Record the findings about the outputs of a run."""
        run = self.runs[index]
        differences = {
            name: finding.difference for name, finding in findings.items() if finding.difference
        }
        comparisons = tuple(
            (
                replace(
                    c, fault="value", message=differences[c.output], mismatches=max(1, c.mismatches)
                )
                if c.output in differences
                else c
            )
            for c in run.comparisons
        )
        settled = frozenset(name for name, finding in findings.items() if finding.is_rounding)
        self.runs[index] = replace(
            run, comparisons=comparisons, settled=settled, refuted=frozenset(differences)
        )

    def verdict(self, reference: Reference, is_part: bool = False) -> VerificationReport:
        """The report after all runs."""
        broken = [i for i, run in enumerate(self.runs) if not run.is_accepted()]
        unsteady = unseeded_operator(reference.proto) if broken else ""
        # A Dropout drops other elements in each run, which looks like sensitivity to rounding.
        is_steady = not unsteady and not may_drop(reference.proto)
        if broken and is_steady and self._options.considers_noise:
            self._measure_noise(reference, broken)
        # Measuring the noise loads the original once more, and explains most differences. Only if
        # some remain, the original is loaded again, to see whether it repeats its results.
        if not unsteady:
            unsteady = self._unsteady_output(reference)
        if unsteady:
            return self.report(
                "not verified",
                f"the original is not deterministic: {unsteady}",
                "evidence",
            )
        rejected = [(run, c) for run in self.runs for c in run.comparisons if not run.accepts(c)]
        hopeless = [
            (run, c)
            for run, c in rejected
            if run.is_hopeless(c) and (run.is_probe or self._is_equal_elsewhere(c))
        ]
        self._notes += [
            f"outputs are too sensitive to rounding to be compared{where_text(run.dims)}"
            for run, _ in hopeless[:1]
        ]
        rejected = [pair for pair in rejected if pair not in hopeless]
        # An output that is too sensitive to be compared excuses its own differences, but not a
        # fault elsewhere.
        rejected.sort(key=_severity)
        if rejected:
            run, comparison = rejected[0]
            place = f"output {comparison.output!r}{where_text(run.dims)}{values_text(run)}"
            if run.is_hopeless(comparison):
                return self.report(
                    "not verified", f"{place} {sensitivity_text(run, comparison)}", "evidence"
                )
            return self.report("different", f"{place}: {comparison.message}")
        return self._weigh_evidence(reference, is_part)

    def _weigh_evidence(self, reference: Reference, is_part: bool) -> VerificationReport:
        """Report equal, unless there was nothing to compare."""
        reason = "" if is_part else hollow_reason(self.runs, reference.proto.graph)
        if reason:
            return self.report("not verified", reason, "evidence")
        self._notes += [] if is_part else rounding_note(self.runs)
        self._notes += self.coverage.notes
        self._notes += _worst_sample(self.runs)
        if not is_part and not any(c.count for run in self.runs for c in run.comparisons):
            self._notes.append("all outputs were empty")
        if self.skipped:
            largest = max(self.skipped, key=lambda run: sum(run.dims.values()))
            count = f"{len(self.skipped)} of {len(self.runs) + len(self.skipped)} runs"
            self._notes.append(f"{count} skipped: one{where_text(largest.dims)} {largest.reason}")
        sizes_of_runs = {tuple(run.dims.items()) for run in self.runs if run.source == "random"}
        dynamic_dims = {name for run in self.runs for name in run.dims} - reference.chosen
        if len(sizes_of_runs) == 1 and dynamic_dims and self._options.assignments > 1:
            self._notes.append("the original ran with a single set of dimensions only")
        return self.report("equal")

    def _unsteady_output(self, reference: Reference) -> str:
        """The output in which the original differs from itself when it repeats a run that is not
        accepted; empty when there is none.
        """
        pairs = zip(reference.runs, self.runs, strict=False)
        rejected = [run for run, report in pairs if not report.is_accepted()]
        model = Located(reference.proto, reference.base_dir)
        return unsteady_output(
            model, reference.settings, reference.outputs, rejected, self._options.rules
        )

    def _measure_noise(self, reference: Reference, broken: Sequence[int]) -> None:
        """Measure the effect of rounding alone on the outputs of rejected runs.

        Measurements end when this effect explains all differences.
        """
        levels: list[_Levels] = [{} for _ in reference.runs]
        rng = np.random.default_rng(self._options.seed)
        try:
            model = NoisyModel(reference.proto, reference.base_dir, rng)
            session = Session(
                model.proto, reference.settings, base_dir=reference.base_dir, weights=model.weights
            )
            for _ in range(_MAX_DRAWS):
                for index in broken:
                    run = reference.runs[index]
                    moved = session.run(model.feeds(run.feeds, rng))
                    for c in compare_results(
                        reference.outputs, run.results, moved, self._options.rules
                    ):
                        add_bins(levels[index].setdefault(c.output, {}), iter(c.error_bins.items()))
                    self.runs[index] = replace(
                        self.runs[index], noise=self._noise(self.runs[index], levels[index])
                    )
                if all(self.runs[index].is_accepted() for index in broken):
                    break
        except (LoadError, RunError) as error:
            self._notes.append(f"the sensitivity to rounding is only partly known: {error}")

    def _noise(self, run: RunReport, levels: _Levels) -> dict[str, Noise]:
        """The noise of the outputs whose finite differences exceed the tolerance, and whether it
        explains them.
        """
        noise: dict[str, Noise] = {}
        multiple = self._options.noise_multiple
        for c in run.comparisons:
            if c.fault == "value" and c.tolerance is not None and math.isfinite(c.excess):
                bins = levels.get(c.output, {})
                level = max((error_bin.largest for error_bin in bins.values()), default=0.0)
                explained = explains(bins, c.error_bins, multiple)
                noise[c.output] = Noise(
                    level, explained, explained and multiple * level <= HOPELESS * c.top
                )
        return noise

    def _is_equal_elsewhere(self, comparison: Comparison) -> bool:
        """Whether the output is close to the expected one in another run on usual values."""
        usual = ((run, c) for run in self.runs if not run.is_probe for c in run.comparisons)
        return any(c.output == comparison.output and run.is_close(c) for run, c in usual)
