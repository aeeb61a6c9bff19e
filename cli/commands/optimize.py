"""``xopt MODEL``: load, optimize, validate, write, summarize."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import click

from xoptim import OptimizationOptions, ValidationOptions, XoptimError
from xoptim.api.preparing import Source
from xoptim.bench import BenchOptions, BenchReport, bench
from xoptim.diagnose.hints import OpsetHint, OptionHint, opset_hint, option_hints
from xoptim.optimizing.proof import Proof, ProofOptions, prove
from xoptim.precision.lowering import in_floats, lower
from xoptim.precision.options import PrecisionOptions
from xoptim.tuning import SpeedCheck, keep_if_not_slower

from ..files import MODEL, OUTPUT, STANDARD_OUTPUT, check_folder, output_option, target_of
from ..options import choice, command, common, flag, json_option, opset_option, option, providers_option, refuse_idle, switch
from ..pipeline import PageRequest, Weights, drafted, summarize, verdict, write
from ..preparation import Changes, assume_from_model_option, assume_option, check_sizes_fit, fitting, prepared
from ..progress import Progress
from ..selection import SelectionWithRules
from ..settings import used_settings
from ..summary import Summary, print_summary
from ..tables import print_json
from ..terminal import say
from ..validation import COMPARISON, VALUES, Comparison, Lowering, check_values_used, verify_option

PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models of ``--benchmark``."""


def _growth(value: str | int) -> str:
    """Bytes that folding may add."""
    try:
        OptimizationOptions(max_growth=value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return str(value)


@dataclass(frozen=True)
class Choices:
    """The options of the command, in the order of the help."""

    output: Path | None = output_option()
    in_place: bool = flag("Overwrite MODEL.")
    selection: SelectionWithRules = field(default_factory=SelectionWithRules)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    guard: bool = flag("Write nodes that fail in a run that breaks an assumption (docs/assumptions.md).")
    assume_fitting: bool = flag("Leave out assumptions about sizes and inputs that MODEL lacks, with a line for each.")
    fast: bool = flag(
        "The same as --opset newest --include onnxruntime: fast in onnxruntime, and in no other runtime; `xopt fast MODEL`. "
        "-O2 is `xopt tune`: by measuring, for this machine.",
        "-O",
        "--fast",
    )
    opset: int | Literal["newest"] | None = opset_option()
    provider: tuple[str, ...] = providers_option()
    verify: bool = verify_option()
    check: Literal["end", "each"] = choice(
        "Compare the results of the model, or also of each rewrite (with --no-verify: only of each rewrite).", "end", "each"
    )
    comparison: Comparison = field(default_factory=Comparison)
    changes: Changes = field(default_factory=Changes)
    lowering: Lowering = field(default_factory=Lowering)
    no_fold: bool = flag("Compute no constants ahead of time.")
    inline: bool = flag("Replace calls of local functions by their bodies.")
    outline: bool = flag("Write blocks that repeat, such as layers, once: as local functions.")
    drop_unused_inputs: bool = flag("Remove inputs that nothing reads in the result.")
    weights: Weights = field(default_factory=Weights)
    strategy: Literal["priority", "largest"] = choice(
        "Where matches overlap, prefer the earlier pattern, or the match with more nodes.", "priority", "largest"
    )
    tag: bool = switch("Name patterns in the metadata of the nodes they make.")
    max_growth: str | None = option(
        "Bytes that folding may add: 500kB, 10% or unlimited (default: 10% or 1 MB, whichever is more).",
        type=_growth,
        metavar="SIZE",
    )
    max_rounds: int | None = option("Most rounds of a phase.", type=click.IntRange(min=0))
    strict: bool = flag("A pattern that fails or is wrong, or a model that cannot be validated, is an error.")
    only_if_faster: bool = flag("Measure, and leave out patterns that make the model slower (see also: xopt tune).")
    benchmark: bool = flag("Measure the time of a run before and after.")
    report: Path | None = option(
        "Write a page with both graphs and every rewrite (docs/report.md).", type=OUTPUT, metavar="FILE.html"
    )
    dry_run: bool = flag("Write no model.")
    as_json: bool = json_option("Print the summary as JSON.")
    verbose: int = option(
        "-v each operator, pattern and hint, and a line a round; -vv the reasons of refusals.", "-v", "--verbose", count=True
    )
    quiet: bool = flag("Print only warnings and errors (and what --json asks for).", "-q", "--quiet")

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect beside others, each with the reason."""
        found = self.comparison.idle(self.provider) | self.lowering.idle()
        if self.lowering.precision:
            found["only_if_faster"] = "with --precision, which measures each product"
        if not self.assume:
            found["assume_fitting"] = "without --assume"
        if self.no_fold:
            found["max_growth"] = "with --no-fold"
        if self.changes.strip and self.tag:
            found["tag"] = "with --strip"
        if self.quiet and not (self.as_json or self.report):
            found["benchmark"] = "with --quiet: its figures are in the summary"
        if not self.verify and self.check == "end":
            measured = () if self.benchmark or self.only_if_faster or self.lowering.precision else VALUES
            found.update(dict.fromkeys((*COMPARISON, *measured), "with --no-verify"))
        return found

    def proof(self) -> ProofOptions:
        """The options of the proof."""
        return ProofOptions(
            checks=self.comparison.read(self.provider, runs=self.verify, several=self.benchmark or self.only_if_faster),
            whole=self.verify,
            each=self.check == "each",
            bisect=not self.strict,
            inline=self.inline,
        )

    def chosen(self) -> SelectionWithRules:
        """The patterns, those that write operators of onnxruntime included where it is to be fast."""
        further = ("onnxruntime",) if self.fast else ()
        return replace(self.selection, include=(*self.selection.include, *further))

    def optimization(self, progress: Progress) -> OptimizationOptions:
        """The options of the optimizer."""
        given = {
            **common(OptimizationOptions, self),
            "patterns": self.chosen().with_rules(),
            "opset": self.opset or ("newest" if self.fast else None),
            "drop": self.selection.drop,
            "provider": self.provider[0],
            "max_iter": -1 if self.max_rounds is None else self.max_rounds,
            "tag_nodes": self.tag and not self.changes.strip,
            "constant_folding": not self.no_fold,
            "verbose": 11 if self.verbose > 1 else self.verbose,
            "on_event": progress.event if progress.shown else None,  # without a listener, refusals are not constructed
        }
        return OptimizationOptions(**given)


@command("optimize", extra=True, model=MODEL)
def optimize_command(context: click.Context, model: Path, choices: Choices) -> int:
    """Optimize MODEL, prove that the result is equal, and write it.

    Exit code 0 when the written model was found equal, 1 when the models differ and nothing is written, 3 when it is written
    but not validated: onnxruntime cannot run MODEL, or its results are not evidence, or its weights do not fit into memory
    and it cannot be cut into sections. The summary gives the reason.
    """
    _check_alone(model, context.args, context.parent)
    refuse_idle(choices.idle())
    preparation = choices.changes.read()
    target = _checked_target(model, choices)
    page = PageRequest(choices.report, model, target)
    is_streamed = target == STANDARD_OUTPUT
    quiet = choices.quiet or choices.as_json
    # Standard output is for the JSON or the model alone; -v then logs to standard error.
    log = redirect_stdout(sys.stderr) if choices.as_json or is_streamed else nullcontext()
    progress = Progress(enabled=not quiet and not choices.verbose)
    with log, drafted(target, choices.weights, dry_run=choices.dry_run, in_place=choices.in_place) as draft, progress:
        how = replace(choices.proof(), on_loaded=partial(page.loaded, target), on_step=progress.say, draft=draft)
        subject = prepared(model, preparation)
        choices = replace(choices, assume=fitting(subject, choices.assume, always=choices.assume_fitting))
        options = page.listening(choices.optimization(progress))
        precision = choices.lowering.read(choices.comparison.values.samples(), choices.comparison.values.seed)
        floats = proof = prove(subject, options if precision is None else in_floats(options), how)
        check_values_used(proof.reports, how.checks)
        check_sizes_fit(model, preparation, proof.reports, how.checks)
        summary = summarize(model, target, proof)
        if precision is not None and not summary.refusal(choices.strict):
            proof = _lowered(summary, proof, options, how, precision)
        if choices.only_if_faster and not summary.refusal(choices.strict):
            proof, speed = _no_slower(subject, proof, options, how, choices)
            summary = summarize(model, target, proof)
            summary.speed, floats = speed, proof
        if not summary.refusal(choices.strict):
            _add_figures(summary, subject, proof, choices, progress)
        drawn = None if summary.refusal(choices.strict) else page.draw(subject, floats, summary, progress)
        # Nothing slow comes after this, so that an interrupted command has written nothing, as its message says.
        summary.written = write(proof, draft, summary, progress, strict=choices.strict, dry_run=choices.dry_run)
        summary.page = page.save(drawn)
    summary.settings = used_settings(context)
    if choices.as_json:
        print_json(summary.to_json())
    elif not choices.quiet:
        print_summary(summary, to_stderr=is_streamed, verbose=bool(choices.verbose))
    return verdict(summary, choices.strict)


def _checked_target(model: Path, choices: Choices) -> Path:
    """The file of the result; raises before any work when it cannot be written, or not with these options."""
    target = target_of(model, choices.output, choices.in_place, streams=True)
    if not choices.dry_run:
        check_folder(target)
    if target == STANDARD_OUTPUT and choices.as_json:
        raise click.UsageError("-o - and --json both write to standard output")
    if target == STANDARD_OUTPUT and choices.weights.external_data:
        raise click.UsageError("-o - writes the weights with the model; --external-data needs a file: -o FILE")
    return target


def _add_figures(summary: Summary, subject: Path | Source, proof: Proof, choices: Choices, progress: Progress) -> None:
    """Add the measurements and the hints that the options ask for."""
    if choices.benchmark:
        progress.say("measuring")
        summary.latency = _measured(subject, proof, choices)
    if not choices.quiet:
        progress.say("looking for options that would help")
        summary.hints = _hints(proof, choices.optimization(progress), choices.comparison.read(["cpu"], several=True))


def _check_alone(model: Path, others: Sequence[str], group: click.Context | None) -> None:
    """Raise for words after the model, naming the command that may be meant."""
    if others and group is not None and isinstance(group.command, click.Group) and others[0] in group.command.commands:
        raise click.UsageError(f"the command comes first: `xopt {others[0]} {model}`")
    if others:
        raise click.UsageError(
            f"unexpected {' '.join(others)!r} after {str(model)!r}: `xopt {model} -o {others[0]}` writes there, "
            f"`xopt verify {model} {others[0]}` compares the two"
        )


def _lowered(
    summary: Summary, proof: Proof, options: OptimizationOptions, how: ProofOptions, precision: PrecisionOptions
) -> Proof:
    """The result with fewer bits, which the summary describes."""
    summary.lowered = lower(proof, options, how, precision)
    summary.proof, summary.after = summary.lowered.proof, summary.lowered.proof.builder.count_types()
    summary.report = summary.lowered.report(summary.report)
    return summary.proof


def _no_slower(
    model: Path | Source, proof: Proof, options: OptimizationOptions, how: ProofOptions, choices: Choices
) -> tuple[Proof, SpeedCheck | None]:
    """The result without the patterns that make it slower; the result itself, with a warning, when it cannot be measured."""
    bench_options = BenchOptions(provider=choices.provider[0], **choices.comparison.values.measured())
    try:
        return keep_if_not_slower(model, proof, options, how, bench_options, on_step=how.on_step)
    except XoptimError as error:
        say(f"xopt: warning: not measured: {error}", err=True)
        return proof, None


def _measured(model: Path | Source, proof: Proof, choices: Choices) -> BenchReport | None:
    """The times of the original and of the result, ``None`` with a warning when one of them cannot be run."""
    folders = {"original": proof.builder.model.base_dir, "result": proof.base_dir}
    original = model.proto if isinstance(model, Source) else model
    options = BenchOptions(
        provider=choices.provider[0],
        seconds=PATIENCE,
        base_dirs={label: folder for label, folder in folders.items() if folder is not None},
        compare=False,  # the proof has done it
        loading=False,
        assume=choices.assume,
        assume_from_model=choices.assume_from_model,
        **choices.comparison.values.measured(),
    )
    try:
        return bench({"original": original, "result": proof.proto}, options)
    except XoptimError as error:
        say(f"xopt: warning: not measured: {error}", err=True)
        return None


def _hints(proof: Proof, options: OptimizationOptions, checks: ValidationOptions) -> list[OpsetHint | OptionHint]:
    """Options that would make the result smaller, without the patterns that were left out; none without the memory."""
    for culprit in proof.left_out:
        options = culprit.avoided_by(options)
    try:
        newer = opset_hint(proof.proto, options, proof.base_dir)
        sizes = next((run.dims for report in proof.reports for run in report.runs), {})
        others = option_hints(proof.proto, options, sizes, proof.base_dir, checks)
    except MemoryError:
        return []
    found: list[OpsetHint | OptionHint] = [*([] if newer is None else [newer]), *others]
    return sorted(found, key=lambda hint: -hint.nodes)
