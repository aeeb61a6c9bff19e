"""``xopt tune MODEL``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from xoptim import PrecisionOptions, tune
from xoptim.bench.rounds import chosen_sizes
from xoptim.diagnose.explanation import JsonForm, JsonResult, within
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.options import Calibration
from xoptim.tuning import TuneOptions, TuningReport, settings_path

from ..exit_codes import NOT_VERIFIED
from ..files import MODEL, check_derived, output_option, target_of
from ..loosened import warn_of_loosened
from ..memory import MEMORY_BOUND
from ..options import (
    THREADS,
    command,
    common,
    duration,
    flag,
    json_option,
    option,
    provider_option,
    quiet_option,
    refuse_idle,
    repeated,
    target_option,
)
from ..pipeline import protect_weights
from ..preparation import assume_from_model_option, assume_option, fitting
from ..progress import Progress
from ..remarks import precision_remark
from ..selection import with_operators
from ..settings import used_settings
from ..tables import Rows, open_console, print_json
from ..targeting import provider_there
from ..terminal import say
from ..verification import (
    Values,
    calibration_option,
    metric_option,
    read_tolerances,
    tolerance_option,
)


@dataclass(frozen=True, slots=True)
class TuneDocument(JsonResult):
    """The report of tuning, and the files that were written.

    Attributes:
        model: the file of the model.
        written: files that were written.
        settings_file: the settings files in use, the strongest first; ``None`` without one.
        report: the report of tuning.
    """

    __json__ = JsonForm("model written settings_file", *within("report", TuningReport), name="Tune")
    model: Path
    written: list[Path]
    settings_file: str | None
    report: TuningReport


_WORDS = {"start": "baseline", "undecided": "not known to be faster"}


@dataclass(frozen=True)
class _TuneChoices:
    output: Path | None = output_option()
    in_place: bool = flag("Overwrite MODEL.")
    provider: str = provider_option()
    target: str = target_option("Measure on this target: webgpu, qnn, openvino, cuda, tensorrt.")
    threads: int = option("Intra-op threads (default: searched as well).", type=THREADS, default=0)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    include: tuple[str, ...] = repeated(
        "Also try patterns with this tag, or use a pack (repeatable).",
        metavar="WORD",
        callback=with_operators,
    )
    values: Values = field(default_factory=Values)
    budget: float = duration("Time limit: 30s, 2m.", default=120.0)
    tolerance: tuple[str, ...] = tolerance_option("Also try quantization, within this error")
    metric: ErrorMetric = metric_option()
    calibration: Calibration = calibration_option()
    as_json: bool = json_option()
    quiet: bool = quiet_option()

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        return (
            {}
            if self.tolerance
            else dict.fromkeys(("metric", "calibration"), "without --tolerance")
        )

    def quantization(self) -> PrecisionOptions | None:
        """The options of quantization, ``None`` without ``--tolerance``."""
        if not self.tolerance:
            return None
        values = common(PrecisionOptions, self) | read_tolerances(self.tolerance)
        return PrecisionOptions(**values, feeds=self.values.samples(), seed=self.values.seed)


@command("tune", model=MODEL)
def tune_command(context: click.Context, model: Path, choices: _TuneChoices) -> int:
    """Find the fastest options on this machine by measuring.

    Writes the model, and its session settings next to it (OUTPUT.session.json), which
    xoptim.session(OUTPUT) uses. When no result is measurably faster, the smallest result that is
    not measurably slower is written. The result may need ONNX Runtime, and is made for this
    machine.

    Exit code 3 when the result could not be verified: the original is written then.
    """
    refuse_idle({**choices.values.idle(), **choices.idle()})
    warn_of_loosened()
    choices = replace(choices, provider=provider_there(choices.target, choices.provider))
    output = target_of(model, choices.output, choices.in_place)
    check_derived(settings_path(output))  # before the search, which takes minutes
    MEMORY_BOUND.lift_for((choices.provider,))
    choices = replace(choices, assume=fitting(model, choices.assume))
    options = TuneOptions(
        **common(TuneOptions, choices),
        **choices.values.measured(),
        precision=choices.quantization(),
    )
    with Progress(enabled=not (choices.as_json or choices.quiet)) as progress:
        result = tune(
            model,
            options,
            on_step=progress.say,
            on_loaded=lambda builder: protect_weights(builder, output),
        )
        progress.say("writing")
        written = result.save(output, in_place=choices.in_place)
    if choices.as_json:
        print_json(TuneDocument(model, written, used_settings(context), result.report))
    else:
        _show(result.report, written, used_settings(context))
    failure = next(
        (report for report in result.report.optimization.verification if not report.ok), None
    )
    if failure is not None:
        say(f"xopt: warning: {failure.summary()}", err=True)
        return NOT_VERIFIED
    return 0


def _show(report: TuningReport, written: list[Path], settings: str | None) -> None:
    console = open_console()
    rows = Rows("tried", "time / original", "", prose={""})
    for trial in report.trials:
        is_best = trial.label == report.label
        ratio = (
            ""
            if trial.ratio is None
            else "{:.3f} ({:.3f} to {:.3f})".format(trial.ratio.value, *trial.ratio.interval)
        )
        rows.add(
            trial.label,
            ratio,
            trial.reason or _WORDS.get(trial.verdict, trial.verdict),
            style="bold" if is_best else "",
        )
    rows.print(console)
    console.print()
    for label, reason in report.refuted:
        console.print(f"refused       {label}: {reason}", highlight=False)
    nodes = f"{report.optimization.nodes_before} → {report.optimization.nodes_after} nodes"
    if not report.is_faster:
        console.print(
            "result        nothing is measurably faster than the original", highlight=False
        )
    console.print(
        f"chosen        {report.label}: {nodes}, time / original {report.ratio}", highlight=False
    )
    for line in () if report.quantized is None else precision_remark(report.quantized).lines():
        console.print(line, highlight=False)
    searched = f"tried {len(report.trials) - 1}" + (
        f" of {len(report.trials) - 1 + report.not_tried}" if report.not_tried else ""
    )
    advice = "" if not report.not_tried else " (a larger --budget tries the rest)"
    console.print(
        f"search        {searched} changes in {report.seconds:.0f} s{advice}", highlight=False
    )
    sizes = chosen_sizes(report.sizes, report.refused, report.options.bench)
    if sizes:
        console.print(f"sizes         {sizes}", highlight=False)
    if report.assumptions:
        console.print(f"assumed       {', '.join(report.assumptions)}", highlight=False)
    for comparison in report.optimization.verification:
        console.print(f"verification  {comparison.verdict()}", highlight=False)
    if settings is not None:
        console.print(f"settings      {settings}", highlight=False)
    console.print(f"written       {', '.join(map(str, written))}", highlight=False)
