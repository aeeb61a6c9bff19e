"""``xopt bench MODEL ...``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

import click

from xoptim import PrecisionOptions, VerificationOptions
from xoptim.bench import BenchOptions, BenchReport, OperatorTime, bench, bench_versions, profile
from xoptim.bench.environments import check_version
from xoptim.diagnose.explanation import JsonForm, JsonResult, member, within
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.within import verify_within

from ..exit_codes import code_of
from ..files import MODEL
from ..loosened import warn_of_loosened
from ..memory import MEMORY_BOUND
from ..options import (
    THREADS,
    choice,
    command,
    common,
    duration,
    flag,
    json_option,
    option,
    provider_option,
    quiet_option,
    refuse_idle,
    target_option,
)
from ..preparation import assume_from_model_option, assume_option, fitting
from ..progress import Progress
from ..selection import operators_option
from ..settings import used_settings
from ..tables import open_console, print_json
from ..targeting import provider_there
from ..times import print_operators, print_times
from ..verification import (
    Values,
    atol_option,
    metric_option,
    read_tolerances,
    rtol_option,
    tolerance_option,
)


@dataclass(frozen=True, slots=True)
class BenchResult(JsonResult):
    """The times of models that were run side by side, and the settings in use.

    Attributes:
        report: the times.
        settings_file: the settings files in use, the strongest first; ``None`` without one.
        operators: times by version of onnxruntime and operator, with ``--onnxruntime``.
    """

    __json__ = JsonForm(
        *within("report", BenchReport), "settings_file", member("operators", is_optional=True)
    )
    report: BenchReport
    settings_file: str | None
    operators: Mapping[str, Mapping[str, OperatorTime]] = field(default_factory=dict)


_WITHOUT_VERSIONS: Final = (
    *("rtol", "atol", "tolerance", "metric"),
    *("by_operator", "provider", "target", "software_device"),
)
"""Parameters that have no effect with ``--onnxruntime``."""
_MIN_VERSIONS: Final = 2
"""Minimum number of versions of ``--onnxruntime``."""
_MAX_OPERATORS: Final = 8
"""Maximum number of operators whose times with several versions are printed."""


def _versions(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[str, ...] | None:
    """The versions of ``--onnxruntime``: at least two different ones."""
    if text is None:
        return None
    try:
        versions = tuple(check_version(part.strip()) for part in text.split(","))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if len({*versions}) < max(_MIN_VERSIONS, len(versions)):
        raise click.BadParameter("give two or more different versions: 1.30,1.32")
    return versions


@dataclass(frozen=True)
class _BenchChoices:
    provider: str = provider_option()
    target: str = target_option("Measure on this target: webgpu, qnn, openvino, cuda, tensorrt.")
    threads: int = option("Intra-op threads (default: ONNX Runtime's).", type=THREADS, default=0)
    seconds: float = duration("Measuring time per model.", default=10.0)
    values: Values = field(default_factory=Values)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    ort_level: Literal["all", "extended", "basic", "off"] = choice(
        "ORT graph optimization level.", "all", "extended", "basic", "off"
    )
    rtol: float | None = rtol_option()
    atol: float | None = atol_option()
    tolerance: tuple[str, ...] = tolerance_option("Compare as --precision does, within this error")
    metric: ErrorMetric = metric_option()
    include: tuple[str, ...] = operators_option()
    by_operator: bool = flag("Print the time of each operator instead.", "--profile")
    onnxruntime: Sequence[str] | None = option(
        "Compare versions of onnxruntime, installed on demand: 1.30,1.32.",
        callback=_versions,
        metavar="VERSIONS",
    )
    as_json: bool = json_option()
    quiet: bool = quiet_option()

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        unused: dict[str, str] = {}
        if not self.tolerance:
            unused["metric"] = "without --tolerance"
        if self.tolerance:
            unused |= dict.fromkeys(("rtol", "atol"), "with --tolerance")
        if self.by_operator:
            names = ("rtol", "atol", "tolerance", "metric")
            unused |= dict.fromkeys(names, "with --profile")
        if self.onnxruntime:
            unused |= dict.fromkeys(_WITHOUT_VERSIONS, "with --onnxruntime")
        return self.values.idle() | unused

    def within(self) -> PrecisionOptions:
        """The error that quantized models may have."""
        return PrecisionOptions(
            **read_tolerances(self.tolerance),
            metric=self.metric,
            feeds=self.values.samples(),
            seed=self.values.seed,
        )


@command("bench", models={"nargs": -1, "required": True, "type": MODEL})
def bench_command(context: click.Context, models: tuple[Path, ...], choices: _BenchChoices) -> int:
    """Measure the latency of MODELS side by side.

    Ratios are relative to the first model. Dimensions that --dim does not set have typical sizes:
    batch 1, sequences of 128, a KV cache of 512, images of 224, 10 s of audio. --dim seq=1,128,512
    measures at each size.

    --onnxruntime measures one model with several versions of onnxruntime instead, on the CPU.

    Exit code 1 when a model differs from the first one by more than the tolerance. Exit code 3 when
    a model differs and its metadata has assumptions that were not given.
    """
    refuse_idle(choices.idle())
    warn_of_loosened()
    choices = replace(choices, provider=provider_there(choices.target, choices.provider))
    MEMORY_BOUND.lift_for((choices.provider,))
    values = choices.values.read() if choices.by_operator else choices.values.measured()
    is_compared = not (choices.by_operator or choices.onnxruntime) and len(models) > 1
    if not (choices.as_json or choices.quiet):
        choices.values.say_first(is_compared=is_compared)
    choices = replace(choices, assume=fitting(models[0], choices.assume))
    options = BenchOptions(
        level=choices.ort_level,
        samples=choices.values.samples()[1:],
        **common(BenchOptions, choices),
        **values,
    )
    if choices.onnxruntime:
        return _bench_versions(context, models, options, choices.onnxruntime, choices)
    with Progress(enabled=not (choices.as_json or choices.quiet)) as progress:
        if choices.by_operator:
            progress.say("profiling")
            operators = profile(models, options)
        else:
            is_within = bool(choices.tolerance)
            settings = replace(options, compare=not is_within)
            report = bench(models, settings, on_step=progress.say)
            if is_within:
                progress.say("comparing")
                report = _compared_within(report, models, choices)
    if choices.by_operator:
        _show_operators(operators, choices.as_json)
        return 0
    if choices.as_json:
        print_json(BenchResult(report, used_settings(context)))
    else:
        print_times(report, used_settings(context))
    return code_of(
        [model.comparison for model in report.models if model.comparison is not None], doubtful=0
    )


def _compared_within(
    report: BenchReport, models: Sequence[Path], choices: _BenchChoices
) -> BenchReport:
    """The report with comparisons, by a metric, of each model with the first one."""
    checks = VerificationOptions(providers=(choices.provider,))
    first, *remaining = report.models
    times = [
        replace(entry, comparison=verify_within(models[0], model, choices.within(), checks))
        for entry, model in zip(remaining, models[1:], strict=True)
    ]
    return replace(report, models=(first, *times))


def _show_operators(profiles: Mapping[str, Mapping[str, OperatorTime]], as_json: bool) -> None:
    if as_json:
        print_json(profiles)
        return
    for number, label in enumerate(profiles, start=1):
        open_console().print(f"{number}  {label}")
    print_operators(profiles)


def _bench_versions(
    context: click.Context,
    models: Sequence[Path],
    options: BenchOptions,
    versions: Sequence[str],
    choices: _BenchChoices,
) -> int:
    """Measure one model with several versions of onnxruntime, and return the exit code."""
    if len(models) > 1:
        raise click.UsageError("--onnxruntime measures one model; give one")
    with Progress(enabled=not (choices.as_json or choices.quiet)) as progress:
        times = bench_versions(models[0], versions, options, on_step=progress.say)
    settings = used_settings(context)
    if choices.as_json:
        print_json(BenchResult(times.report, settings, times.operators))
        return 0
    print_times(times.report, settings)
    open_console().print()
    names = [label.removeprefix("onnxruntime ") for label in times.operators]
    print_operators(times.operators, names, _MAX_OPERATORS)
    return 0
