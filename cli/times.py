"""Tables of measured times, by model and by operator."""

from collections.abc import Mapping, Sequence
from typing import Final

from xoptim.bench import BenchOptions, BenchReport, ModelTimes, OperatorTime
from xoptim.bench.rounds import circumstances, milliseconds
from xoptim.diagnose.explanation import bytes_text

from .files import readable
from .tables import Rows, open_console

_NOTHING: Final = OperatorTime(0.0, 0.0)


def print_times(report: BenchReport, settings: str | None) -> None:
    """Print the times of models, and the circumstances of the measurement."""
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
    """The figures of each model, or the medians and ratios at each of several settings."""
    if not report.at:
        figures = ("median", "minimum", "spread", "loading", "memory")
        rows = Rows("", *figures, right=figures)
        for number, model in enumerate(report.models, start=1):
            rows.add(str(number), *_figures(model))
        return rows
    columns = {**report.settings, "geometric mean": report}
    rows = Rows("", *columns, right=tuple(columns))
    for index, model in enumerate(report.models):
        rows.add(
            str(index + 1),
            *(milliseconds(column.models[index].median) for column in columns.values()),
        )
        if model.ratio is not None:
            rows.add(
                f"{index + 1} / 1",
                *(str(column.models[index].ratio) for column in columns.values()),
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
    if model.ratio is None:
        return ""
    if check is None:
        return f": {model.ratio}"
    is_within = check.exactness == "approximate"
    is_usual = options.rtol is None and options.atol is None and not is_within
    is_beyond = any(c.fault == "value" for run in check.runs for c in run.comparisons)
    is_advised = check.status == "different" and is_usual and is_beyond
    advice = "; for a quantized model, set --tolerance" if is_advised else ""
    return f": {model.ratio}; {'equal' if check.ok else readable(check.summary())}{advice}"


def print_operators(
    profiles: Mapping[str, Mapping[str, OperatorTime]],
    names: Sequence[str] = (),
    limit: int | None = None,
) -> None:
    """Print the milliseconds of each operator in each model, for at most ``limit`` operators.

    The largest differences to the first model come first. ``names`` are headings, by default
    ``model 1``, ``model 2``, ...
    """
    console = open_console()
    models = list(profiles.values())
    operators = sorted({name for entry in models for name in entry})
    operators.sort(key=lambda name: -_difference(name, models))
    shown = operators[:limit]
    titles = names or [f"model {number}" for number in range(1, len(models) + 1)]
    figures = [heading for title in titles for heading in (title, "calls")]
    rows = Rows("operator", *figures, right=figures)
    for name in shown:
        cells = [entry.get(name, _NOTHING) for entry in models]
        rows.add(
            name,
            *(text for cell in cells for text in (milliseconds(cell.seconds), f"{cell.calls:g}")),
        )
    if len(shown) < len(operators):
        rows.add(f"{len(operators) - len(shown)} more", *("" for _ in figures))
    totals = [sum(time.seconds for time in entry.values()) for entry in models]
    rows.add(
        "all operators",
        *(text for total in totals for text in (milliseconds(total), "")),
        style="bold",
    )
    rows.print(console)


def _difference(name: str, models: Sequence[Mapping[str, OperatorTime]]) -> float:
    """The largest difference to the first model in seconds, or the time if there is one model."""
    base = models[0].get(name, _NOTHING).seconds
    differences = (abs(entry.get(name, _NOTHING).seconds - base) for entry in models[1:])
    return max(differences, default=base)
