"""Options of the commands that run or compare models, and of quantization."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click
import numpy as np

from xoptim import Exactness, VerificationOptions, VerificationReport
from xoptim.api.advice import Advice
from xoptim.diagnose.explanation import abridged, whole_number
from xoptim.precision.metrics import METRICS, ErrorMetric
from xoptim.precision.options import (
    BITS,
    BLOCK_SIZES,
    CALIBRATIONS,
    COMPUTES,
    CPUS,
    IO_TYPES,
    SCHEMES,
    Calibration,
    Compute,
    Cpu,
    IoTypes,
    PrecisionOptions,
    Scheme,
)
from xoptim.verification import library_file
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.archives import Archive
from xoptim.verification.judging.addresses import function_at

from .memory import MEMORY_BOUND
from .options import choice, common, duration, flag, names_of, option, percentage, repeated, switch
from .terminal import say

if TYPE_CHECKING:
    _Choice = click.Choice[str]
    _ParamType = click.ParamType[str]
else:  # the two classes are not generic in click 8.1
    _Choice, _ParamType = click.Choice, click.ParamType

_NAMES_ELSEWHERE: Final[Mapping[str, Scheme]] = {
    **dict.fromkeys(("fp16", "f16", "half"), "float16"),
    **dict.fromkeys(("bf16",), "bfloat16"),
    **dict.fromkeys(("i8", "uint8", "qint8", "quint8", "w8a8"), "int8"),
    **dict.fromkeys(("i4", "uint4", "nf4", "w4a16", "q4"), "int4"),
}
"""The nearest scheme to each name of a scheme in other tools."""


STARTUP: Final = "startup"
"""The value of ``--for`` that makes sessions start soon."""


def fraction(value: str | float) -> float:
    """A percentage such as ``1%`` or ``1`` as a fraction; it must be above 0% and below 100%."""
    number = percentage(value) / 100
    try:
        PrecisionOptions(tolerance=number)
    except ValueError:
        raise click.BadParameter(f"{str(value)!r} is not above 0% and below 100%") from None
    return number


def _tolerance(value: str | float) -> float:
    """A finite number of at least 0: with NaN or an infinity, all models would be equal."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise click.BadParameter(f"{abridged(str(value))} is not a number of at least 0")
    return number


class _Scheme(_Choice):
    """The name of a scheme; the error for a name from another tool suggests the nearest scheme."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The scheme."""
        near = _NAMES_ELSEWHERE.get(str(value).lower())
        if near is not None:
            raise click.BadParameter(f"there is no scheme {value!r}; did you mean {near}?")
        return super().convert(value, param, ctx)


METRIC_ADDRESS: Final = "xopt-metric-address"
"""The key under which the context of a command has the address of a function of ``--metric``."""


class _Metric(_Choice):
    """The name of a metric, or the address of a function."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The metric: its name, or the function."""
        if not isinstance(value, str) or ":" not in value:
            return value if callable(value) else super().convert(value, param, ctx)
        try:
            function = function_at(value)
        except ChoiceError as error:
            raise click.BadParameter(str(error)) from error
        if ctx is not None:
            ctx.meta[METRIC_ADDRESS] = value
        return function


def metric_option() -> Any:
    """The option ``--metric``."""
    return option(
        "Metric of the quantization error, or PACKAGE.MODULE:FUNCTION.",
        type=_Metric(tuple(METRICS)),
        default="largest",
    )


class _Tolerance(_ParamType):
    """The text of a percentage for all outputs, or ``OUTPUT=PERCENT`` for one output."""

    name = "percent"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, if it can be read."""
        text = str(value)
        fraction(text.rpartition("=")[2])
        return text


def tolerance_option(text: str, default: str | None = None) -> Any:
    """The option ``--tolerance``, for all outputs or for one output."""
    return repeated(
        f"{text}: 1%, or OUTPUT=1% (repeatable).",
        type=_Tolerance(),
        metavar="PERCENT",
        default=() if default is None else (default,),
        show_default=default is not None,
    )


def read_tolerances(texts: Sequence[str], default: float = 0.01) -> dict[str, Any]:
    """The tolerances that ``--tolerance`` gives, as fields of `PrecisionOptions`."""
    tolerance, tolerances = default, dict[str, float]()
    for text in texts:
        name, equals, value = text.rpartition("=")
        if equals:
            tolerances[name] = fraction(value)
        else:
            tolerance = fraction(value)
    return {"tolerance": tolerance, "tolerances": tolerances}


def calibration_option() -> Any:
    """The option ``--calibration``."""
    return choice(
        "Calibration of activation ranges.",
        *CALIBRATIONS,
    )


@dataclass(frozen=True)
class Lowering:
    """The options of quantization, and of the error that it may add."""

    precision: Scheme | None = option(
        "Quantize within --tolerance.",
        type=_Scheme(SCHEMES),
    )
    tolerance: tuple[str, ...] = tolerance_option("Error that --precision may add", "1%")
    metric: ErrorMetric = metric_option()
    goal: Literal["speed", "size", "startup"] = option(
        "Quantize what is faster here, make the smallest file, or make sessions start soon.",
        "--for",
        type=click.Choice(("speed", "size", STARTUP)),
        default="speed",
        show_default=True,
    )
    cpu: Cpu = choice("CPUs on which int8 must be exact (vnni keeps all 8 bits of weights).", *CPUS)
    static: bool = flag("Static int8: QDQ with activation scales from --feeds.")
    calibration: Calibration = calibration_option()
    compute: Compute = choice(
        "Compute type of --precision (auto: by --provider).",
        *COMPUTES,
    )
    bits: int = option(
        "Bits of a weight of --precision int4 (2 to 8).",
        type=click.IntRange(BITS[0], BITS[-1]),
        default=4,
        show_default=True,
    )
    block_size: int = option(
        "Values of --precision int4 that share a scale.",
        type=click.Choice([*map(str, BLOCK_SIZES)]),
        default="32",
        callback=lambda _context, _option, value: int(value),
        show_default=True,
    )
    io_types: IoTypes = choice("Type to give to float32 inputs and outputs.", *IO_TYPES)
    exact_routing: bool | None = option(
        "Keep in float32 what a choice of experts (TopK) depends on, or quantize it (default: keep "
        "it where quantization would change choices).",
        "--exact-routing/--no-exact-routing",
        default=None,
    )
    budget: float | None = duration("Time limit of the search of --precision: 90s, 2m, 1h.")

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        if self.precision is None:
            used = {"cpu", "goal"} if self.is_for_startup else {"cpu"}
            names = [name for name in names_of(Lowering) if name not in used]
            return dict.fromkeys(names, "without --precision")
        reasons: dict[str, str] = {}
        if self.precision == "bfloat16":
            reasons |= dict.fromkeys(("compute", "io_types"), "with --precision bfloat16")
        elif self.precision != "float16" and self.compute != "float16":
            reasons["io_types"] = "without --compute float16"
        if self.precision != "int8":
            reasons["static"] = "without --precision int8"
        if self.precision != "int4":
            reasons |= dict.fromkeys(("bits", "block_size"), "without --precision int4")
        if self.static and not self.is_for_startup:
            reasons["goal"] = "with --static"
        return reasons

    @property
    def is_for_startup(self) -> bool:
        """Whether sessions of the result should start soon."""
        return self.goal == STARTUP

    @property
    def needs_contrib(self) -> bool:
        """Whether the result needs contrib operators on a target that computes in float32."""
        return self.precision == "int4" and self.compute != "float16"

    def read(self, feeds: Sequence[Mapping[str, np.ndarray]], seed: int) -> PrecisionOptions | None:
        """The options, ``None`` without quantization."""
        if self.precision is None:
            return None
        fields = common(PrecisionOptions, self) | read_tolerances(self.tolerance)
        if self.is_for_startup:
            fields["goal"] = "speed"
        return PrecisionOptions(scheme=self.precision, **fields, feeds=feeds, seed=seed)


def dims_option() -> Any:
    """The option ``--dim``."""
    text = "Size of a dynamic dimension, for runs: batch=4,seq=128 (repeatable)."
    return repeated(text, "--dim", metavar="NAME=SIZE")


def custom_op_option() -> Any:
    """The option ``--custom-op-lib``."""
    text = "Custom operator library, or onnxruntime-extensions (repeatable)."
    return repeated(text, type=click.Path(), metavar="FILE")


def software_device_option() -> Any:
    """The option ``--software-device``."""
    return flag("Run webgpu on the CPU, with the SwiftShader driver.")


def verify_option() -> Any:
    """The options ``--verify`` and ``--no-verify``."""
    return switch("Verify the result against the original.")


@dataclass(frozen=True)
class Values:
    """The options for the values that models are run on, and for the operators that they need."""

    test_data: Path | None = option(
        "Folder of ONNX test data (test_data_set_*/input_*.pb).",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
    )
    feeds: Path | None = option(
        "Input values: an .npz file, or a folder with one for each sample.",
        type=click.Path(path_type=Path),
        metavar="FILE.npz",
    )
    dims: tuple[str, ...] = dims_option()
    seed: int = option(
        "Seed of random inputs.", type=click.IntRange(min=0), default=0, show_default=True
    )
    custom_op_lib: tuple[str, ...] = custom_op_option()
    software_device: bool = software_device_option()

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        return (
            {} if self.test_data is None else dict.fromkeys(("feeds", "dims"), "with --test-data")
        )

    def samples(self) -> Sequence[Mapping[str, np.ndarray]]:
        """The values of each file of ``--feeds``. Raises when a file cannot be read."""
        return (
            [] if self.feeds is None else [Archive(path, "feeds") for path in files_of(self.feeds)]
        )

    def say_first(self, *, is_compared: bool = False) -> None:
        """Say on standard error that only the first of several samples is used.

        ``is_compared`` is whether models are compared on all samples, and measured on the first.
        """
        files = [] if self.feeds is None else files_of(self.feeds)
        if len(files) > 1:
            first = f"the first of {len(files)} samples"
            use = f"measured, {first}; all are compared" if is_compared else f"used, {first}"
            say(f"xopt: only {files[0]} is {use}", err=True)

    def read(self, *, several: bool = False) -> dict[str, Any]:
        """The values, as fields of the options that run models.

        Raises, before any work, when the values cannot be used. Dimensions with several sizes are
        refused or, with ``several``, left out.
        """
        libraries = tuple(map(library_file, self.custom_op_lib))
        feeds = {} if self.feeds is None else Archive(files_of(self.feeds)[0], "feeds")
        fields = {
            "test_data": self.test_data,
            "seed": self.seed,
            "software_device": self.software_device,
        }
        return {
            **fields,
            "dims": read_dims(self.dims, several=several),
            "feeds": feeds,
            "custom_op_libs": libraries,
        }

    def measured(self) -> dict[str, Any]:
        """The values, as fields of the options that measure models.

        Each position in the lists of sizes is a setting at which models are measured.
        """
        lists = {name: sizes for name, sizes in read_sizes(self.dims).items() if len(sizes) > 1}
        counts = {name: len(sizes) for name, sizes in lists.items()}
        if len({*counts.values()}) > 1:
            numbers = ", ".join(f"{name} has {count}" for name, count in counts.items())
            raise click.UsageError(
                f"--dim: {numbers} sizes; the lists are paired by position, so give lists of equal "
                "length"
            )
        settings = zip(*lists.values(), strict=True)
        return {
            **self.read(several=True),
            "at": [dict(zip(lists, sizes, strict=True)) for sizes in settings],
        }


def rtol_option() -> Any:
    """The option ``--rtol``."""
    return option("Relative tolerance.", type=_tolerance, metavar="NUMBER")


def atol_option() -> Any:
    """The option ``--atol``."""
    return option("Absolute tolerance.", type=_tolerance, metavar="NUMBER")


@dataclass(frozen=True)
class Comparison:
    """The options for the input values of a comparison of models, and for its tolerance."""

    verify_budget: float | None = duration(
        "Time limit of verification (default: 5 s, or 5 times the first run if that is longer)."
    )
    run_limit: float = duration("Time limit of one inference run of a model.", default=600.0)
    values: Values = field(default_factory=Values)
    tf32: bool = flag("Allow TF32 on CUDA.")
    ulp: int | None = option(
        "Tolerance in ULP instead of rtol and atol.", type=click.IntRange(min=0)
    )
    rtol: float | None = rtol_option()
    atol: float | None = atol_option()

    def idle(self, providers: Sequence[str]) -> dict[str, str]:
        """The parameters without effect with other options or these providers, with reasons."""
        names = [name.lower() for name in providers]
        reasons = self.values.idle()
        if self.tf32 and not any(name.startswith("cuda") for name in names):
            reasons["tf32"] = "without --provider cuda"
        if self.values.software_device and not any(name.startswith("webgpu") for name in names):
            webgpu = Advice("target", "webgpu")
            reasons["software_device"] = f"without {webgpu} or --provider webgpu"
        return reasons

    def read(
        self,
        providers: Sequence[str],
        *,
        exact: bool = False,
        runs: bool = True,
        several: bool = False,
    ) -> VerificationOptions:
        """The options of a verification.

        Raises, before any work, when a file or a number cannot be used.

        Args:
            providers: the execution providers to run on.
            exact: whether the bits of the outputs must be equal.
            runs: whether the command runs the complete models.
            several: whether dimensions may have several sizes (see `Values.read`).
        """
        names = [name for name in ("ulp", "rtol", "atol") if getattr(self, name) is not None]
        if self.ulp is not None and len(names) > 1:
            raise click.UsageError(f"--ulp replaces --rtol and --atol; remove --{names[1]}")
        if exact and names:
            raise click.UsageError(f"--exact allows no difference; remove --{names[0]}")
        if runs:
            MEMORY_BOUND.lift_for(providers)
        grade: Exactness = "exact" if exact else "rounding"
        fields = {**common(VerificationOptions, self), **self.values.read(several=several)}
        return VerificationOptions(
            exactness=grade, providers=tuple(providers), budget=self.verify_budget, **fields
        )


VALUES: Final = names_of(Values)
"""Parameters about the values that models are run on."""
COMPARISON: Final = [*(name for name in names_of(Comparison) if name not in VALUES), "exact"]
"""Parameters about the comparison of results. Some commands have no ``exact``."""


def check_values_used(reports: Sequence[VerificationReport], options: VerificationOptions) -> None:
    """Raise `click.UsageError` when a comparison could not run on the values of the user."""
    unused = next((report for report in reports if report.cause == "run"), None)
    if unused is not None and (options.feeds or options.dims or options.test_data):
        raise click.UsageError(f"not verified with the given values: {unused.reason}")


def read_sizes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The sizes of each dimension that ``--dim`` gives."""
    dims: dict[str, tuple[int, ...]] = {}
    for name, sizes in (_dimension(part) for text in texts for part in named_parts(text)):
        if dims.setdefault(name, sizes) != sizes:
            raise click.UsageError(
                f"{Advice('dim')} {name} is given twice: {_listed(dims[name])} and {_listed(sizes)}"
            )
    return dims


def read_dims(texts: Sequence[str], *, several: bool = False) -> dict[str, int]:
    """The dimensions with one size. Raises for several sizes, unless ``several`` allows them."""
    sizes = read_sizes(texts)
    wrong = next((name for name, values in sizes.items() if len(values) > 1 and not several), None)
    if wrong is not None:
        raise click.UsageError(
            f"{Advice('dim', f'{wrong}={_listed(sizes[wrong])}')}: only benchmarks take several "
            "sizes; give one"
        )
    return {name: values[0] for name, values in sizes.items() if len(values) == 1}


def _listed(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


def named_parts(text: str) -> list[str]:
    """The parts of a text such as ``batch=4,seq=8,16``: here ``batch=4`` and ``seq=8,16``.

    If a part has no ``=``, the complete text is one part.
    """
    parts = re.split(r",(?=[^,=]+=)", text)
    return parts if all("=" in part for part in parts) else [text]


def _dimension(text: str) -> tuple[str, tuple[int, ...]]:
    name, equals, value = text.rpartition("=")
    sizes = [whole_number(size) for size in value.split(",")]
    if not equals or not name or None in sizes:
        raise click.UsageError(
            f"{Advice('dim')} {abridged(text)}: write it as NAME=SIZE, such as batch=2"
        )
    return name, tuple(size for size in sizes if size is not None)


def files_of(path: Path) -> list[Path]:
    """The archives of a folder in the order of their names, or the path of a file itself."""
    if not path.is_dir():
        return [path]
    archives = sorted(path.glob("*.npz"))
    if not archives:
        raise click.UsageError(
            f"no .npz file in {str(path)!r}; write one for each sample with numpy.savez"
        )
    return archives
