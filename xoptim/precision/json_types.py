"""The types of JSON documents about quantization."""

from typing import TypedDict

from xoptim.facts.json_values import JsonNumber
from xoptim.precision.metrics import Metric
from xoptim.precision.options import Scheme
from xoptim.verification.json_types import ValidationJson


class MeasuredJson(TypedDict):
    """An operator or constant that can be quantized, in one form, and what was measured.

    Attributes:
        result: name of its result.
        node: name of its node.
        pattern: name of the pattern that quantizes it.
        op_type: its operator.
        shape: rows and columns of its weights; zeros where it has none.
        weights: name of the constant that is quantized.
        leader: result of the first operator with the same weights; empty for that one.
        reads: results and tensors that an operator without weights reads.
        work: number of multiplications.
        before: time in float32, in seconds.
        after: time when quantized, in seconds.
        alone: error of the model when only this is quantized, as a fraction.
        share: fraction of the float32 time that operators take in this form in general.
        bits: bits of a weight in the file in this form, with its share of scales.
        wide: bits of a weight in the file as it is.
        width: bits of a number that is stored, where only the storage changes.
        is_stored: whether a constant is only stored in fewer bits.
    """

    result: str
    node: str
    pattern: str
    op_type: str
    shape: list[int]
    weights: str
    leader: str
    reads: list[str]
    work: int
    before: float
    after: float
    alone: JsonNumber
    share: float
    bits: float
    wide: int
    width: int
    is_stored: bool


class QuantizationChoiceJson(MeasuredJson):
    """An operator or constant that can be quantized, and whether it was.

    Attributes:
        rounded: whether it was quantized in this form.
    """

    rounded: bool


class QuantizedJson(TypedDict):
    """A quantization.

    Attributes:
        scheme: the scheme.
        tolerance: the error that was allowed, as a fraction.
        metric: how the error was measured.
        error: error of the result on all samples, as a fraction.
        samples: number of samples.
        random: whether the samples are random.
        reason: why nothing was quantized; empty where something was.
        seconds: duration, in seconds.
        float32_bytes: bytes of constants that stay in float32, by operator.
        products: what can be quantized.
        structure: comparisons with the fake-quantized model.
    """

    scheme: Scheme
    tolerance: float
    metric: Metric
    error: JsonNumber
    samples: int
    random: bool
    reason: str
    seconds: float
    float32_bytes: dict[str, int]
    products: list[QuantizationChoiceJson]
    structure: list[ValidationJson]
