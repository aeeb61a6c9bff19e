"""``xopt verify A B``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from xoptim import Exactness, verify

from .files import MODEL
from .idle import idle_values, refuse_idle
from .validation import check_choices, check_values_used, validation_options


@click.command("verify")
@click.argument("original", type=MODEL)
@click.argument("other", type=MODEL)
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@check_choices
@click.option("--fewer-inputs", is_flag=True, help="OTHER may lack inputs of ORIGINAL, whose values must not matter.")
@click.option("--exact", is_flag=True, help="Demand equal bits.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify_command(original: Path, other: Path, **choices: Any) -> int:
    """Run ORIGINAL and OTHER on the same values and compare.

    Exit code 1 when they differ or cannot be compared, 2 when one of them cannot be read.
    """
    refuse_idle(idle_values(choices))
    options = validation_options(choices)
    exactness: Exactness = "exact" if choices["exact"] else "rounding"
    options = replace(options, exactness=exactness, fewer_inputs=choices["fewer_inputs"])
    reports = [verify(original, other, options, providers=(provider,)) for provider in options.providers]
    check_values_used(reports, options)
    if choices["as_json"]:
        click.echo(json.dumps([report.to_json() for report in reports], indent=2))
    else:
        for report in reports:
            click.echo(f"{', '.join(report.providers)}: {report.summary()}")
            for note in report.notes:
                click.echo(f"  {note}")
    return 0 if all(report.ok for report in reports) else 1
