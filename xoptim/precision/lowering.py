"""Round products to fewer bits, as many as a tolerance allows, and prove the graph that computes
with the integers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final

from xoptim.catalogue.query import Query
from xoptim.diagnose.report import OptimizationReport
from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.optimizing.proof import Proof, ProofOptions, assuming, prove
from xoptim.precision.attempts import best_attempt
from xoptim.precision.halves import KERNELS, best_in_halves, proving_halves
from xoptim.precision.measuring import computing_patterns, integer_patterns, sensitivity
from xoptim.precision.options import HALVES, PrecisionOptions
from xoptim.precision.products import QuantizableOp, with_followers, worthwhile
from xoptim.precision.samples import Samples
from xoptim.precision.storing import float32_bytes, large_constants
from xoptim.verification.errors import ChoiceError, NothingToQuantizeError
from xoptim.verification.report import ValidationReport

_HALF: Final = 16
_AFTERWARDS: Final = ("FusedConv",)
"""Patterns that join operators between which numbers may be rounded."""


@dataclass(frozen=True, slots=True)
class Lowered:
    """A model with products of fewer bits.

    Attributes:
        proof: the model; its comparison is the one of the optimized model with the original, before
            anything was rounded.
        structure: the comparison of the model with the one that computes the same rounded numbers
            in floats.
        options: what was asked for.
        products: all products that can be rounded, and all constants that can be stored, in each
            form, with the error that each adds alone.
        rounded: results of those that were rounded, and constants that were stored, with the names
            of the patterns.
        error: of the model on all samples, as a fraction.
        samples: what it was measured on; none where there was nothing to measure.
        reason: why nothing was quantized; empty where something was.
        seconds: that the search took.
        inner: which operators of subgraphs stay as they are, and why.
        in_halves: whether operators compute in 16 bits.
        prepared: the proofs of what was done before anything was rounded.
        choice: what was quantized, in a few words, where products were not chosen one by one.
        floats: the optimized model, where it may be quantized again.
        bits: of the results of operators, 0 where products were chosen one by one.
    """

    proof: Proof
    structure: Sequence[ValidationReport]
    options: PrecisionOptions
    products: Sequence[QuantizableOp] = ()
    rounded: Mapping[str, str] = field(default_factory=dict)
    error: float = 0.0
    samples: Samples = field(default_factory=lambda: Samples([], are_random=False))
    reason: str = ""
    seconds: float = 0.0
    inner: str = ""
    in_halves: bool = False
    prepared: Sequence[Proof] = ()
    choice: str = ""
    floats: Proof | None = None
    bits: int = 0

    @property
    def computed(self) -> str:
        """A word for the operators that compute with rounded numbers."""
        return "operators of 16 bits" if self.in_halves else "integers"

    @property
    def taken(self) -> dict[str, str]:
        """Results of the products that compute with rounded numbers, with the names of the
        patterns.
        """
        forms = {each.form for each in self.products if not each.is_stored}
        return {
            result: pattern
            for result, pattern in self.rounded.items()
            if (result, pattern) in forms
        }

    @property
    def fault(self) -> str:
        """The reason not to use the model, empty when there is none."""
        wrong = next((report for report in self.structure if report.status == "different"), None)
        if wrong is not None:
            return (
                f"{self.computed} do not compute what floats compute with the same rounded "
                f"numbers: {wrong.summary()}"
            )
        if self.proof.each is not None and self.proof.each.disagreements:
            return str(self.proof.each.disagreements[0])
        if self.error > self.options.tolerance:
            return (
                f"the error is {self.error:.2%}, more than the tolerance of "
                f"{self.options.tolerance:.2%}"
            )
        return ""

    @property
    def float32_bytes(self) -> dict[str, int]:
        """The bytes of constants that are left in float32, by operator, largest first."""
        return float32_bytes(self.proof.proto)

    @property
    def are_large_left(self) -> bool:
        """Whether constants that can be stored in fewer bits are left as they were."""
        able = {each.weights for each in self.products if each.is_stored}
        left = large_constants(self.proof.proto).values()
        return any(each.name in able and each.bits > _HALF for each in left)

    def summary(self) -> str:
        """The choice and its error, in one line."""
        if self.reason:
            return (
                f"{self.options.scheme}: nothing is quantized, the float32 model is the result: "
                f"{self.reason}"
            )
        counts = [self.choice] if self.choice else [*self._operators(), *self._constants()]
        return (
            f"{self.options.scheme}: {', '.join(counts)}, error {self.error:.2%} of at most "
            f"{self.options.tolerance:.2%} ({self.options.metric}, {self.samples.summary()})"
        )

    def _operators(self) -> list[str]:
        """How many operators compute with fewer bits, and why the others do not."""
        operators = {each.result for each in self.products if not each.reads and not each.is_stored}
        if not operators:
            return []
        left = operators - self.taken.keys()
        fast = with_followers(
            (each for each in worthwhile(self._able) if each.is_choice), self._able
        )
        is_timed = self.options.goal == "speed" and not self.in_halves
        slow = len(left - fast.keys()) if is_timed else 0
        error = "for their error" if is_timed else "for their error or bytes"
        causes = {"not faster here": slow, error: len(left) - slow}
        counts = ", ".join(f"{count} {cause}" for cause, count in causes.items() if count)
        why = f" (in float32: {counts})" if counts else ""
        if self.in_halves and left:
            why = (
                f" ({len(left)} compute in 32 bits: for their range, their error, or as 16 are not "
                "faster here)"
            )
        elif len(left) == len(operators) and is_timed:
            why = " (no choice within the tolerance is faster here)"
        return [f"{len(operators) - len(left)} of {len(operators)} operators quantized{why}"]

    def _constants(self) -> list[str]:
        """How many constants are stored in fewer bits, by their bits."""
        widths = {each.form: each.width for each in self.products if each.is_stored}
        counts = Counter(widths[form] for form in self.rounded.items() if form in widths)
        return [
            f"{counts[width]} constant{'s' * (counts[width] > 1)} in {width} bits"
            for width in sorted(counts)
        ]

    @property
    def _able(self) -> list[QuantizableOp]:
        return [each for each in self.products if not each.is_stored]

    def rows(self) -> list[dict[str, str]]:
        """What can be quantized, as rows of a table: those first that save most for their error."""
        candidates = (each for each in self.products if each.is_choice)
        chosen = self.rounded.items()
        return [
            {**each.texts(), "choice": "quantized" if each.form in chosen else ""}
            for each in sorted(candidates, key=lambda each: each.price(self.options.goal))
        ]

    def figures(self) -> dict[str, Any]:
        """The choice in a line, and the rows of the table."""
        return {"precision": self.summary(), "products": self.rows()}

    def report(self, before: OptimizationReport) -> OptimizationReport:
        """The report of the optimization with the rewrites of this one."""
        found = self.proof.builder.report()
        rounding = Counter(self.rounded.values())
        scaling = {
            name: count
            for each in self.prepared
            for name, count in each.builder.report().applied.items()
        }
        applied = {**before.applied, **scaling, **rounding, **found.applied}
        return replace(
            before, applied=applied, nodes_after=found.nodes_after, repetitions=found.repetitions
        )

    def to_json(self) -> dict[str, Any]:
        """The choice as JSON values."""
        products = [
            {**each.to_json(), "rounded": self.rounded.get(each.result) == each.pattern}
            for each in self.products
        ]
        return {
            "scheme": self.options.scheme,
            "tolerance": self.options.tolerance,
            "metric": self.options.metric,
            "error": self.error,
            "samples": len(self.samples.feeds),
            "random": self.samples.are_random,
            "reason": self.reason,
            "seconds": self.seconds,
            "float32_bytes": self.float32_bytes,
            "products": products,
            "structure": [report.to_json() for report in self.structure],
        }


def in_floats(options: OptimizationOptions) -> OptimizationOptions:
    """The options of the optimization before anything is rounded: blocks are written to their
    places afterwards.
    """
    return replace(options, outline=False, drop=(*options.drop, *_AFTERWARDS))


def lower(
    proof: Proof, options: OptimizationOptions, how: ProofOptions, precision: PrecisionOptions
) -> Lowered:
    """Round as many products of an optimized model as the tolerance allows, those first that give
    most for their error.

    Two steps: operands of products are replaced by numbers of fewer bits, which is the only step
    that changes results beyond rounding, and whose error is measured. Then the products are
    computed with the integers; that graph is proved to compute what the one with the rounded
    numbers computes in floats. Where nothing can be rounded, or errs too much, the result is the
    optimized model itself.

    Args:
        proof: the optimized model.
        options: of its optimization.
        how: options of the proof.
        precision: the scheme, and the error allowed.

    Raises:
        ChoiceError: values do not fit the model, or options contradict each other.
        RunError, LoadError, FeedError: the model does not run.
    """
    halves = precision.computes_in_halves(options.provider)
    if precision.io_types == "float16" and not halves:
        raise ChoiceError(
            "inputs and outputs become float16 where operators compute in 16 bits: --compute "
            "float16"
        )
    start = perf_counter()
    try:
        found = _quantized(proof, options, how, precision)
    except NothingToQuantizeError as nothing:
        found = Lowered(
            _in_float32(proof, options, how), (), precision, reason=str(nothing), in_halves=halves
        )
    if not found.reason and not found.rounded and precision.io_types == "float32":
        found = replace(
            found,
            proof=_in_float32(proof, options, how),
            structure=(),
            error=0.0,
            reason=_unfit(found),
        )
    return replace(found, seconds=perf_counter() - start)


def _quantized(
    proof: Proof, options: OptimizationOptions, how: ProofOptions, precision: PrecisionOptions
) -> Lowered:
    """The model of fewer bits; see `lower`."""
    halves = precision.computes_in_halves(options.provider)
    integers = integer_patterns(HALVES) if halves else computing_patterns(precision)
    computing: list[Query | type[Rewrite]] = [Query.of(options.patterns), *integers]
    # rounded weights are not expanded again
    further = replace(options, patterns=computing, opset=None, max_growth=0)
    how = replace(how, checks=assuming(how.checks, options))
    if halves:
        further = replace(further, provider=KERNELS)
        found, rounded, patterns = best_in_halves(proof, further, how, precision)
        how = proving_halves(how, rounded, precision)
    else:
        found = sensitivity(proof, options, how, precision)
        how.on_step("choosing operators")
        best = best_attempt(found, precision, further, replace(how.checks.settings, level="all"))
        rounded, patterns = best.rounded, best.patterns
    made = prove(
        Source(rounded, found.folder), further, replace(how, each=True, on_loaded=lambda _: None)
    )
    how.on_step("measuring the error")
    final = found.trial.error_of(made.proto, made.base_dir)
    if halves:  # processors compute in 32 bits what is of 16
        final = max(final, found.trial.error_of(rounded, found.folder))
    return Lowered(
        joined(proof, made),
        [report for each in (*found.prepared, made) for report in each.reports],
        replace(precision, goal=found.goal),
        [*found.products, *found.stored],
        patterns,
        final,
        found.samples,
        inner=found.inner,
        in_halves=halves,
        prepared=found.prepared,
    )


def _in_float32(proof: Proof, options: OptimizationOptions, how: ProofOptions) -> Proof:
    """The optimized model, with the patterns that `in_floats` leaves out."""
    how.on_step("writing the float32 model")
    return joined(
        proof,
        prove(Source(proof.proto, proof.base_dir), options, replace(how, on_loaded=lambda _: None)),
    )


def _unfit(found: Lowered) -> str:
    """The reason why nothing was quantized although something could be."""
    tolerance = f"the tolerance of {found.options.tolerance:.2%}"
    if found.error > found.options.tolerance:
        return (
            f"its outputs differ by {found.error:.2%} between two ways in which onnxruntime runs "
            f"it, more than {tolerance}"
        )
    if found.in_halves:
        return f"no operator keeps {tolerance} in 16 bits, or none is faster"
    return f"no choice keeps {tolerance}"


def joined(first: Proof, second: Proof) -> Proof:
    """The second model, with what is known of the way from the original to the first."""
    return replace(
        second,
        before=first.before,
        load_seconds=first.load_seconds,
        optimize_seconds=first.optimize_seconds,
        validate_seconds=first.validate_seconds,
        opset_before=first.opset_before,
        reports=first.reports,
        left_out=[*first.left_out, *second.left_out],
    )
