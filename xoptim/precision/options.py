"""The options of quantization."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Final, Literal, TypeAlias

from xoptim.facts.operators import short_name
from xoptim.precision.metrics import METRICS, Metric
from xoptim.verification.session import Value

Scheme: TypeAlias = Literal["int8", "int4", "float16", "bfloat16"]
SCHEMES: Final[tuple[Scheme, ...]] = ("int8", "int4", "float16", "bfloat16")
Calibration: TypeAlias = Literal["minmax", "percentile", "entropy"]
CALIBRATIONS: Final[tuple[Calibration, ...]] = ("minmax", "percentile", "entropy")
Goal: TypeAlias = Literal["speed", "size"]
Compute: TypeAlias = Literal["auto", "float16", "float32"]
COMPUTES: Final[tuple[Compute, ...]] = ("auto", "float16", "float32")
IoTypes: TypeAlias = Literal["float32", "float16"]
IO_TYPES: Final[tuple[IoTypes, ...]] = ("float32", "float16")
FLOAT16_TAG: Final = "halves"
"""The tag of the patterns that compute in 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOptions:
    """Options of `xoptim.precision.quantize.quantize`.

    Attributes:
        scheme: ``int8`` quantizes weights and activations to 8 bits, ``int4`` weights to 4 bits.
            ``float16`` stores weights in 16 bits, and computes with them where ``compute`` says so;
            ``bfloat16`` stores weights in the other type of 16 bits.
        tolerance: the error of an output that is allowed, as a fraction: 0.01 for a hundredth.
        metric: how the error is measured: ``largest`` difference over the largest number, ``rms``
            (root mean square over root mean square), or ``choice`` (how often another element of
            the last axis is the largest).
        goal: ``speed`` keeps operators in float32 that are not faster when quantized here; ``size``
            makes the smallest file.
        calibration: which numbers of a tensor belong to its range, where samples determine it:
            ``minmax`` for all, ``percentile`` or ``entropy`` without rare large ones.
        compute: of the scheme ``float16``: whether operators compute in 16 bits, or in 32 with
            weights that are stored in 16. ``auto`` is 16 for the provider ``cuda``. Processors
            compute in 32 bits all the same, with conversions.
        everywhere: whether operators compute in 16 bits where that saves no conversion, too: for
            targets that lack 32 bits.
        weights_only: whether activations stay in float32: for targets where operators on integers
            are slower, or missing.
        static: of the scheme ``int8``: whether activations have scales that samples determine, and
            not those that each run computes. As many operators are quantized as the tolerance
            allows, also where they are not faster on this machine.
        symmetric: of ``static``: whether activations are signed integers whose zero point is 0, and
            biases stay in float32, as TensorRT needs it.
        io_types: type of the inputs and outputs of 32-bit floats; ``float16`` is for the scheme
            ``float16`` only.
        feeds: values to measure the error on; random ones when empty. Half of them, at least one,
            serve to choose; all must keep the tolerance.
        seed: of the random values.
    """

    scheme: Scheme = "int8"
    tolerance: float = 0.01
    metric: Metric = "largest"
    goal: Goal = "speed"
    calibration: Calibration = "minmax"
    compute: Compute = "auto"
    everywhere: bool = False
    weights_only: bool = False
    static: bool = False
    symmetric: bool = False
    io_types: IoTypes = "float32"
    feeds: Sequence[Mapping[str, Value]] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for values that no model could keep."""
        if self.scheme not in SCHEMES:
            raise ValueError(f"a precision is {', '.join(SCHEMES)}, not {self.scheme!r}")
        if self.metric not in tuple(METRICS):
            raise ValueError(f"a metric is {', '.join(METRICS)}, not {self.metric!r}")
        if self.goal not in ("speed", "size"):
            raise ValueError(f"a goal is speed or size, not {self.goal!r}")
        if self.calibration not in CALIBRATIONS:
            raise ValueError(
                f"a calibration is {', '.join(CALIBRATIONS)}, not {self.calibration!r}"
            )
        if self.compute not in COMPUTES:
            raise ValueError(f"compute is {', '.join(COMPUTES)}, not {self.compute!r}")
        if self.static and self.scheme != "int8":
            raise ValueError(f"static belongs to int8, not to {self.scheme}")
        if self.io_types not in IO_TYPES:
            raise ValueError(f"io_types are {', '.join(IO_TYPES)}, not {self.io_types!r}")
        if self.scheme != "float16" and (self.io_types, self.compute) != ("float32", "auto"):
            lack = (
                "; onnxruntime has few kernels that compute in bfloat16"
                if self.scheme == "bfloat16"
                else ""
            )
            raise ValueError(f"compute and io_types belong to float16, not to {self.scheme}{lack}")
        if not isinstance(self.tolerance, Real) or not 0 < self.tolerance < 1:
            raise ValueError(
                f"a tolerance is a fraction between 0 and 1, such as 0.01, not {self.tolerance!r}"
            )
        if not isinstance(self.feeds, Sequence) or not all(
            isinstance(each, Mapping) for each in self.feeds
        ):
            raise ValueError(
                "feeds are a list of dictionaries, one for each sample: [{'x': array}]"
            )

    @property
    def is_timed(self) -> bool:
        """Whether operators that are not faster when quantized stay in float32."""
        return self.goal == "speed" and not self.static

    def computes_in_float16(self, provider: str) -> bool:
        """Whether operators compute in 16 bits. The provider has its short or its full name."""
        return self.compute == "float16" or (self.compute, self.scheme, short_name(provider)) == (
            "auto",
            "float16",
            "cuda",
        )
