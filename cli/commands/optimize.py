"""``xopt MODEL``: load, optimize, verify, write, summarize."""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import click
from click.core import ParameterSource

from xoptim import OptimizationOptions, tuning
from xoptim.api.advice import Advice
from xoptim.api.preparing import Source
from xoptim.bench import BenchOptions
from xoptim.diagnose.explanation import shell_path
from xoptim.integrations import genai
from xoptim.optimizing.plans import Draft, LoadPlan, Plan, Sink, VerifyPlan
from xoptim.optimizing.verified import VerifiedModel
from xoptim.targets import named
from xoptim.workflow.job import Job, JobOptions
from xoptim.workflow.outcome import Outcome

from ..certifying import CertifiedFile
from ..files import (
    MODEL,
    OUTPUT,
    STANDARD_OUTPUT,
    check_derived,
    check_folder,
    output_option,
    target_of,
)
from ..loosened import loosened_text, warn_of_loosened
from ..options import (
    choice,
    command,
    common,
    flag,
    json_option,
    opset_option,
    option,
    providers_option,
    refuse_idle,
    switch,
    target_option,
)
from ..pipeline import Weights, drafted, page_of, protect_weights, verdict, writer
from ..preparation import Changes, assume_from_model_option, assume_option, assumes_by_settings
from ..progress import Progress
from ..selection import SelectionWithRules, idle_includes, is_pass
from ..settings import used_settings
from ..startup import StartupFile, check_startup
from ..summary import Summary, print_summary
from ..tables import print_json
from ..targeting import PLACING, check_target
from ..terminal import say
from ..verification import COMPARISON, VALUES, Comparison, Lowering, verify_option

PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models of ``--benchmark``."""


def _growth(value: str | int) -> str:
    """The size of ``--max-growth``: the number of bytes that constant folding may add."""
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
    guard: bool = flag("Add nodes that fail when a run breaks an assumption.")
    assume_fitting: bool = flag(
        "Ignore assumptions about dimensions and inputs that MODEL does not have."
    )
    fast: bool = flag(
        "Same as --opset newest --include onnxruntime, for ONNX Runtime only. -O2 runs xopt tune.",
        "-O",
        "--fast",
    )
    opset: int | Literal["newest"] | None = opset_option()
    provider: tuple[str, ...] = providers_option()
    target: str = target_option()
    verify: bool = verify_option()
    check: Literal["end", "each"] = choice(
        "Verify the result, or also each rewrite.",
        "end",
        "each",
    )
    prove: bool = flag("Prove each rewrite for all sizes, where possible.")
    strict_proof: bool = flag("Apply only rewrites that are proved for all sizes.")
    certificate: Path | None = option(
        "Write the proofs to a file, which xopt verify checks again.",
        type=OUTPUT,
        metavar="FILE",
    )
    comparison: Comparison = field(default_factory=Comparison)
    changes: Changes = field(default_factory=Changes)
    lowering: Lowering = field(default_factory=Lowering)
    no_fold: bool = flag("Disable constant folding.")
    inline: bool = flag("Inline local functions.")
    outline: bool = flag("Write repeated layers once, as local functions.")
    drop_unused_inputs: bool = flag("Remove inputs that no node reads.")
    weights: Weights = field(default_factory=Weights)
    strategy: Literal["priority", "largest"] = choice(
        "Which of two overlapping matches to apply.",
        "priority",
        "largest",
    )
    tag: bool = switch("Record the pattern in the metadata of each new node.")
    max_growth: str | None = option(
        "Bytes that constant folding may add: 500kB, 10%, unlimited (default: the larger of 10% "
        "and 1 MB).",
        type=_growth,
        metavar="SIZE",
    )
    max_rounds: int | None = option(
        "Maximum number of rounds over the graph for each group of patterns.",
        type=click.IntRange(min=0),
    )
    strict: bool = flag("Write nothing if a pattern was dropped, or if the result is not verified.")
    genai: Path | None = option(
        "Write a decoder for onnxruntime-genai; its config.json is read from FOLDER.",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="FOLDER",
    )
    only_if_faster: bool = flag("Measure, and drop patterns that make the model slower.")
    benchmark: bool = flag("Measure the latency before and after.")
    report: Path | None = option(
        "Write an HTML report of both graphs and every rewrite.",
        type=OUTPUT,
        metavar="FILE.html",
    )
    dry_run: bool = flag("Write no model.")
    as_json: bool = json_option("Print the summary as JSON.")
    verbose: int = option(
        "-v lists operators, patterns and times; -vv also why patterns did not match.",
        "-v",
        "--verbose",
        count=True,
    )
    quiet: bool = flag("Print only warnings and errors.", "-q", "--quiet")

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        reasons = self.comparison.idle((*self.provider, self.target)) | self.lowering.idle()
        if self.lowering.precision or self.target:
            word = "--precision" if self.lowering.precision else "--target"
            unproved = ("strict_proof", "certificate")
            reasons |= dict.fromkeys(unproved, f"with {word}, whose rewrites are not proved")
        if self.dry_run:
            reasons["certificate"] = "with --dry-run, which writes no model"
        if self.lowering.precision:
            reasons["only_if_faster"] = "with --precision, which measures each operator"
        if not self.assume:
            reasons["assume_fitting"] = "without --assume"
        if self.target:
            reasons["genai"] = "with --target, which fits the model to another runtime"
        if self.genai is not None and self.lowering.is_for_startup:
            reasons["goal"] = "with --genai, whose session settings are in genai_config.json"
        if self.no_fold:
            reasons["max_growth"] = "with --no-fold"
        if self.changes.strip and self.tag:
            reasons["tag"] = "with --strip"
        if self.quiet and not (self.as_json or self.report):
            reasons["benchmark"] = "with --quiet: its figures are in the summary"
        if not self.verify and self.check == "end":
            idle_values = () if self.measures or self.lowering.precision else VALUES
            shared = PLACING if self.target else ()
            reasons.update(
                dict.fromkeys({*COMPARISON, *idle_values} - {*shared}, "with --no-verify")
            )
        return reasons

    @property
    def measures(self) -> bool:
        """Whether times are measured: only then may a dimension have several sizes."""
        return self.benchmark or self.only_if_faster or self.lowering.is_for_startup

    def verified(self) -> VerifyPlan:
        """The options of the verification."""
        return VerifyPlan(
            checks=self.comparison.read(self.provider, runs=self.verify, several=self.measures),
            whole=self.verify,
            each=self.check == "each",
            proves=self.prove,
            refuses_unproved=self.strict_proof,
            certifies=self.certificate is not None,
            bisect=not self.strict,
        )

    def chosen(self) -> SelectionWithRules:
        """The selection of patterns.

        With ``--fast``, the selection has the patterns that write contrib operators of onnxruntime,
        unless the target runs standard operators only.
        """
        is_standard = bool(self.target) and named(self.target).needs.standard_operators
        presets = ("onnxruntime",) if self.fast and not is_standard else ()
        return replace(self.selection, include=(*self.selection.include, *presets))

    def optimization(self, progress: Progress) -> OptimizationOptions:
        """The options of the optimizer."""
        values = {
            **common(OptimizationOptions, self),
            "patterns": self.chosen().with_rules(),
            "opset": self.opset or ("newest" if self.fast else None),
            "drop": self.selection.drop,
            "provider": self.provider[0],
            "cpu": self.lowering.cpu,
            "max_iter": -1 if self.max_rounds is None else self.max_rounds,
            "tag_nodes": self.tag and not self.changes.strip,
            "constant_folding": not self.no_fold,
            "verbose": 11 if self.verbose > 1 else self.verbose,
            # Without a listener, the optimizer does not construct refusals.
            "on_event": progress.event if progress.shown else None,
        }
        return OptimizationOptions(**values)

    def job(self, progress: Progress) -> JobOptions:
        """The steps of the command, except the steps that need the file of the result."""
        values, samples = self.comparison.values, self.comparison.values.samples()
        provider = self.provider[0]
        return JobOptions(
            preparation=self.changes.read(),
            leaves_unfit_assumptions=self.assume_fitting or assumes_by_settings(),
            optimization=self.optimization(progress),
            precision=self.lowering.read(samples, values.seed),
            keep_if_faster=(
                tuning.NotSlower(BenchOptions(provider=provider, **values.measured()))
                if self.only_if_faster
                else None
            ),
            benchmark=self.measurement() if self.benchmark else None,
            hints=None if self.quiet else self.comparison.read(["cpu"], several=True),
        )

    @property
    def storage(self) -> Weights:
        """The options for the weights: with ``--for startup``, external data next to the model."""
        is_external = self.weights.external_data or self.lowering.is_for_startup
        return replace(self.weights, external_data=is_external)

    def measurement(self) -> BenchOptions:
        """The options of ``--benchmark``."""
        return BenchOptions(
            provider=self.provider[0],
            seconds=PATIENCE,
            compare=False,  # the verification has done it
            loading=False,
            assume=self.assume,
            assume_from_model=self.assume_from_model,
            **self.comparison.values.measured(),
        )


@command("optimize", extra=True, model=MODEL)
def optimize_command(context: click.Context, model: Path, choices: Choices) -> int:
    """Optimize MODEL, verify the result, and write it.

    Exit code 1 when the models differ: nothing is written. Exit code 3 when the result is written
    but not verified. The summary gives the reason: for example, ONNX Runtime cannot run MODEL, its
    outputs are random, the weights do not fit into memory, or the --target could not run it.
    """
    _check_alone(model, context.args, context.parent)
    _refuse_quiet_and_verbose(context)
    refuse_idle(choices.idle())
    included = choices.selection.include
    if choices.genai is not None:
        choices = _for_genai(choices, choices.genai, model)
    check_target(choices.target, choices.provider, needs_contrib=choices.lowering.needs_contrib)
    target = _checked_target(model, choices)
    page = page_of(choices.report, model, target)
    certified = CertifiedFile.of(choices.certificate, model, target, choices.changes)
    is_streamed = target == STANDARD_OUTPUT
    quiet = choices.quiet or choices.as_json
    # Standard output is for the JSON or the model alone; -v then logs to standard error.
    log = redirect_stdout(sys.stderr) if choices.as_json or is_streamed else nullcontext()
    progress = Progress(enabled=not quiet and not choices.verbose)
    with (
        log,
        drafted(
            target, choices.storage, dry_run=choices.dry_run, in_place=choices.in_place
        ) as draft,
        progress,
    ):
        load = LoadPlan(inline=choices.inline, on_loaded=partial(protect_weights, target=target))
        sink = Sink(on_step=progress.say, draft=draft)
        plan = Plan(load=load, verify=choices.verified(), sink=sink)
        startup = StartupFile(target, choices.measurement, progress.say)
        write = None if choices.dry_run else _writer(draft, target, choices, startup)
        outcome = Job(
            model, replace(choices.job(progress), plan=plan, page=page, write=write)
        ).run()
        if page is not None:
            outcome = replace(outcome, page=page.save())
        if certified is not None:
            outcome = certified.write(outcome)
    _warn(outcome, included)
    summary = Summary(model, outcome, used_settings(context), loosened_text())
    _print(summary, choices, to_stderr=is_streamed)
    if startup.summary and not (choices.as_json or choices.quiet):
        say(f"session       {startup.summary}")
    return verdict(outcome)


def _print(summary: Summary, choices: Choices, *, to_stderr: bool) -> None:
    """Print the summary in the requested form."""
    if choices.as_json or choices.quiet:
        warn_of_loosened()
    if choices.as_json:
        print_json(summary.document())
    elif not choices.quiet:
        print_summary(summary, to_stderr=to_stderr, verbose=bool(choices.verbose))
        if choices.genai is not None:
            _say_layers(summary.outcome)
        if not (choices.lowering.precision or choices.target):
            choices.comparison.values.say_first()


def _say_layers(outcome: Outcome) -> None:
    """Say how many layers have the attention operator of onnxruntime-genai, and why not all."""
    layers = genai.fused_layers(outcome.verified.proto)
    say(f"attention     {layers.summary()}")
    for reason in layers.reasons:
        say(f"              {reason}")


def _warn(outcome: Outcome, included: Sequence[str]) -> None:
    """Warn of times that were not measured, and of ``--include`` without effect."""
    if outcome.unmeasured is not None:
        say(f"xopt: warning: not measured: {outcome.unmeasured}", err=True)
    for name in idle_includes(included, outcome.report.applied):
        hint = "" if is_pass(name) else f"; `xopt explain MODEL {name}` says why"
        say(f"xopt: warning: {Advice('include', name)} applied nowhere{hint}", err=True)


def _for_genai(choices: Choices, folder: Path, model: Path) -> Choices:
    """The options of the command line, and the options that ``--genai`` implies."""
    assumptions = genai.assumptions_for(Source(model).proto, folder)
    included = (*choices.selection.include, *genai.PATTERNS)
    return replace(
        choices,
        assume=(*choices.assume, *assumptions),
        fast=True,
        selection=replace(choices.selection, include=included),
    )


def _writer(
    draft: Draft, target: Path, choices: Choices, startup: StartupFile
) -> Callable[[VerifiedModel], Sequence[Path]]:
    """A function that writes a result, and the settings file of its session or of genai, if any."""
    folder = choices.genai
    if choices.lowering.is_for_startup:
        return writer(draft, target, startup)
    if folder is None:
        return writer(draft, target)

    def configuration(verified: VerifiedModel) -> dict[Path, bytes]:
        config = genai.config_of(verified.proto, folder, target.name)
        return {genai.config_path(target): genai.config_text(config).encode()}

    return writer(draft, target, configuration)


def _checked_target(model: Path, choices: Choices) -> Path:
    """The file of the result.

    Raises `click.UsageError`, before any work, when the file cannot be written, or does not fit the
    options.
    """
    target = target_of(model, choices.output, choices.in_place, streams=True)
    if not choices.dry_run:
        check_folder(target)
        if choices.genai is not None:
            check_derived(genai.config_path(target))
    if choices.lowering.is_for_startup:
        check_startup(target, choices.provider, choices.target)
    if target == STANDARD_OUTPUT and choices.as_json:
        raise click.UsageError("-o - and --json both write to standard output")
    if target == STANDARD_OUTPUT and choices.genai is not None:
        raise click.UsageError(
            "--genai writes genai_config.json next to the model; use -o FILE in place of -o -"
        )
    if target == STANDARD_OUTPUT and choices.weights.external_data:
        raise click.UsageError(
            "--external-data writes a file next to the model; use -o FILE in place of -o -"
        )
    return target


def _refuse_quiet_and_verbose(context: click.Context) -> None:
    """Raise when the command line has ``--quiet`` and ``--verbose``.

    A settings file may set one of the options, and the command line the other.
    """
    sources = {context.get_parameter_source(name) for name in ("quiet", "verbose")}
    if sources == {ParameterSource.COMMANDLINE}:
        raise click.UsageError("--quiet and --verbose exclude each other")


def _check_alone(model: Path, words: Sequence[str], group: click.Context | None) -> None:
    """Raise for words after the model; the message names the command that may be meant."""
    if (
        words
        and group is not None
        and isinstance(group.command, click.Group)
        and words[0] in group.command.commands
    ):
        raise click.UsageError(f"the command comes first: `xopt {words[0]} {shell_path(model)}`")
    if words:
        file, second = shell_path(model), shell_path(words[0])
        raise click.UsageError(
            f"unexpected {' '.join(words)!r} after {str(model)!r}: `xopt {file} -o {second}` "
            f"writes there, `xopt verify {file} {second}` compares the two"
        )
