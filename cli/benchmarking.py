"""``xopt bench MODEL ...``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from xoptim.bench import BenchOptions, BenchReport, ModelTimes, OperatorTime, bench, profile
from xoptim.bench.report import bytes_text, circumstances, milliseconds
from xoptim.validate import resolve_providers

from .files import MODEL, readable
from .idle import idle_values, refuse_idle
from .limits import MEMORY_BOUND
from .pipeline import DIFFERENT
from .progress import Progress
from .summary import open_console
from .tables import Rows
from .validation import chosen_values, value_choices


@click.command("bench")
@click.argument("models", nargs=-1, required=True, type=MODEL)
@click.option("--provider", default="cpu", show_default=True, help="cpu or cuda.")
@click.option("--threads", type=click.IntRange(min=0), default=0, help="Threads within an operator (default: onnxruntime's).")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=10,
    show_default=True,
    help="Time of measured runs for each model.",
)
@value_choices
@click.option(
    "--ort-level",
    type=click.Choice(["all", "extended", "basic", "off"]),
    default="all",
    show_default=True,
    help="Graph optimizations of onnxruntime.",
)
@click.option("--profile", "by_operator", is_flag=True, help="Print the time of each operator in place of that of a run.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bench_command(models: tuple[Path, ...], **choices: Any) -> int:
    """Measure how long MODELS run on the same values, side by side; ratios are to the first one.

    Exit code 1 when a model computes something else than the first one.
    """
    refuse_idle(idle_values(choices))
    if resolve_providers((choices["provider"],)) != resolve_providers(("cpu",)):
        MEMORY_BOUND.lift()
    options = BenchOptions(
        provider=choices["provider"],
        threads=choices["threads"],
        seconds=choices["seconds"],
        level=choices["ort_level"],
        **chosen_values(choices),
    )
    with Progress(enabled=not choices["as_json"]) as progress:
        if choices["by_operator"]:
            progress.say("profiling")
            operators = profile(models, options)
        else:
            report = bench(models, options, on_step=progress.say)
    if choices["by_operator"]:
        _show_operators(operators, choices["as_json"])
        return 0
    _show(report, choices["as_json"])
    return 0 if report.is_equal else DIFFERENT


def _show(report: BenchReport, as_json: bool) -> None:
    if as_json:
        click.echo(readable(json.dumps(report.to_json(), indent=2)))
        return
    console = open_console()
    figures = ("median", "minimum", "spread", "loading", "memory")
    rows = Rows("", *figures, right=figures)
    for number, model in enumerate(report.models, start=1):
        rows.add(str(number), *_figures(model))
    rows.print(console)
    console.print()
    for number, model in enumerate(report.models, start=1):
        console.print(f"{number}  {readable(model.label)}{_beside_first(model)}")
    console.print(f"{circumstances(report)}; onnxruntime's optimizations: {report.options.level}", highlight=False)


def _figures(model: ModelTimes) -> list[str]:
    times = [*map(milliseconds, (model.median, model.best, model.spread))]
    if model.loading is None:
        return [*times, "", ""]
    seconds, memory = model.loading
    return [*times, milliseconds(seconds), "?" if memory is None else bytes_text(memory)]


def _beside_first(model: ModelTimes) -> str:
    if model.ratio is None or model.comparison is None:
        return ""
    return f": {model.ratio}; {'equal' if model.comparison.ok else model.comparison.summary()}"


def _show_operators(found: Mapping[str, Mapping[str, OperatorTime]], as_json: bool) -> None:
    if as_json:
        rows = {
            label: {name: {"ms": 1e3 * each.seconds, "calls": each.calls} for name, each in operators.items()}
            for label, operators in found.items()
        }
        click.echo(json.dumps(rows, indent=2))
        return
    console = open_console()
    for number, label in enumerate(found, start=1):
        console.print(f"{number}  {label}")
    _operator_rows(list(found.values())).print(console)


def _operator_rows(models: Sequence[Mapping[str, OperatorTime]]) -> Rows:
    """Milliseconds of each operator in each model; the largest differences to the first model come first."""
    nothing = OperatorTime(0.0, 0.0)
    first = models[0]

    def difference(name: str) -> float:
        mine = first.get(name, nothing).seconds
        return max((abs(other.get(name, nothing).seconds - mine) for other in models[1:]), default=mine)

    figures = [heading for number in range(1, len(models) + 1) for heading in (f"model {number}", "calls")]
    rows = Rows("operator", *figures, right=figures)
    for name in sorted({name for each in models for name in each}, key=lambda name: (-difference(name), name)):
        cells = [each.get(name, nothing) for each in models]
        rows.add(name, *(text for each in cells for text in (milliseconds(each.seconds), f"{each.calls:g}")))
    totals = [sum(each.seconds for each in operators.values()) for operators in models]
    rows.add("all operators", *(text for total in totals for text in (milliseconds(total), "")), style="bold")
    return rows
