"""The options of quantization."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from xoptim.facts.advice import Advice
from xoptim.facts.operators import short_name
from xoptim.match.block_rounding import BlockFormat
from xoptim.match.view import CPUS as CPUS, Cpu as Cpu
from xoptim.precision.metrics import METRICS, ErrorMetric
from xoptim.verification.runs.session import Value

Scheme: TypeAlias = Literal["int8", "int4", "float16", "bfloat16"]
SCHEMES: Final[tuple[Scheme, ...]] = ("int8", "int4", "float16", "bfloat16")
Calibration: TypeAlias = Literal["minmax", "percentile", "entropy"]
CALIBRATIONS: Final[tuple[Calibration, ...]] = ("minmax", "percentile", "entropy")
Goal: TypeAlias = Literal["speed", "size"]
Compute: TypeAlias = Literal["auto", "float16", "float32"]
COMPUTES: Final[tuple[Compute, ...]] = ("auto", "float16", "float32")
IoTypes: TypeAlias = Literal["float32", "float16"]
IO_TYPES: Final[tuple[IoTypes, ...]] = ("float32", "float16")
BITS: Final = range(2, 9)
BLOCK_SIZES: Final = (16, 32, 64, 128, 256)
FLOAT16_COMPUTE_TAG: Final = "float16_compute"
"""The tag of the patterns that compute in float16."""


def samples_needed() -> str:
    """The message that static quantization needs samples, with the option that gives them."""
    return (
        "static quantization takes the ranges of activations from samples; give some with "
        f"{Advice('samples', 'FILE.npz')} or a folder"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionOptions:
    """Options of `xoptim.precision.quantize.quantize`.

    Attributes:
        scheme: ``int8`` quantizes weights and activations to 8 bits, ``int4`` weights to 4 bits.
            ``float16`` stores weights in 16 bits, and computes with them where ``compute`` says so;
            ``bfloat16`` stores weights in bfloat16.
        tolerance: the error of an output that is allowed, as a fraction: 0.01 for a hundredth.
        tolerances: errors that are allowed for single outputs, by name, in place of ``tolerance``.
        metric: how the error is measured: ``largest`` difference over the largest number, ``rms``
            (root mean square over root mean square), ``choice`` (how often another element of the
            last axis is the largest), ``cosine`` (1 less the cosine of the angle between both), or
            a function of the float32 array and the result that returns a fraction. It is applied to
            each slice of an output that has a scale of its own.
        goal: ``speed`` keeps operators in float32 that are not faster when quantized here; ``size``
            makes the smallest file.
        calibration: which numbers of a tensor belong to its range, where samples determine it:
            ``minmax`` for all, ``percentile`` or ``entropy`` without rare large ones.
        compute: for the scheme ``float16``: whether operators compute in float16, or in float32
            with weights that are stored in float16. ``auto`` is float16 for the provider ``cuda``.
            CPUs still compute in float32, with Casts. For ``int8`` and ``int4``, ``float16``
            quantizes weights only, and computes in float16 with them.
        everywhere: whether operators compute in float16 even where that saves no Cast: for targets
            without float32.
        weights_only: whether activations stay in float32: for targets where operators on integers
            are slower, or missing.
        static: for the scheme ``int8``: whether activations have scales that samples determine,
            instead of scales that each run computes. As many operators are quantized as the
            tolerance allows, even if they are not faster on this machine.
        symmetric: for ``static``: whether activations are signed integers whose zero point is 0,
            and biases stay in float32, as TensorRT needs it.
        bits: for the scheme ``int4``: bits of a weight that MatMuls read, from 2 to 8. 3 bits are
            stored in 4, and 5 to 7 in 8.
        block_size: for the scheme ``int4``: number of values that share a scale: 16, 32, 64, 128 or
            256.
        io_types: type of the inputs and outputs that are float32 in the model; ``float16`` only
            if operators compute in float16.
        exact_routing: whether operators on which a choice inside the model depends (TopK, ArgMax,
            ArgMin) stay in float32, so that quantization does not choose other experts. ``None``:
            they do if the scheme is ``int8`` or ``int4``, the metric is ``largest``, quantization
            would change choices on values like the samples, and the samples do not show the effect
            of a changed choice.
        feeds: samples to measure the error on: a list of dictionaries of arrays, an ``.npz`` file
            or a folder of them, or anything that gives samples, such as a DataLoader of torch, a
            dataset, or an iterator (see `xoptim.precision.sources.read_samples`). When empty,
            samples are random. Half of the samples, at least one, serve to choose; all must keep
            the tolerance.
        max_samples: maximum number of samples from a source that is not a list of dictionaries.
        seed: of the random values.
        budget: seconds that the search may take; ``None`` for as long as it takes. Operators that
            are not measured in it stay in float32.
    """

    scheme: Scheme = "int8"
    tolerance: float = 0.01
    tolerances: Mapping[str, float] = field(default_factory=dict)
    metric: ErrorMetric = "largest"
    goal: Goal = "speed"
    calibration: Calibration = "minmax"
    compute: Compute = "auto"
    everywhere: bool = False
    weights_only: bool = False
    static: bool = False
    symmetric: bool = False
    bits: int = 4
    block_size: int = 32
    io_types: IoTypes = "float32"
    exact_routing: bool | None = None
    feeds: Sequence[Mapping[str, Value]] | str | Path | Iterable[Any] = ()
    max_samples: int = 32
    seed: int = 0
    budget: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for invalid values."""
        if self.scheme not in SCHEMES:
            raise ValueError(f"scheme must be one of {', '.join(SCHEMES)}, not {self.scheme!r}")
        if not callable(self.metric) and self.metric not in tuple(METRICS):
            raise ValueError(
                f"metric must be a function or one of {', '.join(METRICS)}, not {self.metric!r}"
            )
        if self.goal not in ("speed", "size"):
            raise ValueError(f"goal must be speed or size, not {self.goal!r}")
        if self.calibration not in CALIBRATIONS:
            raise ValueError(
                f"calibration must be one of {', '.join(CALIBRATIONS)}, not {self.calibration!r}"
            )
        if self.compute not in COMPUTES:
            raise ValueError(f"compute must be one of {', '.join(COMPUTES)}, not {self.compute!r}")
        if self.io_types not in IO_TYPES:
            raise ValueError(f"io_types must be {' or '.join(IO_TYPES)}, not {self.io_types!r}")
        self._check_scheme()
        for tolerance in (self.tolerance, *self.tolerances.values()):
            if not isinstance(tolerance, Real) or not 0 < tolerance < 1:
                raise ValueError(
                    f"tolerance must be a fraction between 0 and 1, such as 0.01, not {tolerance!r}"
                )
        if isinstance(self.feeds, Mapping) or not isinstance(self.feeds, (Iterable, Path)):
            raise ValueError(
                "feeds must be a list of dictionaries, one for each sample: [{'x': array}], a "
                "folder, or an iterator"
            )
        if self.budget is not None and not self.budget > 0:
            raise ValueError(f"budget must be a number of seconds above 0, not {self.budget!r}")
        if self.max_samples < 1:
            raise ValueError(f"max_samples must be at least 1, not {self.max_samples}")

    def _check_scheme(self) -> None:
        if self.static and self.scheme != "int8":
            raise ValueError(f"static is for int8, not for {self.scheme}")
        if self.static and self.compute == "float16":
            raise ValueError("static quantizes activations to int8; remove compute float16")
        self._check_blocks()
        if self.scheme == "bfloat16" and (self.io_types, self.compute) != ("float32", "auto"):
            raise ValueError(
                "compute and io_types are for float16, int8 and int4, not for bfloat16: "
                "onnxruntime has few kernels that compute in bfloat16"
            )

    def _check_blocks(self) -> None:
        if self.bits not in BITS:
            raise ValueError(f"bits must be from {BITS[0]} to {BITS[-1]}, not {self.bits!r}")
        if self.block_size not in BLOCK_SIZES:
            raise ValueError(
                f"block_size must be one of {', '.join(map(str, BLOCK_SIZES))}, not "
                f"{self.block_size!r}"
            )
        if self.scheme != "int4" and self.block_format != BlockFormat():
            raise ValueError(f"bits and block_size are for int4, not for {self.scheme}")
        if self.bits == BITS[0] and self.compute == "float16":
            raise ValueError("weights of 2 bits are computed in float32; remove compute float16")

    def with_scheme(self, scheme: Scheme) -> "PrecisionOptions":
        """The options with another scheme.

        Options of ``int4`` return to their defaults unless this is the new scheme.
        """
        bits, size = self.block_format if scheme == "int4" else BlockFormat()
        return replace(self, scheme=scheme, bits=bits, block_size=size)

    @property
    def block_format(self) -> BlockFormat:
        """The bits and the block size with which weights are quantized in blocks."""
        return BlockFormat(self.bits, self.block_size)

    @property
    def are_samples_read(self) -> bool:
        """Whether the samples are a list of dictionaries, as `samples` needs them."""
        return isinstance(self.feeds, (list, tuple)) and all(
            isinstance(sample, Mapping) for sample in self.feeds
        )

    @property
    def samples(self) -> Sequence[Mapping[str, Value]]:
        """The samples, which `xoptim.precision.sources.with_samples` reads from other sources.

        Raises ValueError where they were not read.
        """
        if not isinstance(self.feeds, (list, tuple)) or not self.are_samples_read:
            raise ValueError("the samples were not read: see xoptim.precision.sources.with_samples")
        return self.feeds

    @property
    def is_weight_only_float16(self) -> bool:
        """Whether weights have at most 8 bits, and all operators compute in float16."""
        return self.scheme in ("int8", "int4") and self.compute == "float16"

    @property
    def is_timed(self) -> bool:
        """Whether operators that are not faster when quantized stay in float32."""
        return self.goal == "speed" and not self.static

    def computes_in_float16(self, provider: str) -> bool:
        """Whether operators compute in float16. The provider has its short or its full name."""
        return self.compute == "float16" or (self.compute, self.scheme, short_name(provider)) == (
            "auto",
            "float16",
            "cuda",
        )
