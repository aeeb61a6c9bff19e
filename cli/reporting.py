"""``xopt MODEL --report`` and ``xopt report A B``: pages about an optimization, and about any two models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from xoptim import GraphBuilder, OptimizationOptions, XoptimError, report
from xoptim.api.preparing import Source
from xoptim.bench import BenchOptions
from xoptim.proof import Proof
from xoptim.reporting.journal import Recorder
from xoptim.reporting.reports import HtmlReport, measured, report_of, subject_of

from .files import MODEL, OUTPUT, STANDARD_OUTPUT, writable
from .idle import COMPARISON, VALUES, idle_values, refuse_idle
from .pipeline import DIFFERENT, protect_weights
from .progress import Progress
from .summary import Summary
from .validation import check_choices, chosen_values, validation_options

_PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models."""


class PageRequest:
    """The page that ``--report FILE`` asks for, or none.

    Args:
        path: the file, ``None`` for no page.
        models: files that it must not replace.

    Raises:
        click.UsageError: the file cannot be written, or is a model.
        MissingLibraryError: a library of the report is not installed.
    """

    def __init__(self, path: Path | None, *models: Path) -> None:
        if path is not None and path.absolute() in {model.absolute() for model in models}:
            raise click.UsageError(f"--report {str(path)!r} would replace a model")
        self._path = None if path is None else writable(path)
        self._recorder = None if path is None else Recorder()

    def listening(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options of the optimization, with what the page needs to be recorded."""
        return options if self._recorder is None else self._recorder.listening(options)

    def loaded(self, target: Path, builder: GraphBuilder) -> None:
        """Called when a model is loaded, before any rewrite; raises for a target that holds weights of it."""
        protect_weights(builder, target)
        if self._recorder is not None:
            self._recorder.loaded(builder)

    def draw(self, subject: Path | Source, proof: Proof, summary: Summary, progress: Progress) -> HtmlReport | None:
        """The page, ``None`` without one.

        Args:
            subject: the original.
            proof: the result.
            summary: figures of both.
            progress: shows the step.
        """
        if self._path is None or self._recorder is None:
            return None
        progress.say("drawing the report")
        result = "standard output" if summary.target == STANDARD_OUTPUT else summary.target.name
        facts = replace(
            subject_of(proof.report, summary.model.name, result),
            sizes=(summary.bytes_before, proof.bytes_after),
            opsets=summary.opsets,
            latency=summary.latency,
        )
        if summary.latency is not None:
            original = subject.proto if isinstance(subject, Source) else subject
            try:
                facts = measured(facts, original, proof.proto, summary.latency.options)
            except XoptimError as error:  # the model is written all the same
                click.echo(f"xopt: warning: operators not measured: {error}", err=True)
        provider = proof.builder.optimization_options.provider
        return report_of(self._recorder.of(proof.builder.model), facts, provider)

    def save(self, page: HtmlReport | None) -> Path | None:
        """Write the page; returns its file."""
        return None if page is None or self._path is None else page.save(self._path)


@click.command("report")
@click.argument("first", type=MODEL)
@click.argument("second", type=MODEL)
@click.option("-o", "--output", type=OUTPUT, metavar="FILE", help="File to write (default: SECOND.html beside it).")
@click.option("--verify/--no-verify", default=True, show_default=True, help="Run both models and compare.")
@click.option("--benchmark", is_flag=True, help="Measure the time of a run of both, and of each operator.")
@click.option("--provider", default="cpu", show_default=True, help="cpu or cuda.")
@check_choices
def report_command(first: Path, second: Path, **choices: Any) -> int:
    """Draw FIRST and SECOND side by side, with the changes between them, as one HTML file.

    xopt MODEL --report FILE shows each rewrite of an optimization; here, changes are found by comparing. Exit code 1 when the
    results of the models differ.
    """
    target = writable(choices["output"] or second.with_name(f"{second.stem}.html"))
    if target.exists() and any(target.samefile(model) for model in (first, second)):
        raise click.UsageError(f"{str(target)!r} is one of the models")
    if not choices["verify"]:
        measured = () if choices["benchmark"] else ("provider", *VALUES)
        refuse_idle(dict.fromkeys((*COMPARISON, *measured), "with --no-verify"))
    refuse_idle(idle_values(choices))
    checks = validation_options({**choices, "provider": (choices["provider"],)})
    bench = BenchOptions(provider=choices["provider"], seconds=_PATIENCE, **chosen_values(choices))
    with Progress(enabled=True) as progress:
        progress.say("comparing")
        made = report(
            first, second, target, verify=checks if choices["verify"] else False, bench=bench if choices["benchmark"] else None
        )
    for each in made.validation:
        click.echo(f"validation  {', '.join(each.providers)}: {each.summary()}")
    click.echo(f"written     {target}")
    return DIFFERENT if any(each.status == "different" for each in made.validation) else 0


def report_option(command: Any) -> Any:
    """The option ``--report``."""
    return click.option(
        "--report", type=OUTPUT, metavar="FILE.html", help="Write a page with both graphs and every rewrite (docs/report.md)."
    )(command)
