"""``xopt diff A B``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import click

from xoptim import GraphBuilder, VerificationOptions, diff, diff_values, report
from xoptim.api.diagnosing import ValueDifference
from xoptim.bench import BenchOptions
from xoptim.diagnose.differences import Difference
from xoptim.diagnose.explanation import JsonForm, JsonResult, counted

from ..exit_codes import DIFFERENT, code_of
from ..files import MODEL, writable
from ..loosened import warn_of_loosened
from ..options import command, common, flag, json_option, option, providers_option, refuse_idle
from ..pipeline import check_page
from ..preparation import assume_from_model_option, assume_option, fitting, in_force, print_assumed
from ..progress import Progress
from ..selection import operators_option
from ..summary import changed_names
from ..tables import Rows, open_console, print_json
from ..terminal import say
from ..verification import COMPARISON, VALUES, Comparison, verify_option

PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models."""


@dataclass(frozen=True, slots=True)
class DiffDocument(JsonResult):
    """The differences of two models.

    Attributes:
        assumptions: assumptions in force.
        differences: differences of the graphs; with `--values`, results that differ.
    """

    __json__ = JsonForm(name="Diff")
    assumptions: list[str]
    differences: list[Difference] | list[ValueDifference]


@dataclass(frozen=True)
class _DiffChoices:
    values: bool = flag("Run both, and compare values with the same name.")
    html: Path | None = option(
        "Write both graphs to an HTML file instead.",
        type=click.Path(path_type=Path),
        metavar="FILE",
    )
    verify: bool = verify_option()
    benchmark: bool = flag("Measure the latency of both, for --html.")
    limit: int = option(
        "Maximum number of differences to print.", type=click.IntRange(min=1), default=100
    )
    provider: tuple[str, ...] = providers_option(
        "Execution provider, for --values and --html: cpu or cuda."
    )
    include: tuple[str, ...] = operators_option()
    comparison: Comparison = field(default_factory=Comparison)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    as_json: bool = json_option()


@command("diff", first=MODEL, second=MODEL)
def diff_command(first: Path, second: Path, choices: _DiffChoices) -> int:
    """Compare the graphs of FIRST and SECOND.

    Compares nodes (by structure and by name), attributes, constants, inputs, outputs and operator
    sets. --values runs both and names the first result that differs. --html draws both graphs.

    Exit code 1 when there is a difference. With --html, exit code 1 when the outputs differ.
    """
    if choices.html is not None:
        return _draw(first, second, choices.html, choices)
    refuse_idle(dict.fromkeys(("verify", "benchmark"), "without --html"))
    return _list(first, second, choices)


def _list(first: Path, second: Path, choices: _DiffChoices) -> int:
    """Print the differences."""
    unused = ("provider", "assume", "assume_from_model", *COMPARISON, *VALUES)
    if choices.values:
        refuse_idle(choices.comparison.idle(choices.provider))
        warn_of_loosened()
        choices = replace(choices, assume=fitting(first, choices.assume))
    else:
        refuse_idle(dict.fromkeys(unused, "without --values or --html"))
    if choices.as_json:
        refuse_idle({"limit": "with --json, which has all differences"})
    entries: list[Any] = list(
        diff_values(first, second, _checks(choices)) if choices.values else diff(first, second)
    )
    if choices.as_json:
        trusts = choices.assume_from_model
        assumptions = in_force(choices.assume, first, second, from_model=trusts)
        print_json(DiffDocument(assumptions, entries))
        return DIFFERENT if entries else 0
    if choices.values:
        print_assumed(choices.assume, first, second, from_model=choices.assume_from_model)
    elif entries:
        _print_operators(first, second)
        entries.sort(key=lambda entry: entry.detail == "Constant")
    _print(entries, choices)
    return DIFFERENT if entries else 0


def _print_operators(first: Path, second: Path) -> None:
    """Print the operators whose number of nodes differs between the models, with the numbers."""
    before, after = (Counter(GraphBuilder(path).count_types()) for path in (first, second))
    names = changed_names(before, after)
    if not names:
        return
    rows = Rows(
        "operator", "first", "second", "difference", right={"first", "second", "difference"}
    )
    for name in names:
        old, new = before[name], after[name]
        rows.add(name, str(old), str(new), f"{new - old:+}")
    old, new = before.total(), after.total()
    rows.add("all nodes", str(old), str(new), f"{new - old:+}", style="bold")
    console = open_console()
    rows.print(console)
    console.print()


def _print(entries: list[Any], choices: _DiffChoices) -> None:
    """Print each difference on a line, and the number of differences."""
    console = open_console()
    for entry in entries[: choices.limit]:
        first = "first " if choices.values and entry.is_first else ""
        console.print(f"{first}{entry}", highlight=False)
    hidden = len(entries) - choices.limit
    more = f"; {hidden} not shown (--limit)" if hidden > 0 else ""
    if choices.values:
        count = counted(len(entries), "result") if entries else "no results"
        verb = "differs" if len(entries) == 1 else "differ"
        console.print(f"{count} {verb}{more}", highlight=False)
        return
    counts = Counter(entry.kind for entry in entries)
    kinds = ("added", "removed", "changed")
    text = ", ".join(f"{counts[kind]} {kind}" for kind in kinds if counts[kind])
    console.print(f"{text or 'no difference'}{more}", highlight=False)


def _checks(choices: _DiffChoices) -> VerificationOptions:
    """The values and tolerances of a comparison."""
    options = choices.comparison.read(choices.provider, several=choices.benchmark)
    return replace(options, **common(VerificationOptions, choices))


def _draw(first: Path, second: Path, page: Path, choices: _DiffChoices) -> int:
    """Write the page about both models."""
    target = writable(page)
    if target.exists() and any(target.samefile(model) for model in (first, second)):
        raise click.UsageError(f"--html {str(target)!r} would replace a model")
    check_page(page, "--html")
    refuse_idle(dict.fromkeys(("values", "limit", "as_json"), "with --html"))
    if len(choices.provider) > 1:
        raise click.UsageError("--html takes one --provider only")
    if not choices.verify:
        idle = () if choices.benchmark else ("provider", *VALUES)
        refuse_idle(dict.fromkeys((*COMPARISON, *idle), "with --no-verify"))
    refuse_idle(choices.comparison.idle(choices.provider))
    warn_of_loosened()
    choices = replace(choices, assume=fitting(first, choices.assume))
    settings = common(BenchOptions, choices) | choices.comparison.values.measured()
    bench = BenchOptions(seconds=PATIENCE, **{**settings, "provider": choices.provider[0]})
    with Progress(enabled=True) as progress:
        progress.say("comparing")
        verify = _checks(choices) if choices.verify else False
        result = report(
            first, second, target, verify=verify, bench=bench if choices.benchmark else None
        )
    for comparison in result.verification:
        say(f"verification  {comparison.verdict()}")
        if comparison.assumptions:
            say(f"assumed       {', '.join(comparison.assumptions)}")
    say(f"written       {target}")
    return code_of(result.verification, doubtful=0)
