"""``xopt bisect``: find the rewrite that makes a model compute something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from xoptim import Culprit, OptimizationOptions, Suspect, save
from xoptim.diagnose.explanation import counted

from .choices import opset_option
from .files import MODEL, OUTPUT, is_stream, writable
from .idle import idle_values, refuse_idle
from .pipeline import DIFFERENT, NOT_VALIDATED
from .rules import rewrite_option, with_rules
from .selection import chosen_patterns, drop_option, selection_options
from .validation import check_choices, validation_options


@click.command("bisect")
@click.argument("model", type=MODEL)
@click.option("-o", "--output", type=OUTPUT, help="File for the small model (default: MODEL.bisect.onnx).")
@selection_options(default="default")
@rewrite_option
@drop_option
@opset_option
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda.")
@check_choices
@click.option("--inline", is_flag=True, help="Replace calls of local functions by their bodies.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bisect_command(model: Path, output: Path | None, **choices: Any) -> int:
    """Find the rewrite that makes MODEL compute something else, and write a small model that shows it.

    Exit code 0 when the optimized model computes the same, 1 when it does not, 3 when that cannot be judged.
    """
    refuse_idle(idle_values(choices))
    if output is None and is_stream(model):
        raise click.UsageError("MODEL is a stream: give a file to write with -o FILE")
    target = writable(output or model.with_name(f"{model.stem}.bisect.onnx"))
    patterns = with_rules(chosen_patterns(choices), choices["rewrite"])
    options = OptimizationOptions(
        patterns=patterns, drop=choices["drop"], provider=choices["provider"][0], opset=choices["opset"]
    )
    suspect = Suspect(model, options, validation_options(choices), inline=choices["inline"])
    culprit = suspect.find_culprit()
    if culprit is None:
        click.echo("null" if choices["as_json"] else "no rewrite was found that changes a result")
        if suspect.report is not None and not suspect.report.ok:
            click.echo(f"xopt: warning: {suspect.report.summary()}", err=True)
            return NOT_VALIDATED
        return 0
    small = suspect.minimal_model(culprit)
    if small is not None:
        save(small, target, model.parent)
    if choices["as_json"]:
        shown = {**culprit.to_json(), "model": None if small is None else str(target)}
        click.echo(json.dumps(shown, indent=2))
    else:
        _print(culprit, target, 0 if small is None else len(small.graph.node))
    return DIFFERENT


def _print(culprit: Culprit, target: Path, nodes: int) -> None:
    click.echo(str(culprit))
    click.echo(f"found with {culprit.runs} validations")
    if nodes:
        click.echo(f"{target} shows it with {counted(nodes, 'node')}")
    else:
        click.echo("no part of the model shows it by itself")
