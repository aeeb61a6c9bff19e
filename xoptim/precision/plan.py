"""The plan of a quantization: the chosen candidates, and the fake-quantized model."""

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
    """The candidates to quantize, before any operator computes with integers or float16 numbers.

    Attributes:
        model: the model with quantized operands, which computes in float32.
        folder: of its external data.
        applied: the results that are quantized, and the constants that are stored, with the names
            of the patterns.
        choices: the decision for each candidate.
        goal: ``speed``, or ``size`` if the caller asks for it, if the scheme saves no time, or if
            only weights are quantized.
        reference: measures the error of models.
        preprocessing: the verified models of the steps before quantization.
        inner: the operators of subgraphs that stay as they are, and the reason, in words.
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
