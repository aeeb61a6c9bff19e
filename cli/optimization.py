"""``xopt MODEL``: load, optimize, validate, write, summarize."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from xoptim import OptimizationOptions, XoptimError
from xoptim.api.preparing import Source
from xoptim.bench import BenchOptions, BenchReport, bench
from xoptim.diagnose.hints import OpsetHint, OptionHint, opset_hint, option_hints
from xoptim.proof import Proof, ProofOptions, prove
from xoptim.tuning import SpeedCheck, keep_if_not_slower

from .choices import max_growth_option, opset_option
from .files import MODEL, OUTPUT, STANDARD_OUTPUT, check_folder, target_of
from .idle import COMPARISON, VALUES, idle_values, refuse_idle
from .pipeline import drafted, summarize, verdict, write
from .preparation import check_sizes_fit, chosen_preparation, preparation_options, prepared
from .progress import Progress
from .reporting import PageRequest, report_option
from .rules import rewrite_option, with_rules
from .selection import chosen_patterns, drop_option, selection_options
from .summary import print_summary
from .validation import check_choices, check_values_used, chosen_values, validation_options

PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models of ``--benchmark``."""


@click.command("optimize", context_settings={"allow_extra_args": True})
@click.argument("model", type=MODEL)
@click.option("-o", "--output", type=OUTPUT, help="File to write (default: MODEL.opt.onnx beside it).")
@click.option("--in-place", is_flag=True, help="Overwrite MODEL.")
@selection_options(default="default")
@rewrite_option
@drop_option
@opset_option
@click.option("--provider", multiple=True, default=("cpu",), show_default=True, help="cpu or cuda (repeatable).")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run both models and compare.")
@click.option(
    "--check",
    type=click.Choice(["end", "each"]),
    default="end",
    show_default=True,
    help="Compare the results of the model, or those of each rewrite as well (with --no-verify: those alone).",
)
@check_choices
@preparation_options
@click.option("--no-fold", is_flag=True, help="Compute no constants ahead of time.")
@click.option("--inline", is_flag=True, help="Replace calls of local functions by their bodies.")
@click.option("--outline", is_flag=True, help="Write blocks that repeat, such as layers, once: as local functions.")
@click.option("--drop-unused-inputs", is_flag=True, help="Remove inputs that nothing reads in the result.")
@click.option("--external-data", is_flag=True, help="Write weights to a file of their own.")
@click.option("--share-weights", is_flag=True, help="Refer to the file of MODEL's weights in place of copying it.")
@click.option(
    "--strategy",
    type=click.Choice(["priority", "largest"]),
    default="priority",
    show_default=True,
    help="Choice between overlapping matches: that of the earlier pattern, or that of more nodes.",
)
@click.option("--tag/--no-tag", default=True, show_default=True, help="Name patterns in the metadata of the nodes they make.")
@max_growth_option
@click.option("--max-rounds", type=click.IntRange(min=0), help="Most rounds of a phase.")
@click.option(
    "--strict", is_flag=True, help="A pattern that fails or is wrong, or a model that cannot be validated, is an error."
)
@click.option(
    "--only-if-faster",
    is_flag=True,
    help="Measure, and leave out patterns that make the model slower (see also: xopt tune).",
)
@click.option("--benchmark", is_flag=True, help="Measure the time of a run before and after.")
@report_option
@click.option("--dry-run", is_flag=True, help="Write no model.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("-v", "--verbose", count=True, help="-v a line a round, -vv the reasons of refusals.")
@click.option("-q", "--quiet", is_flag=True, help="Print only warnings and errors (and what --json asks for).")
@click.pass_context
def optimize_command(context: click.Context, /, model: Path, **choices: Any) -> int:
    """Optimize MODEL, prove that the result is equal, and write it.

    Exit code 0 when the written model was found equal, 1 when the models differ and nothing is written, 3 when it is written
    but not validated: onnxruntime cannot run MODEL, or its results are not evidence, or its weights do not fit into memory
    and it cannot be cut into sections. The summary gives the reason.
    """
    _check_alone(model, context.args, context.parent)
    refuse_idle(idle_options(choices))
    preparation = chosen_preparation(choices)
    target = target_of(model, choices["output"], choices["in_place"], streams=True)
    if not choices["dry_run"]:
        check_folder(target)
    page = PageRequest(choices["report"], model, target)
    is_streamed = target == STANDARD_OUTPUT
    if is_streamed and choices["as_json"]:
        raise click.UsageError("-o - and --json both write to standard output")
    if is_streamed and choices["external_data"]:
        raise click.UsageError("-o - writes the weights with the model; --external-data needs a file: -o FILE")
    quiet = choices["quiet"] or choices["as_json"]
    # Standard output is for the JSON or the model alone; -v then logs to standard error.
    log = redirect_stdout(sys.stderr) if choices["as_json"] or is_streamed else nullcontext()
    with log, drafted(target, choices) as draft, Progress(enabled=not quiet and not choices["verbose"]) as progress:
        how = ProofOptions(
            checks=validation_options(choices),
            whole=choices["verify"],
            each=choices["check"] == "each",
            bisect=not choices["strict"],
            inline=choices["inline"],
            on_loaded=partial(page.loaded, target),
            on_step=progress.say,
            draft=draft,
        )
        options = page.listening(_options(choices, progress))
        subject = prepared(model, preparation)
        proof = prove(subject, options, how)
        check_values_used(proof.reports, how.checks)
        check_sizes_fit(model, preparation, proof.reports, how.checks)
        summary = summarize(model, target, proof)
        if choices["only_if_faster"] and not summary.refusal(choices["strict"]):
            proof, speed = _no_slower(subject, proof, options, how, choices)
            summary = summarize(model, target, proof)
            summary.speed = speed
        if choices["benchmark"] and not summary.refusal(choices["strict"]):
            progress.say("measuring")
            summary.latency = _measured(subject, proof, choices)
        if not choices["quiet"] and not summary.refusal(choices["strict"]):
            progress.say("looking for options that would help")
            summary.hints = _hints(proof, _options(choices, progress))
        drawn = None if summary.refusal(choices["strict"]) else page.draw(subject, proof, summary, progress)
        # Nothing that takes long comes after it, so that an interrupted command has written nothing, as its message says.
        summary.written = write(proof, draft, target, summary, choices, progress)
        summary.page = page.save(drawn)
    if choices["as_json"]:
        click.echo(json.dumps(summary.to_json(), indent=2))
    elif not choices["quiet"]:
        print_summary(summary, to_stderr=is_streamed, verbose=bool(choices["verbose"]))
    return verdict(summary, choices["strict"])


def idle_options(choices: Mapping[str, Any]) -> dict[str, str]:
    """The parameters that change nothing beside others, each with the reason."""
    found = idle_values(choices)
    if choices["no_fold"]:
        found["max_growth"] = "with --no-fold"
    if choices["strip"] and choices["tag"]:
        found["tag"] = "with --strip"
    if choices.get("quiet") and not (choices.get("as_json") or choices.get("report")):
        found["benchmark"] = "with --quiet: its figures are in the summary"
    if not choices["verify"] and choices["check"] == "end":
        is_measured = choices["benchmark"] or choices["only_if_faster"]
        measured = () if is_measured else VALUES
        idle = [name for name in (*COMPARISON, *measured) if name in choices]
        found.update(dict.fromkeys(idle, "with --no-verify"))
    return found


def _check_alone(model: Path, others: Sequence[str], group: click.Context | None) -> None:
    """Raise for words behind the model, with the command that may be meant."""
    if others and group is not None and isinstance(group.command, click.Group) and others[0] in group.command.commands:
        raise click.UsageError(f"the command comes first: `xopt {others[0]} {model}`")
    if others:
        raise click.UsageError(
            f"unexpected {' '.join(others)!r} behind {str(model)!r}: `xopt {model} -o {others[0]}` writes there, "
            f"`xopt verify {model} {others[0]}` compares the two"
        )


def _no_slower(
    model: Path | Source, proof: Proof, options: OptimizationOptions, how: ProofOptions, choices: dict[str, Any]
) -> tuple[Proof, SpeedCheck | None]:
    """The result without the patterns that make it slower; the result itself, with a warning, when it cannot be measured."""
    bench_options = BenchOptions(provider=choices["provider"][0], **chosen_values(choices))
    try:
        return keep_if_not_slower(model, proof, options, how, bench_options, on_step=how.on_step)
    except XoptimError as error:
        click.echo(f"xopt: warning: not measured: {error}", err=True)
        return proof, None


def _measured(model: Path | Source, proof: Proof, choices: dict[str, Any]) -> BenchReport | None:
    """The times of the original and of the result, ``None`` with a warning when one of them cannot be run."""
    folders = {"original": proof.builder.model.base_dir, "result": proof.base_dir}
    original = model.proto if isinstance(model, Source) else model
    options = BenchOptions(
        provider=choices["provider"][0],
        seconds=PATIENCE,
        base_dirs={label: folder for label, folder in folders.items() if folder is not None},
        compare=False,  # the proof has done it
        loading=False,
        **chosen_values(choices),
    )
    try:
        return bench({"original": original, "result": proof.proto}, options)
    except XoptimError as error:
        click.echo(f"xopt: warning: not measured: {error}", err=True)
        return None


def _hints(proof: Proof, options: OptimizationOptions) -> list[OpsetHint | OptionHint]:
    """Options that would make the result smaller, without the patterns that were left out; none without the memory."""
    for culprit in proof.left_out:
        options = culprit.avoided_by(options)
    try:
        newer = opset_hint(proof.proto, options, proof.base_dir)
        sizes = next((run.dims for report in proof.reports for run in report.runs), {})
        others = option_hints(proof.proto, options, sizes, proof.base_dir)
    except MemoryError:
        return []
    return [*([] if newer is None else [newer]), *others]


def _options(choices: dict[str, Any], progress: Progress) -> OptimizationOptions:
    verbose = choices["verbose"]
    return OptimizationOptions(
        patterns=with_rules(chosen_patterns(choices), choices["rewrite"]),
        drop=choices["drop"],
        opset=choices["opset"],
        outline=choices["outline"],
        drop_unused_inputs=choices["drop_unused_inputs"],
        provider=choices["provider"][0],
        max_iter=-1 if choices["max_rounds"] is None else choices["max_rounds"],
        max_growth=choices["max_growth"],
        strategy=choices["strategy"],
        tag_nodes=choices["tag"] and not choices["strip"],
        constant_folding=not choices["no_fold"],
        strict=choices["strict"],
        verbose=11 if verbose > 1 else verbose,
        on_event=progress.event if progress.shown else None,  # without a listener, refusals are not constructed
    )
