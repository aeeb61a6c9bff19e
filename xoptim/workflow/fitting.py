"""The steps of a job that fit a result to its target, and verify it there."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx

from xoptim.catalogue.discovery import installed_patterns
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.dtypes import FLOATS, weakest
from xoptim.facts.errors import XoptimError
from xoptim.facts.json_results import JsonForm, JsonResult, member
from xoptim.graph.sources import Source
from xoptim.match.rewrite import Rewrite
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.suspect import Suspect
from xoptim.optimizing.verified import VerifiedModel, as_it_is, located
from xoptim.precision.quantize import joined
from xoptim.targets import PlacedNode, Placement, PlacementError, Target, place
from xoptim.targets.bisect import DEFAULT_SEARCH_TIMEOUT, smallest_failing
from xoptim.targets.fitting import Fitted, fit, lowerings
from xoptim.targets.verifying import TargetCheck, verify_on_target
from xoptim.verification.errors import ProviderUnavailable
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.options import VerificationOptions
from xoptim.verification.verify import compare
from xoptim.workflow.fitting_options import FittingOptions

if TYPE_CHECKING:
    from xoptim.diagnose.unfit import UnfitPattern

_MAX_CULPRITS: Final = 5
"""Maximum number of lowerings that are dropped because they change results."""


@dataclass(slots=True)
class FittingOutcome(JsonResult):
    """The outcome of fitting a model to a target.

    Attributes:
        target: the target.
        original: placement of the original; ``None`` where it is not known.
        fitted: placements of the result, and the lowerings; ``None`` where the execution provider
            gave no answer.
        reports: comparisons of the fitted model with the optimized one, on the CPU.
        is_check_asked: whether a comparison on the target was asked for.
        check: the comparison on the target; ``None`` when it was not made.
        dropped: lowerings that were dropped because they change results.
        avoided: nodes at which a lowering is not applied because it changes results, by lowering.
        newer: newer operator sets that lowerings of the remaining nodes need, by lowering.
        unfit: patterns that would apply but are not used for the target.
        fault: the reason why the execution provider gave no answer; empty when it did.
    """

    __json__ = JsonForm(
        member("target=target.name", description="name of the target."),
        "original fitted is_verified verification=reports check dropped avoided newer unfit fault",
        name="Fitting",
    )
    target: Target
    original: Placement | None = None
    fitted: Fitted | None = None
    reports: Sequence[VerificationReport] = ()
    is_check_asked: bool = False
    check: TargetCheck | None = None
    dropped: list[str] = field(default_factory=list)
    avoided: dict[str, list[str]] = field(default_factory=dict)
    newer: dict[str, int] = field(default_factory=dict)
    unfit: Sequence[UnfitPattern] = ()
    fault: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether the result was found equal on the target."""
        return self.check is not None and self.check.ok

    @property
    def difference(self) -> str:
        """The reason not to use the result, empty when there is none."""
        failure = next((report for report in self.reports if report.status == "different"), None)
        if failure is not None:
            return f"the lowered model differs: {failure.reason}"
        if self.check is not None and self.check.status == "different":
            return f"on {self.target.name}, the result differs: {self.check.explanation}"
        return ""

    @property
    def doubt(self) -> str:
        """The reason why the result is not fitted, or could not be verified on the target; else
        empty.
        """
        if self.fault:
            return self.fault
        if self.target.is_standard and self.fitted is not None and self.fitted.after.left:
            counts = Counter(node.label for node in self.fitted.after.left)
            labels = ", ".join(f"{label} {count}" for label, count in counts.most_common())
            return f"not fitted to {self.target.name}, as no lowering applies: {labels}"
        if not self.is_check_asked:
            return ""
        if self.target.table and not self.target.is_standard:
            return (
                f"not verified on {self.target.name}: models cannot be run there; xoptim only has "
                "a table of its operators"
            )
        if self.check is not None and self.check.status == "not verified":
            return f"not verified on {self.target.name}: {self.check.explanation}"
        return ""

    @property
    def verdict(self) -> str:
        """The outcome of the comparison on the target, in one line."""
        objection = self.difference or self.doubt
        if objection:
            return objection
        if self.check is not None:
            return self.check.summary()
        return "verified by onnxruntime on the CPU" if self.is_check_asked else "skipped"

    def not_fitted(self, reason: object) -> None:
        """Note the reason why the provider gave no answer."""
        self.fault = f"not fitted to {self.target.name}, and not verified there: {reason}"


class Fit:
    """Fits results of one job to a target."""

    def __init__(self, target: Target, options: FittingOptions, plan: Plan) -> None:
        self._target = target
        self._options = options
        self._plan = plan
        # operators that the target runs wrongly, with the reasons
        self._distrusted: dict[tuple[str, str], str] = {}

    def run(
        self, source: Source | str | Path, verified: VerifiedModel
    ) -> tuple[VerifiedModel, FittingOutcome]:
        """The fitted result, verified on the target, and the outcome."""
        outcome = FittingOutcome(self._target, is_check_asked=self._options.verifies)
        if not self._target.is_installed:
            outcome.not_fitted(f"not installed: {self._target.install}")
            return verified, outcome
        self._plan.sink.on_step(f"asking {self._target.name} which nodes it takes")
        origin = Source.of(source)
        try:
            outcome.original = self._placement(origin.proto, origin.base_dir)
        except (ProviderUnavailable, PlacementError) as error:
            outcome.not_fitted(error)
            return verified, outcome
        except XoptimError:  # the provider may accept the result all the same
            outcome.original = None
        optimized = verified
        try:
            verified = self._fitted(optimized, outcome)
            if self._options.verifies and self._target.provider:
                verified = self._verified(origin, optimized, verified, outcome)
        except XoptimError as error:
            outcome.not_fitted(error)
        outcome.newer = _newer(verified, outcome)
        return verified, outcome

    def _placement(self, model: onnx.ModelProto, base_dir: Path | None) -> Placement:
        libraries = self._plan.verify.checks.custom_op_libs
        placement = place(
            model,
            self._target,
            base_dir,
            software_device=self._plan.verify.checks.software_device,
            seconds=self._options.seconds,
            custom_op_libs=tuple(libraries),
        )
        return replace(placement, nodes=tuple(map(self._trusted, placement.nodes)))

    def _failing(
        self, model: onnx.ModelProto, whole: Placement, base_dir: Path | None, seconds: float
    ) -> tuple[str, ...]:
        """The names of the nodes of the smallest part that does not compile."""
        if self._plan.verify.checks.custom_op_libs:
            return ()
        self._plan.sink.on_step(f"looking for what {self._target.name} does not compile")
        part = smallest_failing(
            model,
            self._target,
            base_dir,
            software_device=self._plan.verify.checks.software_device,
            seconds=min(seconds, DEFAULT_SEARCH_TIMEOUT),
            whole=whole,
        )
        return () if part is None else part.nodes

    def _trusted(self, node: PlacedNode) -> PlacedNode:
        """The node, marked as not taken if the target runs its operator wrongly."""
        reason = self._distrusted.get((node.domain, node.op_type))
        return node if reason is None else replace(node, partition=-1, reason=reason)

    def _fitted(self, verified: VerifiedModel, outcome: FittingOutcome) -> VerifiedModel:
        """The model with lowerings that change no result on the CPU."""
        optimized, folder = verified.proto, verified.base_dir
        numbers = itertools.count(1)

        def ask(model: onnx.ModelProto) -> Placement:
            self._plan.sink.on_step(f"fitting to {self._target.name}: placement {next(numbers)}")
            return self._placement(model, folder)

        while True:
            outcome.fitted = fit(
                optimized,
                ask,
                folder,
                find=lambda model, whole, seconds: self._failing(model, whole, folder, seconds),
                drop=outcome.dropped,
                avoid=outcome.avoided,
                seconds=self._options.seconds,
            )
            if not outcome.fitted.steps:
                outcome.reports = ()
                return verified
            lowered = self._lowered(verified, outcome.fitted)
            outcome.reports = lowered.reports
            is_wrong = any(report.status == "different" for report in lowered.reports)
            if not is_wrong or len(outcome.dropped) + len(outcome.avoided) >= _MAX_CULPRITS:
                return joined(verified, lowered)
            name, node = self._culprit(verified, outcome.fitted)
            if node and name not in outcome.avoided:
                outcome.avoided[name] = [node]
            else:
                outcome.dropped.append(name)
            self._discard(lowered)

    def _culprit(self, verified: VerifiedModel, fitted: Fitted) -> tuple[str, str]:
        """The lowering that changes results when it is applied alone, else the first one.

        Also returns the node at which it does; empty if it changes results at other nodes as well.
        """
        patterns = installed_patterns()
        names = list(dict.fromkeys(step.pattern for step in fitted.steps))
        for name in names:
            if name not in patterns:
                continue
            options = OptimizationOptions(patterns=[patterns[name]])
            checks = self._checks(verified, [patterns[name]], None)
            culprit = Suspect(verified.proto, options, checks).find_culprit()
            if culprit is not None and culprit.name == name:
                return name, culprit.node if culprit.result else ""
        return names[0], ""

    def _checks(
        self, verified: VerifiedModel, applied: Sequence[type[Rewrite]], folder: Path | None
    ) -> VerificationOptions:
        """The options of a comparison with the optimized model, on the CPU."""
        steps = self._plan.verify.checks.integer_atol
        if _gives_only_bytes(verified.proto):
            steps = max([steps, *(pattern.integer_steps for pattern in applied)])
        return replace(
            self._plan.verify.checks,
            providers=("cpu",),
            exactness=weakest(pattern.exactness for pattern in applied),
            integer_atol=steps,
            original_dir=verified.base_dir,
            optimized_dir=folder,
        )

    def _lowered(self, verified: VerifiedModel, fitted: Fitted) -> VerifiedModel:
        """The fitted model, compared with the optimized one on the CPU."""
        source = Source(fitted.model, verified.base_dir)
        lowered = as_it_is(source, OptimizationOptions(), self._plan)
        if self._plan.verify.whole:
            self._plan.sink.on_step("verifying the lowered model")
            patterns = installed_patterns()
            applied = [patterns[step.pattern] for step in fitted.steps if step.pattern in patterns]
            lowered.reports = [
                compare(
                    verified.proto,
                    lowered.proto,
                    self._checks(verified, applied, lowered.base_dir),
                    on_step=self._plan.sink.on_step,
                )
            ]
        return lowered

    def _discard(self, verified: VerifiedModel) -> None:
        self._plan.sink.discard(verified.proto)

    def _verified(
        self,
        origin: Source,
        optimized: VerifiedModel,
        verified: VerifiedModel,
        outcome: FittingOutcome,
    ) -> VerifiedModel:
        """The result, compared with the original on the target.

        An operator that the target computes wrongly or fails to run is lowered like one that it
        does not take.
        """
        original, checks = located(origin, self._plan.verify.checks)
        while True:
            self._plan.sink.on_step(f"verifying on {self._target.name}")
            check = outcome.check = verify_on_target(
                original,
                verified.proto,
                self._target,
                checks,
                verified.base_dir,
                software_device=self._plan.verify.checks.software_device,
                feeds=self._options.feeds,
                tolerance=self._options.tolerance,
            )
            key = _key(check.operator)
            if check.ok or key in self._distrusted or key not in lowerings(outcome.dropped):
                return verified
            is_computed = check.status == "different" or check.error > 0.0
            fault = "computes it wrongly" if is_computed else "fails to run it"
            self._distrusted[key] = f"{self._target.name} {fault}"
            self._discard(verified)
            verified = self._fitted(optimized, outcome)


def _gives_only_bytes(model: onnx.ModelProto) -> bool:
    """Whether all outputs are floats or 8-bit integers, so that other integers cannot differ."""
    types = {output.type.tensor_type.elem_type for output in model.graph.output}
    return types <= FLOATS | {onnx.TensorProto.INT8, onnx.TensorProto.UINT8}


def _newer(verified: VerifiedModel, outcome: FittingOutcome) -> dict[str, int]:
    """The newer operator sets that lowerings of the remaining nodes need, by lowering."""
    if outcome.fitted is None:
        return {}
    opset, patterns = verified.builder.model.opsets.get("", 0), installed_patterns()
    choices = lowerings(outcome.dropped)
    operators = {(node.domain, node.op_type) for node in outcome.fitted.after.left}
    needs = {name: patterns[name].min_opset for key in operators for name in choices.get(key, ())}
    return {name: minimum for name, minimum in sorted(needs.items()) if minimum > opset}


def _key(label: str) -> tuple[str, str]:
    """The domain and the name of an operator."""
    domain, _, op_type = label.rpartition("::")
    return domain, op_type
