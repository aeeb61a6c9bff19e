"""``xopt MODEL``: load, optimize, validate, write, summarize."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext, redirect_stdout
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import onnx

from xoptim import Exactness, GraphBuilder, ModelError, OptimizationOptions, save_proto
from xoptim.validate import ValidationOptions, ValidationReport

from .progress import Progress
from .summary import Summary, print_summary
from .validation import check_choices, compare, validation_options

DIFFERENT = 1


@click.command("optimize")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: MODEL.opt.onnx beside it).")
@click.option("--in-place", is_flag=True, help="Overwrite MODEL.")
@click.option("--patterns", default="default", show_default=True, help='Selection such as "default+onnxruntime-Gelu".')
@click.option("--drop", multiple=True, metavar="NAME", help="Leave a pattern out (repeatable).")
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run both models and compare.")
@check_choices
@click.option("--inline", is_flag=True, help="Replace calls of local functions by their bodies.")
@click.option("--external-data", is_flag=True, help="Write weights to a file of their own.")
@click.option("--max-rounds", type=click.IntRange(min=0), help="Most rounds of a phase.")
@click.option("--strict", is_flag=True, help="A pattern that fails, or a model that cannot be validated, is an error.")
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("-v", "--verbose", count=True, help="-v a line a round, -vv why patterns were refused.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
def optimize_command(model: Path, **choices: Any) -> int:
    """Optimize MODEL, prove it equal, write it."""
    target = _target(model, choices["output"], choices["in_place"])
    quiet = choices["quiet"] or choices["as_json"]
    # Standard output is for the JSON alone; what -v logs goes to standard error then.
    log = redirect_stdout(sys.stderr) if choices["as_json"] else nullcontext()
    with log, Progress(enabled=not quiet and not choices["verbose"]) as progress:
        options = _options(choices, progress)
        checks = validation_options(choices)
        summary, proto, builder = _optimize(model, target, options, choices["inline"], progress)
        if choices["verify"]:
            progress.say("validating")
            summary.reports = _validate(model, proto, builder, checks, summary.exactness)
        summary.written = _write(proto, target, builder, summary, choices, progress)
    if choices["as_json"]:
        click.echo(json.dumps(summary.to_json(), indent=2))
    elif not choices["quiet"]:
        print_summary(summary)
    return _verdict(summary, choices["strict"])


def _target(model: Path, output: Path | None, in_place: bool) -> Path:
    if in_place and output is not None:
        raise click.UsageError("--in-place and --output exclude each other")
    if in_place:
        return model
    target = output or model.with_name(f"{model.stem}.opt.onnx")
    if target.exists() and model.exists() and target.samefile(model):
        raise click.UsageError(f"{str(target)!r} is the input; use --in-place to overwrite it")
    if target.is_dir():
        raise click.UsageError(f"{str(target)!r} is a folder; give a file name")
    if not target.parent.is_dir():
        raise click.UsageError(f"the folder {str(target.parent)!r} does not exist; make it first")
    return target


def _options(choices: dict[str, Any], progress: Progress) -> OptimizationOptions:
    verbose = choices["verbose"]
    return OptimizationOptions(
        patterns=choices["patterns"],
        drop=choices["drop"],
        provider=choices["provider"][0],
        max_iter=-1 if choices["max_rounds"] is None else choices["max_rounds"],
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
    _protect_weights(builder, target)
    before = builder.count_types()
    progress.say("optimizing")
    builder.optimize()
    proto = builder.to_onnx(optimize=False)
    optimized = perf_counter()
    report = builder.report()
    summary = Summary(
        model=model,
        target=target,
        before=before,
        after=builder.count_types(),
        bytes_before=model.stat().st_size + _external_bytes(builder.graph.source),
        applied=report.applied,
        exactness=report.exactness,
        load_seconds=loaded - start,
        optimize_seconds=optimized - loaded,
    )
    return summary, proto, builder


def _protect_weights(builder: GraphBuilder, target: Path) -> None:
    """Refuse a target that holds weights of the input."""
    tensors = (tensor for graph in builder.model.graphs() for tensor in graph.initializers.values())
    if target.exists() and any(t.is_external and t.external_location()[0] == target.resolve() for t in tensors):
        raise click.UsageError(f"{str(target)!r} holds weights of the input; write somewhere else")


def _validate(
    model: Path, proto: onnx.ModelProto, builder: GraphBuilder, checks: ValidationOptions, exactness: Exactness
) -> list[ValidationReport]:
    """One report for each provider."""
    folder = builder.model.base_dir
    reports = []
    for provider in checks.providers:
        each = replace(checks, providers=(provider,), exactness=exactness, optimized_dir=folder)
        reports.append(compare(model, proto, each))
    return reports


def _write(
    proto: onnx.ModelProto, target: Path, builder: GraphBuilder, summary: Summary, choices: dict[str, Any], progress: Progress
) -> list[Path]:
    refused = any(r.status == "different" or (choices["strict"] and not r.ok) for r in summary.reports)
    if refused or choices["dry_run"]:
        summary.bytes_after = None if refused else proto.ByteSize() + _external_bytes(proto.graph)
        return []
    progress.say("writing")
    written = save_proto(proto, target, builder.model.base_dir, external=choices["external_data"] or None)
    if target not in written:
        raise ModelError(f"{str(target)!r} was not written")
    summary.bytes_after = target.stat().st_size + _external_bytes(proto.graph)
    return written


def _external_bytes(graph: onnx.GraphProto | None) -> int:
    """Bytes of the weights of a graph that are in files of their own."""
    tensors = graph.initializer if graph is not None else ()
    return sum(int(entry.value) for tensor in tensors for entry in tensor.external_data if entry.key == "length")


def _verdict(summary: Summary, strict: bool) -> int:
    for report in summary.reports:
        if report.status == "different":
            names = ", ".join(summary.applied) or "none"
            click.echo(f"xopt: error: {report.summary()}; nothing was written; patterns applied: {names}", err=True)
            return DIFFERENT
        if strict and not report.ok:
            click.echo(f"xopt: error: {report.summary()}; nothing was written because of --strict", err=True)
            return DIFFERENT
    return 0
