"""``xopt MODEL``: load, optimize, validate, write, summarize."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any, Final

import click
import onnx

from xoptim import Culprit, GraphBuilder, OptimizationOptions, Suspect
from xoptim.validate import EachCheck, ValidationOptions

from .pipeline import protect_weights, summarize, target_of, validate_each_provider, verdict, write
from .progress import Progress
from .rules import with_rules
from .selection import chosen_patterns, selection_options
from .summary import Summary, print_summary
from .validation import check_choices, validation_options

MOST_CULPRITS: Final = 10
"""Patterns that are left out of one run before it is given up."""


@click.command("optimize")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: MODEL.opt.onnx beside it).")
@click.option("--in-place", is_flag=True, help="Overwrite MODEL.")
@selection_options(default="default")
@click.option("--rewrite", multiple=True, metavar="FILE", help="Run the rules of this file besides (repeatable, in order).")
@click.option("--drop", multiple=True, metavar="NAME", help="Leave a pattern out (repeatable).")
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run both models and compare.")
@click.option(
    "--check",
    type=click.Choice(["end", "each"]),
    default="end",
    show_default=True,
    help="Compare the results of the model, or those of each rewrite as well.",
)
@check_choices
@click.option("--inline", is_flag=True, help="Replace calls of local functions by their bodies.")
@click.option("--external-data", is_flag=True, help="Write weights to a file of their own.")
@click.option(
    "--strategy",
    type=click.Choice(["priority", "largest"]),
    default="priority",
    show_default=True,
    help="Which of two overlapping matches wins: that of the earlier pattern, or that of more nodes.",
)
@click.option("--tag/--no-tag", default=True, show_default=True, help="Name patterns in the metadata of the nodes they make.")
@click.option("--max-rounds", type=click.IntRange(min=0), help="Most rounds of a phase.")
@click.option(
    "--strict", is_flag=True, help="A pattern that fails or is wrong, or a model that cannot be validated, is an error."
)
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("-v", "--verbose", count=True, help="-v a line a round, -vv why patterns were refused.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
def optimize_command(model: Path, **choices: Any) -> int:
    """Optimize MODEL, prove it equal, write it."""
    target = target_of(model, choices["output"], choices["in_place"])
    quiet = choices["quiet"] or choices["as_json"]
    # Standard output is for the JSON alone; what -v logs goes to standard error then.
    log = redirect_stdout(sys.stderr) if choices["as_json"] else nullcontext()
    with log, Progress(enabled=not quiet and not choices["verbose"]) as progress:
        options = _options(choices, progress)
        checks = validation_options(choices)
        summary, proto, builder = _optimize_and_prove(model, target, options, checks, choices, progress)
        summary.written = write(proto, target, builder, summary, choices, progress)
    if choices["as_json"]:
        click.echo(json.dumps(summary.to_json(), indent=2))
    elif not choices["quiet"]:
        print_summary(summary)
    return verdict(summary, choices["strict"])


def _optimize_and_prove(
    model: Path,
    target: Path,
    options: OptimizationOptions,
    checks: ValidationOptions,
    choices: dict[str, Any],
    progress: Progress,
) -> tuple[Summary, onnx.ModelProto, GraphBuilder]:
    """Optimize; when the result computes something else, again without what is to blame."""
    left_out: list[Culprit] = []
    while True:
        each = EachCheck(model, checks) if choices["check"] == "each" else None
        given = replace(options, on_application=each)
        summary, proto, builder = _optimize(model, target, given, choices["inline"], progress)
        summary.each, summary.left_out = each, left_out
        if choices["verify"]:
            progress.say("validating")
            summary.reports = validate_each_provider(model, proto, builder, checks, summary.exactness)
        if choices["strict"] or len(left_out) == MOST_CULPRITS:
            return summary, proto, builder
        culprit = _culprit(model, summary, options, checks, choices["inline"], progress)
        if culprit is None:
            return summary, proto, builder
        click.echo(f"xopt: warning: {culprit}; it is left out (`xopt bisect` makes a small model that shows it)", err=True)
        options = culprit.avoided_by(options)
        left_out.append(culprit)


def _culprit(
    model: Path,
    summary: Summary,
    options: OptimizationOptions,
    checks: ValidationOptions,
    inline: bool,
    progress: Progress,
) -> Culprit | None:
    """What to leave out, ``None`` when nothing is wrong or nothing helps."""
    if summary.each is not None and summary.each.disagreements:
        return Culprit.of(summary.each.disagreements[0])
    report = next((report for report in summary.reports if report.status == "different"), None)
    if report is None:
        return None
    progress.say("the results differ: looking for the reason")
    culprit = Suspect(model, options, replace(checks, providers=report.providers), inline=inline).find_culprit()
    return None if culprit is None or culprit.step == "unknown" else culprit


def _options(choices: dict[str, Any], progress: Progress) -> OptimizationOptions:
    verbose = choices["verbose"]
    return OptimizationOptions(
        patterns=with_rules(chosen_patterns(choices), choices["rewrite"]),
        drop=choices["drop"],
        provider=choices["provider"][0],
        max_iter=-1 if choices["max_rounds"] is None else choices["max_rounds"],
        strategy=choices["strategy"],
        tag_nodes=choices["tag"],
        strict=choices["strict"],
        verbose=11 if verbose > 1 else verbose,
        on_event=progress.event if progress.shown else None,  # refusals are not even made when nobody listens
    )


def _optimize(
    model: Path, target: Path, options: OptimizationOptions, inline: bool, progress: Progress
) -> tuple[Summary, onnx.ModelProto, GraphBuilder]:
    options.selected()  # a misspelt pattern is noticed before a large model is read
    progress.say("loading")
    start = perf_counter()
    builder = GraphBuilder(model, optimization_options=options, inline=inline)
    loaded = perf_counter()
    protect_weights(builder, target)
    before = builder.count_types()
    progress.say("optimizing")
    builder.optimize()
    proto = builder.to_onnx(optimize=False)
    summary = summarize(model, target, before, builder, (loaded - start, perf_counter() - loaded))
    return summary, proto, builder
