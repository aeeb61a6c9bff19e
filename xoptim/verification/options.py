"""The options of a verification."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import Any, TypedDict

from onnx import TensorProto

from xoptim.facts.assumptions import Assumptions
from xoptim.facts.dtypes import Exactness, Tolerance, tolerance
from xoptim.verification.runs.plugins import coarsest_type
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """The rules of equality."""

    # the weakest exactness of the applied rewrites; sets the tolerance of each type
    exactness: Exactness = "rounding"
    # relative tolerance of floating-point results, instead of the one of their type
    rtol: float | None = None
    # absolute tolerance of floating-point results, instead of the one of their type
    atol: float | None = None
    # allowed difference of integers (1 for quantized results that may round the other way)
    integer_atol: int = 0
    # Fraction of the elements of an integer, Boolean or string result that may differ, for ties of
    # ArgMax and TopK
    allow_flips: float = 0.0
    # units in the last place by which floating-point results may differ; it replaces the tolerances
    ulp: int | None = None
    signed_zeros: bool = False  # whether -0 and 0 differ
    # Element type whose tolerance float32 results get, because kernels round to it (TF32 has the
    # mantissa of float16)
    rounds_to: int = TensorProto.FLOAT
    # whether ``scale`` in the rule is the largest magnitude of a result, not the median
    of_largest: bool = False
    only_finite: bool = False  # whether elements whose reference is infinite or NaN may be anything
    # whether the absolute tolerance of a type is less for results that are small throughout
    scales_atol: bool = False

    @property
    def keeps_small(self) -> bool:
        """Whether results that are small throughout get a smaller absolute tolerance."""
        # An approximation of a saturated function is 0 where the function is almost 0.
        return (
            self.scales_atol
            and self.atol is None
            and not (self.only_finite and self.exactness == "approximate")
        )

    def tolerance(self, element: int) -> Tolerance:
        """The tolerance of results of an element type."""
        is_rounded = element == TensorProto.FLOAT and self.exactness != "exact"
        rounding_type = self.rounds_to if is_rounded else element
        default = tolerance(rounding_type, self.exactness)
        if self.rtol is None and self.atol is None:
            return default
        if tolerance(element, "rounding") == (0.0, 0.0):  # these types do not round
            return default
        return Tolerance(
            default.rtol if self.rtol is None else self.rtol,
            default.atol if self.atol is None else self.atol,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunValues:
    """The values that a model runs on, and the operators that it needs.

    Attributes:
        dims: sizes of dynamic dimensions, by name (or ``input:axis``). Other sizes are chosen:
            small sizes to compare, typical sizes to measure.
        feeds: values of inputs by name, for instance ``numpy.load("feeds.npz")``; inputs without
            one get random values.
        test_data: folder with ``test_data_set_*/input_*.pb``, or with such files, to run on instead
            of random values; measurements take the first set.
        seed: of the random values, and of the order of measured runs.
        custom_op_libs: libraries of operators to load, by file, or ``onnxruntime-extensions``.
        software_device: whether an execution provider that has no device here runs on the CPU
            instead (``webgpu``).
        assume: assumptions about sizes and values, which all runs meet.
        assume_from_model: also use the assumptions in the metadata of the models. The author of a
            file wrote them.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    feeds: Mapping[str, Value] = field(default_factory=dict)
    test_data: Path | None = None
    seed: int = 0
    custom_op_libs: tuple[str, ...] = ()
    software_device: bool = False
    assume: Sequence[str] = ()
    assume_from_model: bool = False

    def run_values(self) -> dict[str, Any]:
        """These fields, as arguments for other options."""
        return {entry.name: getattr(self, entry.name) for entry in fields(RunValues)}


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationOptions(RunValues):
    """Options of `verify`.

    `RunValues` has the other fields.

    Attributes:
        samples: further values of inputs by name, to compare on after ``feeds``. The runs of the
            original may take ``budget`` seconds, by default 120; further samples are skipped.
        exactness: the weakest promise of the rewrites that were applied.
        rtol: relative tolerance of floating-point outputs instead of the one of their type. With
            ``rtol`` or ``atol`` given, the sensitivity of the model to rounding is not considered.
        atol: absolute tolerance of floating-point outputs instead of the one of their type.
        of_largest: whether the tolerance scales with the largest magnitude of an output instead of
            the median.
        ulp: units in the last place that floating-point outputs may differ by, in place of
            tolerances.
        integer_atol: allowed difference of integer outputs.
        allow_flips: fraction of an integer, Boolean or string output that may differ.
        providers: execution providers for both models, by short or full name.
        tf32: whether CUDA may use TF32 for float32 matrix multiplications; the tolerance is then
            that of float16.
        threads: threads within an operator; 0 leaves the choice to onnxruntime.
        assignments: number of runs, on different sizes where dimensions are dynamic.
        typical: whether to prefer typical sizes to small ones, for measurements.
        extremes: whether to add runs with extreme sizes of each dynamic dimension, if
            ``assignments`` is above 1: 0, and sizes above the numbers that the model compares the
            dimension with. The original must run with these sizes, and the budget must allow it.
        budget: seconds for all runs of the original; by default the larger of 5 s and five times
            the first run. The work of a run and the time of the first run give an estimate of its
            time, and runs that would exceed the budget are skipped.
        max_attempts: runs of the original that may fail before the search for sizes ends.
        time_limit: seconds after which the search for sizes ends.
        run_limit: seconds after which one run of a model is stopped, ``None`` for no limit.
        memory_limit: bytes of memory; a run whose results need more is not tried. By default the
            free memory.
        sections: whether to run the models section by section, with the weights of only one section
            in memory; by default when all weights would not fit.
        noise_multiple: a difference beyond the tolerance still counts as rounding when it is at
            most this many times the effect of moving all numbers by one unit in the last place.
            For ``exact`` rewrites, no such difference counts as rounding.
        fewer_inputs: whether the other model may lack inputs of the original, whose values must not
            matter then.
        original_dir: folder of the external data of an original that is a protobuf.
        optimized_dir: folder of the external data of an optimized model that is a protobuf.
    """

    samples: Sequence[Mapping[str, Value]] = ()
    exactness: Exactness = "rounding"
    rtol: float | None = None
    atol: float | None = None
    of_largest: bool = False
    ulp: int | None = None
    integer_atol: int = 0
    allow_flips: float = 0.0
    providers: tuple[str, ...] = ("cpu",)
    tf32: bool = False
    threads: int = 0
    assignments: int = 2
    typical: bool = False
    extremes: bool = True
    budget: float | None = None
    max_attempts: int = 64
    time_limit: float = 120.0
    run_limit: float | None = 600.0
    memory_limit: int | None = None
    sections: bool | None = None
    noise_multiple: float = 4.0
    fewer_inputs: bool = False
    original_dir: Path | None = None
    optimized_dir: Path | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for values that no run could use, `AssumptionError` for an assumption
        that cannot be read.
        """
        for name in ("providers", "custom_op_libs"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} must be a sequence: ({getattr(self, name)!r},)")
        Assumptions.of(self.assume)
        if self.assignments < 1:
            raise ValueError(f"assignments must be at least 1, not {self.assignments}")
        if self.seed < 0:
            raise ValueError(f"the seed must not be negative: {self.seed}")
        for name in ("rtol", "atol", "ulp"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} must not be negative: {value}")
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} must be finite, not {value}")
        invalid_size = next(
            (size for size in self.dims.values() if not isinstance(size, Integral) or size < 0),
            None,
        )
        if invalid_size is not None:
            raise ValueError(f"a size must be an integer of at least 0, not {invalid_size!r}")

    @property
    def rules(self) -> ComparisonRules:
        """The rules of equality; only CUDA rounds to TF32, and some plug-ins to float16 or
        bfloat16.
        """
        tf32 = self.tf32 and any(name.lower().startswith("cuda") for name in self.providers)
        rounds_to = coarsest_type(self.providers)
        return ComparisonRules(
            self.exactness,
            self.rtol,
            self.atol,
            self.integer_atol,
            self.allow_flips,
            self.ulp,
            rounds_to=TensorProto.FLOAT16 if tf32 and rounds_to == TensorProto.FLOAT else rounds_to,
            of_largest=self.of_largest,
            scales_atol=self.is_by_type,
        )

    @property
    def settings(self) -> SessionSettings:
        """The settings of both runs: the models are run as they are written, plug-ins in processes
        of their own.
        """
        return SessionSettings(
            self.providers,
            threads=self.threads,
            run_limit=self.run_limit,
            tf32=self.tf32,
            custom_op_libs=self.custom_op_libs,
            software_device=self.software_device,
            isolated=True,
            exact_integers=True,
        )

    @property
    def is_by_type(self) -> bool:
        """Whether the element types decide the tolerances, and not the caller."""
        return self.rtol is None and self.atol is None and self.ulp is None

    @property
    def is_thorough(self) -> bool:
        """Whether to run on values other than the usual ones, and in other ways."""
        return self.assignments > 1 and self.extremes and self.is_by_type

    @property
    def considers_noise(self) -> bool:
        """Whether the sensitivity of the model may excuse a difference."""
        return self.is_by_type and self.exactness != "exact" and self.noise_multiple > 0


class RunChanges(TypedDict, total=False):
    """The fields of `RunValues` as keyword arguments."""

    dims: Mapping[str, int]
    feeds: Mapping[str, Value]
    test_data: Path | None
    seed: int
    custom_op_libs: tuple[str, ...]
    software_device: bool
    assume: Sequence[str]
    assume_from_model: bool


class VerificationChanges(RunChanges, total=False):
    """The fields of `VerificationOptions` as keyword arguments."""

    samples: Sequence[Mapping[str, Value]]
    exactness: Exactness
    rtol: float | None
    atol: float | None
    of_largest: bool
    ulp: int | None
    integer_atol: int
    allow_flips: float
    providers: tuple[str, ...]
    tf32: bool
    threads: int
    assignments: int
    typical: bool
    extremes: bool
    budget: float | None
    max_attempts: int
    time_limit: float
    run_limit: float | None
    memory_limit: int | None
    sections: bool | None
    noise_multiple: float
    fewer_inputs: bool
    original_dir: Path | None
    optimized_dir: Path | None
