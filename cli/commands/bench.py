"""``xopt bench MODEL ...``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import click

from xoptim import PrecisionOptions, VerificationOptions
from xoptim.bench import BenchOptions, BenchReport, ModelTimes, OperatorTime, bench, profile
from xoptim.bench.rounds import circumstances, milliseconds
from xoptim.diagnose.explanation import JsonForm, JsonResult, bytes_text, within
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.within import verify_within

from ..exit_codes import code_of
from ..files import MODEL, readable
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
from ..tables import Rows, open_console, print_json
from ..targeting import provider_there
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
    """

    __json__ = JsonForm(*within("report", BenchReport), "settings_file")
    report: BenchReport
    settings_file: str | None


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

    Ratios are relative to the first model. Dimensions that are not given are typical: batch 1,
    sequences of 128, a KV cache of 512, images of 224, 10 s of audio. --dim seq=1,128,512 measures
    at each.

    Exit code 1 when a model differs from the first one by more than --rtol and --atol, or than
    --tolerance, 3 when it differs and its metadata has assumptions that were not given.
    """
    refuse_idle(choices.idle())
    warn_of_loosened()
    choices = replace(choices, provider=provider_there(choices.target, choices.provider))
    MEMORY_BOUND.lift_for((choices.provider,))
    values = choices.values.read() if choices.by_operator else choices.values.measured()
    choices = replace(choices, assume=fitting(models[0], choices.assume))
    options = BenchOptions(level=choices.ort_level, **common(BenchOptions, choices), **values)
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
    _show(report, choices.as_json, used_settings(context))
    return code_of(
        [model.comparison for model in report.models if model.comparison is not None], doubtful=0
    )


def _compared_within(
    report: BenchReport, models: Sequence[Path], choices: _BenchChoices
) -> BenchReport:
    """The report with each model compared with the first one by a metric."""
    checks = VerificationOptions(providers=(choices.provider,))
    first, *rest = report.models
    times = [
        replace(entry, comparison=verify_within(models[0], model, choices.within(), checks))
        for entry, model in zip(rest, models[1:], strict=True)
    ]
    return replace(report, models=(first, *times))


def _show(report: BenchReport, as_json: bool, settings: str | None) -> None:
    if as_json:
        print_json(BenchResult(report, settings))
        return
    console = open_console()
    _rows(report).print(console)
    console.print()
    for number, model in enumerate(report.models, start=1):
        verdict = _compared_with_first(model, report.options)
        console.print(f"{number}  {readable(model.label)}{verdict}")
    if settings is not None:
        console.print(f"settings: {settings}", highlight=False)
    if report.options.assume:
        console.print(f"assumed: {', '.join(report.options.assume)}", highlight=False)
    for text in report.disturbances:
        console.print(f"busy: {text}", highlight=False)
    console.print(
        f"{circumstances(report)}; ORT graph optimizations: {report.options.level}",
        highlight=False,
    )


def _rows(report: BenchReport) -> Rows:
    """The figures of each model, or, where there are several settings, the medians and ratios at
    each of them.
    """
    if not report.at:
        figures = ("median", "minimum", "spread", "loading", "memory")
        rows = Rows("", *figures, right=figures)
        for number, model in enumerate(report.models, start=1):
            rows.add(str(number), *_figures(model))
        return rows
    columns = {**report.settings, "geometric mean": report}
    rows = Rows("", *columns, right=tuple(columns))
    for place, model in enumerate(report.models):
        rows.add(
            str(place + 1),
            *(milliseconds(column.models[place].median) for column in columns.values()),
        )
        if model.ratio is not None:
            rows.add(
                f"{place + 1} / 1",
                *(str(column.models[place].ratio) for column in columns.values()),
            )
    return rows


def _figures(model: ModelTimes) -> list[str]:
    times = [*map(milliseconds, (model.median, model.best, model.spread))]
    if model.loading is None:
        return [*times, "", ""]
    seconds, memory = model.loading
    return [*times, milliseconds(seconds), "?" if memory is None else bytes_text(memory)]


def _compared_with_first(model: ModelTimes, options: BenchOptions) -> str:
    check = model.comparison
    if model.ratio is None or check is None:
        return ""
    is_within = check.exactness == "approximate"
    is_usual = options.rtol is None and options.atol is None and not is_within
    is_beyond = any(c.fault == "value" for run in check.runs for c in run.comparisons)
    is_advised = check.status == "different" and is_usual and is_beyond
    advice = "; for a quantized model, set --tolerance" if is_advised else ""
    return f": {model.ratio}; {'equal' if check.ok else readable(check.summary())}{advice}"


def _show_operators(profiles: Mapping[str, Mapping[str, OperatorTime]], as_json: bool) -> None:
    if as_json:
        print_json(profiles)
        return
    console = open_console()
    for number, label in enumerate(profiles, start=1):
        console.print(f"{number}  {label}")
    _operator_rows(list(profiles.values())).print(console)


def _operator_rows(models: Sequence[Mapping[str, OperatorTime]]) -> Rows:
    """Milliseconds of each operator in each model.

    The largest differences to the first model come first.
    """
    nothing = OperatorTime(0.0, 0.0)
    first = models[0]

    def difference(name: str) -> float:
        base = first.get(name, nothing).seconds
        return max(
            (abs(entry.get(name, nothing).seconds - base) for entry in models[1:]), default=base
        )

    figures = [
        heading for number in range(1, len(models) + 1) for heading in (f"model {number}", "calls")
    ]
    rows = Rows("operator", *figures, right=figures)
    for name in sorted(
        {name for entry in models for name in entry}, key=lambda name: (-difference(name), name)
    ):
        cells = [entry.get(name, nothing) for entry in models]
        rows.add(
            name,
            *(text for cell in cells for text in (milliseconds(cell.seconds), f"{cell.calls:g}")),
        )
    totals = [sum(entry.seconds for entry in operators.values()) for operators in models]
    rows.add(
        "all operators",
        *(text for total in totals for text in (milliseconds(total), "")),
        style="bold",
    )
    return rows
