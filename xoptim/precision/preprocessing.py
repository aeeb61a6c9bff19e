"""Steps before quantization that reduce its error.

Scales move from channels of activations to weights (SmoothQuant), and biases are corrected. A step
that fails is skipped.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import onnx

from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import AssumptionError, BudgetError, ModelError, RewriteError
from xoptim.graph.sources import Source
from xoptim.match.quantization import Observed, RangedPattern, ScalingPattern
from xoptim.match.rewrite import Rewrite
from xoptim.match.view import Cpu
from xoptim.optimizing.plans import Plan
from xoptim.optimizing.verified import VerifiedModel, optimize_verified
from xoptim.precision.budget import SearchBudget
from xoptim.precision.fake_quantization import fake_quantized, rewritten
from xoptim.precision.metrics import error
from xoptim.precision.samples import Samples
from xoptim.precision.stack_traces import remove_stack_traces
from xoptim.preparation.ports import names_apart
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.runs.session import Session
from xoptim.verification.runs.session_settings import SessionSettings

GELU_OPSET: Final = 20
"""The first operator set with Gelu."""
_GELU: Final = ("Gelu", "GeluErf")
"""The patterns that write Gelu."""
_RESIZE_AXES: Final = ("ResizeAxes",)
"""The pattern that avoids a bug of onnxruntime around quantized convolutions."""
RESIZE_WITH_AXES: Final = ("ShapeResize",)
"""The pattern that would undo ``ResizeAxes``."""
_LOGGER: Final = logging.getLogger("xoptim")
_T = TypeVar("_T")
_FAILURES: Final = (
    *(ModelError, RewriteError, AssumptionError, BudgetError),  # the model cannot be rewritten
    *(LoadError, RunError, FeedError),  # onnxruntime refuses the model, or a run fails
    onnx.shape_inference.InferenceError,
    onnx.checker.ValidationError,
)
"""Errors for which a step is skipped."""


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """A model that is ready to be quantized.

    Attributes:
        model: the model, with other scales of channels where that helps.
        folder: of its external data.
        observed: facts about its tensors on samples; without `channels` where correcting biases by
            them does not help.
        verified_models: the verified models, one for each step that changed the model.
    """

    model: onnx.ModelProto
    folder: Path | None
    observed: Observed
    verified_models: Sequence[VerifiedModel] = ()


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Tries steps that may reduce the error of the model with everything quantized.

    Attributes:
        patterns: those that quantize operands, and others that are used with them.
        provider: execution provider for which patterns apply.
        cpu: see `OptimizationOptions.cpu`.
        samples: the values; the first half serves to choose.
        how: options of the verification.
        settings: of the sessions.
        observe: finds facts about the tensors of a model on the samples.
        budget: the time of the search.
    """

    patterns: Sequence[type[Rewrite]]
    provider: str
    cpu: Cpu
    samples: Samples
    how: Plan
    settings: SessionSettings
    observe: Callable[[onnx.ModelProto, Path | None], Observed]
    budget: SearchBudget = field(default_factory=lambda: SearchBudget(None))

    def run(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        scalings: Sequence[type[ScalingPattern]],
        *,
        joins_gelu: bool = False,
    ) -> Preprocessed:
        """Move scales of channels, then correct biases, each where the error becomes smaller.

        A warning is logged for each step that fails; the model stays as it was before.

        Args:
            model: the model.
            folder: of its external data.
            scalings: patterns that move scales.
            joins_gelu: whether to write Gelu operators first. onnxruntime does not fuse a formula
                that reads DequantizeLinear.
        """
        observed = tried(
            "the ranges of activations", lambda: self.observe(model, folder), Observed()
        )
        best = Preprocessed(model, folder, observed)
        least_error: float | None = None
        if any(_lists_axes(node) for node in model.graph.node):
            best = self._replaced("Resize without axes", best, _RESIZE_AXES)
        if joins_gelu:
            best = self._replaced("Gelu", best, _GELU, opset=GELU_OPSET)
        for scaling in scalings:
            if self.budget.is_over():
                break
            best, least_error = tried(
                f"{scaling.name()} (SmoothQuant)",
                partial(self._better_scaled, model, best, least_error, scaling),
                (best, least_error),
            )
        has_biases = self._has_ranged_operators(best.model) and bool(best.observed.channels)
        if has_biases and not self.budget.is_over():
            if least_error is None:
                error = partial(self.error_of, model, best, corrected=False)
                least_error = tried("static scales of activations", error, None)
            if least_error is None:  # onnxruntime does not run the model with static scales
                return replace(best, observed=Observed())
            corrected = partial(self.error_of, model, best, corrected=True)
            if tried("bias correction", corrected, math.inf) < least_error:
                return best
        return replace(best, observed=best.observed._replace(channels={}))

    def _better_scaled(
        self,
        original: onnx.ModelProto,
        best: Preprocessed,
        least_error: float | None,
        scaling: type[ScalingPattern],
    ) -> tuple[Preprocessed, float | None]:
        """The best model, or the model with scales moved if its error is smaller; and the error."""
        scaled = self._scaled(best, scaling)
        if scaled is None:
            return best, least_error
        least_error = (
            self.error_of(original, best, corrected=False) if least_error is None else least_error
        )
        error = self.error_of(original, scaled, corrected=False)
        return (scaled, error) if error < least_error else (best, least_error)

    def _replaced(
        self, step: str, before: Preprocessed, names: Sequence[str], opset: int | None = None
    ) -> Preprocessed:
        return tried(step, lambda: self.rewritten(before, names, opset), None) or before

    def _scaled(self, before: Preprocessed, scaling: type[ScalingPattern]) -> Preprocessed | None:
        """The model with scales moved; ``None`` if there are no scales to move.

        With random samples, only constants determine the scales.
        """
        pattern = scaling(None if self.samples.are_random else before.observed.channels)
        return self.rewritten(before, [pattern])

    def rewritten(
        self, before: Preprocessed, patterns: Sequence[Rewrite | str], opset: int | None = None
    ) -> Preprocessed | None:
        """The model with some patterns applied, and verified; ``None`` where none applies.

        Args:
            before: the model.
            patterns: the patterns, or their names.
            opset: the operator set to which an older one is raised.
        """
        model = before.model
        version = next((entry.version for entry in model.opset_import if not entry.domain), 0)
        options = OptimizationOptions(
            patterns=patterns,
            opset=opset if opset and version < opset else None,
            provider=self.provider,
            cpu=self.cpu,
            assume=self.how.verify.checks.assume,
            assume_from_model=self.how.verify.checks.assume_from_model,
            constant_folding=False,
            merge=False,
            remove_identity=False,
        )
        plan = self.how.reloading()
        plan = replace(
            plan, verify=replace(plan.verify, each=True), sink=replace(plan.sink, draft=None)
        )
        verified = optimize_verified(Source(model, before.folder), options, plan)
        if not verified.builder.report().applied:
            return None
        failure = verified.failure
        if failure is not None and failure.status == "different":
            raise ModelError(failure.reason)
        return Preprocessed(
            verified.proto,
            verified.base_dir,
            self.observe(verified.proto, verified.base_dir),
            [*before.verified_models, verified],
        )

    def _has_ranged_operators(self, model: onnx.ModelProto) -> bool:
        """Whether a model has operators with weights that are quantized by ranges of samples."""
        ranged = [cls for cls in self.patterns if issubclass(cls, RangedPattern)]
        return any(node.op_type in cls.operators for cls in ranged for node in model.graph.node)

    def error_of(self, original: onnx.ModelProto, ready: Preprocessed, *, corrected: bool) -> float:
        """The error of the model with everything quantized: the sum of root mean square errors over
        the samples that serve to choose.

        The largest difference, which a tolerance limits, would depend more on chance.
        """
        observed = ready.observed if corrected else ready.observed._replace(channels={})
        quantized, _ = fake_quantized(
            ready.model, ready.folder, self.patterns, None, self.provider, observed, self.cpu
        )
        plain, rounded = (
            Session(model, self.settings, base_dir=ready.folder) for model in (original, quantized)
        )
        feeds = [self.samples.feeds[index] for index in self.samples.to_choose]
        return sum(error("rms", plain.run(sample), rounded.run(sample)) for sample in feeds)


def tried(step: str, run: Callable[[], _T], default: _T) -> _T:
    """The result of a step; if it fails, ``default``, and a warning that names step and error."""
    try:
        return run()
    except _FAILURES as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        _LOGGER.warning("quantization continues without %s: %s", step, reason)
        return default


def _lists_axes(node: onnx.NodeProto) -> bool:
    return node.op_type == "Resize" and any(
        attribute.name == "axes" for attribute in node.attribute
    )


def with_least_opset(verified: VerifiedModel, min_opset: int) -> onnx.ModelProto:
    """A copy of the optimized model in the operator set ``min_opset`` or a newer one.

    Each value in it has its own name, and nodes have no stack traces of an exporter.
    """
    if verified.builder.model.opsets.get("", 0) >= min_opset:
        model = onnx.ModelProto()
        model.CopyFrom(verified.proto)
    else:
        only = OptimizationOptions(
            patterns=None, opset=min_opset, constant_folding=False, merge=False
        )
        model = rewritten(Source(verified.proto, verified.base_dir), only)
    names_apart(model)
    remove_stack_traces(model)
    return model
