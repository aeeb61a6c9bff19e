"""Last stage of quantization: the quantized model, and its summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from xoptim.diagnose.report import OptimizationReport
from xoptim.facts.advice import Advice
from xoptim.facts.json_results import JsonForm, JsonResult, member
from xoptim.facts.json_values import AnyFloat
from xoptim.match.view import Cpu
from xoptim.optimizing.verified import VerifiedModel
from xoptim.precision.candidates import Candidate
from xoptim.precision.choices import Decision, QuantizationChoice
from xoptim.precision.large_constants import float32_bytes, large_constants
from xoptim.precision.metrics import metric_name
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.reference import SliceError
from xoptim.precision.routing import Routing, avoided_text, routing_text
from xoptim.precision.samples import Samples
from xoptim.verification.judging.report import VerificationReport

_HALF: Final = 16


@dataclass(frozen=True, slots=True)
class Quantized(JsonResult):
    """The result of a quantization.

    Attributes:
        verified: the model. Its ``reports`` compare the optimized float32 model with the original.
        comparisons: comparisons with the fake-quantized model.
        options: the options of the caller, with the goal and the exact routing that were used.
        choices: the decision for each operator and constant that can be quantized.
        applied: results of quantized operators, and constants that were stored, with the names of
            the patterns.
        worst: the slice of the outputs that uses most of its tolerance, on all samples; ``None`` if
            no error was measured.
        samples: the samples on which the error was measured; empty if no error was measured.
        reason: the reason why nothing was quantized; empty if something was.
        seconds: duration, in seconds.
        inner: the operators of subgraphs that stay as they are, and the reason, in words.
        in_float16: whether operators compute in float16.
        preprocessing: the verified models of the steps before quantization.
        description: the quantized parts in a few words, if operators were not chosen one by one.
        float32_model: the optimized model, if it may be quantized again.
        activation_bits: bits of the results of operators; 0 if operators were chosen one by one.
        activations: names of the quantized activations between operators (static int8).
        target: name of the target for which the scheme was chosen; empty where a user chose it.
        cpu: CPUs on which int8 MatMuls are exact; see `OptimizationOptions.cpu`.
        ended_by_budget: whether the search ended with its budget.
        routing: how often quantization changes what nodes choose inside the model, such as experts.
        avoided_routing: how often it would have done so; empty unless the operators that determine
            the choices stay in float32 for this reason.
    """

    __json__ = JsonForm(
        "summary",
        member("scheme=options.scheme", description="the scheme."),
        member("bits=options.bits", description="of a weight in blocks (int4)."),
        member(
            "block_size=options.block_size",
            description="number of values of a weight that share a scale (int4).",
        ),
        "target tolerance metric",
        member("error", description="error of `slice` on all samples, as a fraction."),
        "slice=worst_name",
        member(
            "scale",
            description="typical size of `slice`: the median over the samples of its largest "
            "magnitude (metric `largest`) or of its root mean square (`rms`). `error` is the size "
            "of the difference on a sample, divided by the size of the float32 values there or by "
            "`scale`, whichever is larger. 0 for other metrics, and with fewer than three samples.",
        ),
        "samples=samples.count",
        member(
            "are_samples_random=samples.are_random", description="whether the samples are random."
        ),
        "reason seconds float32_bytes operators=choices activations routing avoided_routing",
        "verification=comparisons",
    )
    verified: VerifiedModel
    # The fake-quantized model computes the same quantized numbers in float32
    comparisons: Sequence[VerificationReport]
    options: PrecisionOptions
    choices: Sequence[QuantizationChoice] = ()  # one for each form
    applied: Mapping[str, str] = field(default_factory=dict)
    worst: SliceError | None = None
    samples: Samples = field(default_factory=lambda: Samples([], are_random=False))
    reason: str = ""
    seconds: float = 0.0
    inner: str = ""
    in_float16: bool = False
    preprocessing: Sequence[VerifiedModel] = ()
    description: str = ""
    float32_model: VerifiedModel | None = None
    activation_bits: int = 0
    activations: Sequence[str] = ()
    target: str = ""
    cpu: Cpu = "any"
    ended_by_budget: bool = False
    routing: Sequence[Routing] = ()
    avoided_routing: Sequence[Routing] = ()

    @property
    def candidates(self) -> list[Candidate]:
        """All operators and constants that can be quantized, in each form."""
        return [choice.measured.candidate for choice in self.choices]

    @property
    def computed(self) -> str:
        """A word for the operators that compute with quantized numbers."""
        return "float16 operators" if self.in_float16 else "integer operators"

    @property
    def operators(self) -> dict[str, str]:
        """Results of the operators that compute with quantized numbers, with the names of the
        patterns.
        """
        forms = {candidate.form for candidate in self.candidates if not candidate.is_weight_only}
        return dict(form for form in self.applied.items() if form in forms)

    @property
    def fault(self) -> str:
        """The reason not to use the model, empty when there is none."""
        reasons = [report.reason for report in self.comparisons if report.status == "different"]
        if reasons:
            return f"{self.computed} differ from float32 on the same quantized values: {reasons[0]}"
        if self.verified.each is not None and self.verified.each.disagreements:
            return str(self.verified.each.disagreements[0])
        worst = self.worst
        if worst is not None and worst.error > worst.tolerance:
            return (
                f"the error of {worst.name} is {worst.error:.2%}, more than the tolerance of "
                f"{worst.tolerance:.2%}"
            )
        return ""

    @property
    def metric(self) -> str:
        """The metric with which the error was measured, or the name of a function."""
        return metric_name(self.options.metric)

    @property
    def error(self) -> AnyFloat:
        """The error of the slice `worst`, as a fraction."""
        return 0.0 if self.worst is None else self.worst.error

    @property
    def scale(self) -> AnyFloat:
        """The typical size of the slice `worst`; see `OutputSlice.typical`."""
        return 0.0 if self.worst is None else self.worst.typical

    @property
    def worst_name(self) -> str:
        """The output, or the part of it with a scale of its own, that uses most of its
        tolerance.
        """
        return "" if self.worst is None else self.worst.name

    @property
    def tolerance(self) -> float:
        """The tolerance of the slice `worst`, as a fraction; the general one if there is none."""
        return self.options.tolerance if self.worst is None else self.worst.tolerance

    @property
    def float32_bytes(self) -> dict[str, int]:
        """Bytes of constants that stay in float32, by operator."""
        return float32_bytes(self.verified.proto)

    @property
    def are_large_left(self) -> bool:
        """Whether constants are left that could be stored in lower precision."""
        storable = {candidate.weights for candidate in self.candidates if candidate.is_weight_only}
        constants = large_constants(self.verified.proto).values()
        return any(constant.name in storable and constant.bits > _HALF for constant in constants)

    def summary(self) -> str:
        """The quantized operators and constants, and the error, in one line."""
        if self.reason:
            return (
                f"{self.heading}: nothing is quantized, the float32 model is the result: "
                f"{self.reason}{self._why_ended()}"
            )
        counts = [self.description] if self.description else self.counts
        return (
            f"{self.heading}: {', '.join(counts)}, error {self.error:.2%} of at most "
            f"{self.tolerance:.2%}{self._place()} ({self.metric}, "
            f"{self.samples.summary()}){self._exact_where()}{self._why_ended()}"
        )

    def _place(self) -> str:
        """The name of the slice `worst`, if the outputs have several slices."""
        return f" in {self.worst.name}" if self.worst is not None and not self.worst.is_only else ""

    def _why_ended(self) -> str:
        budget = self.options.budget
        if not self.ended_by_budget or budget is None:
            return ""
        return f"; the budget of {budget:g} s ended the search ({Advice('budget')})"

    def _exact_where(self) -> str:
        """A note for models whose integer results are exact only on some CPUs."""
        if self.cpu == "any" or not self.operators or self.in_float16:
            return ""
        return f"; on x86 CPUs without VNNI, sums may saturate ({Advice('cpu', 'vnni')})"

    @property
    def routing_text(self) -> str:
        """How often quantization changes a choice inside the model, and the option that avoids it.

        For avoided changes, how often it would, and the option that quantizes the operators. Empty
        if choices hardly change.
        """
        return avoided_text(self.avoided_routing) or routing_text(self.routing)

    @property
    def heading(self) -> str:
        """The scheme, and the target for which it was chosen, if the caller did not ask for it."""
        scheme = self.options.scheme
        return f"{scheme}, chosen for {self.target}" if self.target else scheme

    @property
    def counts(self) -> list[str]:
        """The numbers of quantized operators, activations, and constants in lower precision."""
        activation_counts = (
            [f"{len(self.activations)} activations between them"] if self.activations else []
        )
        return [*self._operators(), *activation_counts, *self._constants()]

    def _operators(self) -> list[str]:
        """The number of operators in lower precision, and the reasons for the other operators."""
        decisions = {
            choice.measured.result: choice.decision
            for choice in self.choices
            if not choice.measured.candidate.is_weight_only and not choice.measured.candidate.reads
        }
        if not decisions:
            return []
        refusals = [decisions[name] for name in decisions.keys() - self.operators.keys()]
        count = f"{len(decisions) - len(refusals)} of {len(decisions)} operators quantized"
        is_all = len(refusals) == len(decisions)
        return [f"{count}{self._why_float32(refusals, is_all=is_all)}"]

    def _why_float32(self, decisions: Collection[Decision], *, is_all: bool) -> str:
        if not decisions:
            return ""
        if self.in_float16:
            return (
                f" ({len(decisions)} in float32: for their range or error, or because float16 is "
                "not faster here)"
            )
        is_timed = self.options.is_timed
        if is_timed and is_all:
            return " (no choice within the tolerance is faster here)"
        slow = sum(decision == "not faster" for decision in decisions)
        is_small = self.options.goal == "size" and not self.options.static
        error = "for their error or bytes" if is_small else "for their error"
        causes = {"not faster here": slow, error: len(decisions) - slow}
        counts = ", ".join(f"{count} {cause}" for cause, count in causes.items() if count)
        return f" (in float32: {counts})"

    def _constants(self) -> list[str]:
        """The number of constants that are stored in lower precision, by their bits."""
        constants = [constant for constant in self.candidates if constant.is_weight_only]
        widths = {constant.form: constant.element_bits for constant in constants}
        counts = Counter(widths[form] for form in self.applied.items() if form in widths)
        return [
            f"{counts[width]} constant{'s' * (counts[width] > 1)} in {width} bits"
            for width in sorted(counts)
        ]

    def rows(self) -> list[dict[str, str]]:
        """The candidates as rows of a table, in the order of `Measured.price`."""
        independent = [
            choice for choice in self.choices if choice.measured.candidate.is_independent
        ]
        ranked = sorted(independent, key=lambda choice: choice.measured.price(self.options.goal))
        return [
            {**choice.measured.texts(), "choice": "quantized" if choice.is_quantized else ""}
            for choice in ranked
        ]

    def figures(self) -> dict[str, Any]:
        """The summary in one line, and the rows of the table of candidates."""
        return {"precision": self.summary(), "quantizable": self.rows()}

    def report(self, before: OptimizationReport) -> OptimizationReport:
        """The report of the optimization, with the rewrites of the quantization."""
        last = self.verified.builder.report()
        counts = Counter(before.applied)
        for model in self.preprocessing:
            counts.update(model.builder.report().applied)
        counts.update(self.applied.values())
        counts.update(last.applied)
        return replace(
            before,
            applied=dict(counts),
            nodes_after=last.nodes_after,
            repetitions=last.repetitions,
        )
