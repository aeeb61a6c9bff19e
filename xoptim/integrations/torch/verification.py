"""Compares an ONNX model with a torch module."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np

from xoptim.facts.changes import with_changes
from xoptim.facts.lazy import lazy_module
from xoptim.facts.words import counted
from xoptim.graph.assumed import assumed_of, noted
from xoptim.graph.sources import Source
from xoptim.integrations.torch.modules import export_of, first_difference
from xoptim.integrations.torch.runner import ModuleError, ModuleRunner, mode_fault
from xoptim.integrations.torch.values import Arguments, Bound, array_of, matched, tensors_of
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.inputs.feeding import RunPlan, run_plan
from xoptim.verification.inputs.varied import VariedExample
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.judging.expected import ExpectedRun, judge_expected
from xoptim.verification.judging.judge import where_text
from xoptim.verification.judging.report import Cause, Status, VerificationReport
from xoptim.verification.judging.steady import unsteady_output
from xoptim.verification.options import VerificationChanges, VerificationOptions
from xoptim.verification.runs.protos import Located
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.verify import with_record

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch.export import ExportedProgram
else:
    torch = lazy_module("torch")

_MAX_NOTES: Final = 3  # about sizes at which the module fails


def verify(
    module: nn.Module | ExportedProgram,
    model: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    options: VerificationOptions | None = None,
    *,
    exported: Any = None,
    **changes: Unpack[VerificationChanges],
) -> VerificationReport:
    """Run a torch module and a model on the same values and compare.

    The values are the arguments, others like them, and some of other sizes: each dynamic dimension
    of the model at 1 and at a larger size, alone and together with the others. Results
    are matched in order, through tuples, dicts and the output classes of transformers, or by name
    where the model lacks some. A difference beyond the tolerance of the type counts as rounding
    where the module itself is as far from its own results in float64.

    Returns the report. ``different`` says whether the export or a later change made the difference,
    and in which part of the module. ``not verified``: the module is in training mode, does not
    repeat its results, or does not run; or onnxruntime cannot load the model.

    Args:
        module: a module in ``eval()`` mode, of any floating-point type.
        model: of any kind that `xoptim.optimize` takes.
        args: positional arguments of the module, one tensor or a tuple.
        kwargs: the same by name.
        options: provider and tolerance of the comparison; ``assume`` bounds the sizes.
        exported: the model before later changes; by default the module is exported once more.
        **changes: fields of `VerificationOptions` to set.

    Raises:
        ImportError, ModelError: when torch is not installed, or a model cannot be read.
        ChoiceError, ProviderUnavailable: when the arguments do not fit the model, or onnxruntime
            lacks a requested execution provider.
    """
    checks = with_changes(VerificationOptions, options, changes)
    network = module if isinstance(module, torch.nn.Module) else module.module()
    source = Source(model)
    assumptions = assumed_of(source.proto, checks.assume, from_model=checks.assume_from_model)
    checks = replace(checks, assume=assumptions.texts, assume_from_model=False)
    comparison = TorchComparison(ModuleRunner(network, Arguments(network, args, kwargs)), checks)
    report = comparison.report(Located(source.proto, source.base_dir))
    report = with_record(report, noted(source.proto).texts, checks)
    if report.status != "different":
        return report
    before = None if exported is None else Source(exported)
    origin = comparison.origin(None if before is None else Located(before.proto, before.base_dir))
    return replace(report, reason="; ".join(filter(None, (report.reason, origin))))


class TorchComparison:
    """Compares models with a module.

    ``broken`` holds the values of the first run of the last comparison in which the model differs
    or does not run.
    """

    def __init__(self, runner: ModuleRunner, options: VerificationOptions) -> None:
        self._runner, self._options = runner, options
        self.broken: dict[int, Value] | None = None

    def report(self, model: Located) -> VerificationReport:
        """The comparison with a model; raises `ChoiceError` where it has other inputs."""
        self.broken = None
        if fault := mode_fault(self._runner.module):
            return self._judged("not verified", fault, cause="run")
        bound = self._runner.arguments.bind(model.proto)
        example = VariedExample(model.proto, bound.example(), self._options)
        try:
            session = Session(model.proto, self._options.settings, base_dir=model.base_dir)
        except LoadError as error:
            reason = f"onnxruntime cannot load the model: {error}"
            return self._judged("not verified", reason, cause="load")
        first = next(example.plans())
        return self._fault(session, bound.values(first.feeds)) or self._compared(
            model, session, bound, example.plans()
        )

    def _fault(self, session: Session, values: Mapping[int, Value]) -> VerificationReport | None:
        """A report with the reason why results cannot be compared at all; ``None`` if they can."""
        try:
            tensors = tensors_of(self._runner.returned(values))
            again = tensors_of(self._runner.returned(values))
        except ModuleError as error:
            reason = f"the module fails on its arguments: {error}"
            return self._judged("not verified", reason, cause="run")
        names = [port.name for port in session.outputs]
        if matched(tensors, names) is None:
            places = ", ".join(place or "the result itself" for place, _ in tensors)
            return self._judged(
                "different",
                f"the module returns {counted(len(tensors), 'tensor')} ({places}), and the model "
                f"has {counted(len(names), 'output')} ({', '.join(names)})",
            )
        pairs = [(array_of(a), array_of(b)) for (_, a), (_, b) in zip(tensors, again, strict=True)]
        if all(_repeats(first, second, self._options) for first, second in pairs):
            return None
        reason = "the module does not repeat its own results: does it draw random numbers?"
        return self._judged("not verified", reason, cause="evidence")

    def _compared(
        self, model: Located, session: Session, bound: Bound, plans: Iterable[RunPlan]
    ) -> VerificationReport:
        """The comparison on all values that the module accepts."""
        names = [port.name for port in session.outputs]
        runs: list[ExpectedRun] = []
        notes: dict[str, None] = {}
        deadline = time.perf_counter() + self._options.time_limit
        for plan in plans:
            if runs and time.perf_counter() > deadline:
                notes["not all sizes were tried within the time limit"] = None
                break
            values = bound.values(plan.feeds)
            try:
                expected = self._runner.expected(values, names)
            except ModuleError as error:
                # random values may be out of the module's range
                if plan.source == "drawn" and len(notes) < _MAX_NOTES:
                    notes[f"the module fails{where_text(plan.sizes)}: {error}"] = None
                continue
            try:
                runs.append(ExpectedRun(run_plan(session, plan), expected))
            except RunError as error:
                self.broken = values
                where = where_text(plan.sizes)
                reason = f"the model does not run{where}, where the module does: {error}"
                return self._judged("different", reason, notes)
        report = judge_expected(runs, model, session.outputs, self._options, tuple(notes))
        pairs = zip(runs, report.runs, strict=True)
        failures = (bound.values(r.run.feeds) for r, outcome in pairs if not outcome.is_accepted())
        self.broken = next(failures, None)
        if self.broken is None:
            return report
        model_runs = [run.run for run in runs]
        settings, rules = self._options.settings, self._options.rules
        unsteady = unsteady_output(model, settings, session.outputs, model_runs, rules)
        if not unsteady:
            return report
        reason = f"the model is not deterministic: {unsteady}"
        return self._judged("not verified", reason, notes, "evidence")

    def origin(self, exported: Located | None) -> str:
        """The cause of the difference in the last comparison, as a sentence."""
        if self.broken is None:
            return ""
        args, kwargs = self._runner.arguments.filled(self.broken)
        try:
            before = exported or export_of(self._runner.module, args, kwargs)
        except Exception as error:  # of the exporter
            return f"the cause of the difference is unknown, as the export fails: {error}"
        feeds = self._runner.arguments.bind(before.proto).feeds(self.broken)
        if self._agrees(before, feeds):
            return "the export computes the same as the module, a later change does not"
        place = first_difference(self._runner.module, before, (args, kwargs), feeds)
        return f"the export made the difference{place}"

    def _agrees(self, model: Located, feeds: Mapping[str, Value]) -> bool:
        """Whether a model computes the results of the module, on the values of the broken run."""
        plan = RunPlan("given", {}, 0, dict(feeds))
        try:
            session = Session(model.proto, self._options.settings, base_dir=model.base_dir)
            run = run_plan(session, plan)
            names = [port.name for port in session.outputs]
            expected = self._runner.expected(self.broken or {}, names)
        except (LoadError, RunError):
            return False
        return judge_expected(
            [ExpectedRun(run, expected)], model, session.outputs, self._options
        ).ok

    def _judged(
        self, status: Status, reason: str, notes: Iterable[str] = (), cause: Cause = ""
    ) -> VerificationReport:
        return VerificationReport(
            status,
            reason,
            providers=tuple(self._options.providers),
            notes=tuple(notes),
            cause=cause,
            assumptions=tuple(self._options.assume),
        )


def _repeats(first: np.ndarray, second: np.ndarray, options: VerificationOptions) -> bool:
    return all(c.ok for c in compare_values("", first, second, options.rules))
