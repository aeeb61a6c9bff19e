"""Steps before quantization that make its error smaller: scales of channels are moved
(SmoothQuant), and biases corrected.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import onnx

from xoptim.engine.options import OptimizationOptions
from xoptim.graph.sources import Source
from xoptim.match.quantization import Observed, RangedPattern, ScalingPattern
from xoptim.match.rewrite import Rewrite
from xoptim.match.view import Cpu
from xoptim.optimizing.verified import VerifiedModel, VerifyPlan, optimize_verified
from xoptim.precision.fake_quantization import fake_quantized, rewritten
from xoptim.precision.metrics import error
from xoptim.precision.samples import Samples
from xoptim.preparation.ports import names_apart
from xoptim.verification.session import Session
from xoptim.verification.session_settings import SessionSettings

GELU_OPSET: Final = 20
"""The operator set with Gelu."""
_GELU: Final = ("Gelu", "GeluErf")
"""The patterns that write it."""


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """A model that is ready to be quantized.

    Attributes:
        model: the model, with other scales of channels where that helps.
        folder: of its external data.
        observed: facts about its tensors on samples; without means of channels where biases that
            make up for them do not help.
        verifications: the verified models, one for each kind of scales that were moved.
    """

    model: onnx.ModelProto
    folder: Path | None
    observed: Observed
    verified_models: Sequence[VerifiedModel] = ()


@dataclass(frozen=True, slots=True)
class Preprocessor:
    """Tries what may help, one after the other, on the model with everything quantized.

    Attributes:
        patterns: those that quantize operands, and others that are used with them.
        provider: execution provider for which patterns apply.
        cpu: see `OptimizationOptions.cpu`.
        samples: the values; the first half serves to choose.
        how: options of the verification.
        settings: of the sessions.
        observe: finds facts about the tensors of a model on the samples.
    """

    patterns: Sequence[type[Rewrite]]
    provider: str
    cpu: Cpu
    samples: Samples
    how: VerifyPlan
    settings: SessionSettings
    observe: Callable[[onnx.ModelProto, Path | None], Observed]

    def run(
        self,
        model: onnx.ModelProto,
        folder: Path | None,
        scalings: Sequence[type[ScalingPattern]],
        *,
        joins_gelu: bool = False,
    ) -> Preprocessed:
        """Move scales of channels, then correct biases, each where the error becomes smaller.

        Args:
            model: the model.
            folder: of its external data.
            scalings: patterns that move scales.
            joins_gelu: whether to write Gelu operators first. onnxruntime does not fuse a formula
                that reads DequantizeLinear.
        """
        best, least = Preprocessed(model, folder, self.observe(model, folder)), None
        if joins_gelu:
            best = self._rewritten(best, _GELU, opset=GELU_OPSET) or best
        for scaling in scalings:
            tried = self._scaled(best, scaling)
            if tried is None:
                continue
            least = self._error(model, best, corrected=False) if least is None else least
            found = self._error(model, tried, corrected=False)
            if found < least:
                best, least = tried, found
        if self._has_biases(best.model) and best.observed.channels:
            least = self._error(model, best, corrected=False) if least is None else least
            if self._error(model, best, corrected=True) < least:
                return best
        return replace(best, observed=best.observed._replace(channels={}))

    def _scaled(self, given: Preprocessed, scaling: type[ScalingPattern]) -> Preprocessed | None:
        """The model with scales moved, ``None`` where there is nothing to move; without samples by
        constants alone.
        """
        pattern = scaling(None if self.samples.are_random else given.observed.channels)
        return self._rewritten(given, [pattern])

    def _rewritten(
        self, given: Preprocessed, patterns: Sequence[Rewrite | str], opset: int | None = None
    ) -> Preprocessed | None:
        """The model with some patterns applied, and verified; ``None`` where none applies.

        Args:
            given: the model.
            patterns: the patterns, or their names.
            opset: what an older operator set is raised to.
        """
        known = next((each.version for each in given.model.opset_import if not each.domain), 0)
        options = OptimizationOptions(
            patterns=patterns,
            opset=opset if opset and known < opset else None,
            provider=self.provider,
            cpu=self.cpu,
            assume=self.how.checks.assume,
            assume_from_model=self.how.checks.assume_from_model,
            constant_folding=False,
            merge=False,
            remove_identity=False,
        )
        how = replace(self.how, each=True, draft=None, on_loaded=lambda _: None)
        verified = optimize_verified(Source(given.model, given.folder), options, how)
        if not verified.builder.report().applied:
            return None
        return Preprocessed(
            verified.proto,
            verified.base_dir,
            self.observe(verified.proto, verified.base_dir),
            [*given.verified_models, verified],
        )

    def _has_biases(self, model: onnx.ModelProto) -> bool:
        """Whether something is quantized by ranges of samples and has weights."""
        ranged = [cls for cls in self.patterns if issubclass(cls, RangedPattern)]
        return any(node.op_type in cls.operators for cls in ranged for node in model.graph.node)

    def _error(self, original: onnx.ModelProto, given: Preprocessed, *, corrected: bool) -> float:
        """The error of the model with everything quantized: root mean squares, the sum over the
        samples that serve to choose.

        The largest difference, which a tolerance is about, depends on chance more than its mean.
        """
        observed = given.observed if corrected else given.observed._replace(channels={})
        quantized, _ = fake_quantized(
            given.model, given.folder, self.patterns, None, self.provider, observed, self.cpu
        )
        plain, other = (
            Session(each, self.settings, base_dir=given.folder) for each in (original, quantized)
        )
        feeds = [self.samples.feeds[index] for index in self.samples.to_choose]
        return sum(error("rms", plain.run(each), other.run(each)) for each in feeds)


def with_least_opset(verified: VerifiedModel, least: int) -> onnx.ModelProto:
    """A copy of the optimized model, in an operator set that has what quantization needs, where
    each value has its own name.
    """
    if verified.builder.model.opsets.get("", 0) >= least:
        model = onnx.ModelProto()
        model.CopyFrom(verified.proto)
    else:
        only = OptimizationOptions(patterns=None, opset=least, constant_folding=False, merge=False)
        model = rewritten(Source(verified.proto, verified.base_dir), only)
    names_apart(model)
    return model
