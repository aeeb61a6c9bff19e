"""``xopt diff A B``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from xoptim import diff, diff_values

from .files import MODEL
from .idle import COMPARISON, VALUES, idle_values, refuse_idle
from .pipeline import DIFFERENT
from .summary import open_console
from .validation import check_choices, validation_options


@click.command("diff")
@click.argument("first", type=MODEL)
@click.argument("second", type=MODEL)
@click.option("--values", is_flag=True, help="Run both, and compare the results that have the same name in both.")
@click.option("--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Most differences to print.")
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda, for --values.")
@check_choices
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff_command(first: Path, second: Path, values: bool, limit: int, **choices: Any) -> int:
    """Compare FIRST and SECOND: nodes by structure and by name, attributes, constants, inputs, outputs and operator sets.

    With --values, the first result that differs is the one whose operands are equal. Exit code 1 when there is a difference.
    """
    refuse_idle(idle_values(choices) if values else dict.fromkeys(("provider", *COMPARISON, *VALUES), "without --values"))
    if choices["as_json"]:
        refuse_idle({"limit": "with --json, which has all differences"})
    found: list[Any] = list(diff_values(first, second, validation_options(choices)) if values else diff(first, second))
    if choices["as_json"]:
        click.echo(json.dumps([each.to_json() for each in found], indent=2))
        return DIFFERENT if found else 0
    console = open_console()
    for each in found[:limit]:
        console.print(f"{'first ' if values and each.is_first else ''}{each}", highlight=False)
    more = f"; {len(found) - limit} not shown (--limit)" if len(found) > limit else ""
    if values:
        console.print(f"{len(found) or 'no'} results differ{more}", highlight=False)
    else:
        counts = Counter(each.kind for each in found)
        text = ", ".join(f"{counts[kind]} {kind}" for kind in ("added", "removed", "changed") if counts[kind])
        console.print(f"{text or 'no difference'}{more}", highlight=False)
    return DIFFERENT if found else 0
