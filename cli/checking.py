"""``xopt check MODEL...``: the checks of a commit hook."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from xoptim import GraphBuilder, OptimizationOptions, ValidationOptions, ValidationReport, verify
from xoptim.validate import at_revision

from .files import MODEL, is_stream, readable
from .idle import COMPARISON, VALUES, idle_values, refuse_idle
from .pipeline import DIFFERENT
from .selection import chosen_patterns, selection_options
from .summary import open_console
from .validation import check_choices, validation_options

_MOST: Final = 5.0
"""Percentage of the nodes by which a model may shrink, where no check is chosen."""


def percentage(value: str | float) -> float:
    """A percentage between 0 and 100, with its sign or without.

    Raises:
        click.BadParameter: when it is not one.
    """
    try:
        number = float(str(value).removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number <= 100:
        raise click.BadParameter(f"{value!r}: a percentage such as 5% is expected")
    return number


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of one model.

    Attributes:
        model: the file.
        ok: whether the check passed.
        detail: the figures, or the reason.
    """

    model: Path
    ok: bool
    detail: str

    def __str__(self) -> str:
        return f"{'ok' if self.ok else 'failed'}  {self.model}: {self.detail}"


@click.command("check")
@click.argument("models", type=MODEL, nargs=-1, required=True)
@click.option(
    "--max-shrink",
    type=percentage,
    metavar="PERCENT",
    help="Fail when optimizing would remove more than this part of the nodes.",
)
@click.option("--against", metavar="REVISION", help="Fail when a model computes something else than at this revision of git.")
@selection_options(default="default")
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@check_choices
@click.option("--exact", is_flag=True, help="Demand equal bits, for --against.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(models: tuple[Path, ...], max_shrink: float | None, against: str | None, **choices: Any) -> int:
    """Check MODELS without writing anything, for hooks and continuous integration.

    Without --max-shrink and --against, the check is --max-shrink 5%. A model that the revision does not have passes.
    Exit code 1 when a check fails or two models cannot be compared, 2 when a model cannot be read.
    """
    if against is None:
        refuse_idle(dict.fromkeys((*COMPARISON, *VALUES), "without --against REVISION"))
    elif max_shrink is None:
        refuse_idle(dict.fromkeys(("patterns", "include", "require", "exclude"), "with --against alone; see --max-shrink"))
    refuse_idle(idle_values(choices))
    most = _MOST if max_shrink is None and against is None else max_shrink
    found: list[Finding] = []
    for model in models:
        if most is not None:
            found.append(_shrunk(model, most, choices))
        if against is not None:
            found.append(_compared(model, against, choices))
    if choices["as_json"]:
        rows = [{"model": readable(str(f.model)), "ok": f.ok, "detail": f.detail} for f in found]
        click.echo(json.dumps(rows, indent=2))
    else:
        console = open_console()
        for each in found:
            console.print(readable(str(each)), highlight=False, soft_wrap=True)
    return 0 if all(each.ok for each in found) else DIFFERENT


def _shrunk(model: Path, most: float, choices: dict[str, Any]) -> Finding:
    """Optimize a model in memory, and judge how many nodes that removes."""
    options = OptimizationOptions(patterns=chosen_patterns(choices), provider=choices["provider"][0])
    builder = GraphBuilder(model, optimization_options=options)
    builder.optimize()
    report = builder.report()
    before, after = report.nodes_before, report.nodes_after
    part = 100 * (before - after) / max(before, 1)
    detail = f"nodes: {before} → {after}, {part:.1f} % fewer; at most {most:g} % allowed"
    advice = "" if part <= most or is_stream(model) else f"; run `xopt {model} --in-place`"
    return Finding(model, part <= most, f"{detail}{advice}")


def _compared(model: Path, revision: str, choices: dict[str, Any]) -> Finding:
    """Compare a model with what it was."""
    checks = validation_options(choices)
    with at_revision(model, revision) as former:
        if former is None:
            return Finding(model, True, f"not in {revision}")
        reports = [_report(former, model, checks, provider, choices["exact"]) for provider in checks.providers]
    worst = next((report for report in reports if not report.ok), reports[0])
    return Finding(model, worst.ok, f"against {revision}: {worst.summary()}")


def _report(former: Path, model: Path, checks: ValidationOptions, provider: str, exact: bool) -> ValidationReport:
    return verify(former, model, checks, providers=(provider,), exactness="exact" if exact else "rounding")
