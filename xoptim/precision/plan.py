"""The plan of a quantization: what was chosen, and the fake-quantized model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from xoptim.optimizing.verified import VerifiedModel
from xoptim.precision.choices import QuantizationChoice
from xoptim.precision.options import Goal
from xoptim.precision.reference import FloatReference


@dataclass(frozen=True, slots=True)
class QuantizationPlan:
    """What to quantize, before anything computes with quantized numbers.

    Attributes:
        model: the model with quantized operands, which computes in float32.
        folder: of its external data.
        applied: the results that are quantized, and the constants that are stored, with the names
            of the patterns.
        choices: what was decided for each candidate.
        goal: what is saved: ``size`` where the scheme saves no time.
        reference: measures the error of models.
        preprocessing: the verified models of the steps before quantization.
        inner: which operators of subgraphs stay as they are, and why.
        activations: activations between operators that get QDQ.
    """

    model: onnx.ModelProto
    folder: Path | None
    applied: Mapping[str, str]
    choices: Sequence[QuantizationChoice]
    goal: Goal
    reference: FloatReference
    preprocessing: Sequence[VerifiedModel] = ()
    inner: str = ""
    activations: Sequence[str] = ()
