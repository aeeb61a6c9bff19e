"""The types of JSON documents about quantization."""

from typing import TypedDict

from xoptim.facts.json_values import JsonNumber
from xoptim.precision.choices import Decision
from xoptim.precision.options import Scheme
from xoptim.verification.json_types import VerificationJson


class MeasuredJson(TypedDict):
    """An operator or constant that can be quantized, in one form, and what was measured.

    Attributes:
        result: name of its result.
        node: name of its node.
        pattern: name of the pattern that quantizes it.
        op_type: its operator.
        shape: rows and columns of its weights; zeros where it has none.
        weights: name of the constant that is quantized.
        shared_with: result of the first operator with the same weights; empty for that one.
        reads: results and tensors that an operator without weights reads.
        multiplications: number of multiplications.
        float32_seconds: time in float32, in seconds.
        quantized_seconds: time when quantized, in seconds.
        error: error of the model when only this is quantized, as a fraction.
        relative_time: fraction of the float32 time that operators take in this form in general.
        bits: bits of a weight in the file in this form, with its share of scales.
        original_bits: bits of a weight in the file as it is.
        element_bits: bits of a number that is stored, where only the storage changes.
        is_weight_only: whether a constant is only stored in lower precision.
    """

    result: str
    node: str
    pattern: str
    op_type: str
    shape: list[int]
    weights: str
    shared_with: str
    reads: list[str]
    multiplications: int
    float32_seconds: float
    quantized_seconds: float
    error: JsonNumber
    relative_time: float
    bits: float
    original_bits: int
    element_bits: int
    is_weight_only: bool


class QuantizationChoiceJson(MeasuredJson):
    """An operator or constant that can be quantized, and whether it was.

    Attributes:
        is_quantized: whether it was quantized in this form.
        decision: ``quantized``, or why it was not.
    """

    is_quantized: bool
    decision: Decision


class QuantizedJson(TypedDict):
    """A quantization.

    Attributes:
        summary: the choice and its error, in one line.
        scheme: the scheme.
        bits: of a weight in blocks (int4).
        block_size: number of values of a weight that share a scale (int4).
        target: name of the target for which the scheme was chosen; empty where a user chose it.
        tolerance: the error that was allowed where most of it is used, as a fraction.
        metric: how the error was measured: a metric, or the name of a function.
        error: error of ``slice`` on all samples, as a fraction.
        slice: the output, or the part of it with a scale of its own, that uses most of its
            tolerance.
        samples: number of samples.
        are_samples_random: whether the samples are random.
        reason: why nothing was quantized; empty where something was.
        seconds: duration, in seconds.
        float32_bytes: bytes of constants that stay in float32, by operator.
        operators: what can be quantized.
        activations: names of the quantized activations between operators (static int8).
        verification: comparisons with the fake-quantized model.
    """

    summary: str
    scheme: Scheme
    bits: int
    block_size: int
    target: str
    tolerance: float
    metric: str
    error: JsonNumber
    slice: str
    samples: int
    are_samples_random: bool
    reason: str
    seconds: float
    float32_bytes: dict[str, int]
    activations: list[str]
    operators: list[QuantizationChoiceJson]
    verification: list[VerificationJson]
