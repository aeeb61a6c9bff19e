"""The page that ``xopt MODEL --report FILE`` writes."""

from dataclasses import replace
from pathlib import Path

import click

from xoptim import GraphBuilder, OptimizationOptions, XoptimError
from xoptim.api.preparing import Source
from xoptim.optimizing.proof import Proof
from xoptim.reporting.links import Recorder
from xoptim.reporting.reports import HtmlReport, measured, report_of, subject_of

from .files import STANDARD_OUTPUT, writable
from .pipeline import protect_weights
from .progress import Progress
from .summary import Summary


class PageRequest:
    """The page that ``--report FILE`` asks for, or none.

    Raises `click.UsageError` when the file cannot be written or is one of the ``models``, and `MissingLibraryError` when a
    library of the report is not installed.
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
            self._recorder.loaded(builder.model)

    def draw(self, subject: Path | Source, proof: Proof, summary: Summary, progress: Progress) -> HtmlReport | None:
        """The page about an original and its result in floats, ``None`` without one."""
        if self._path is None or self._recorder is None:
            return None
        progress.say("drawing the report")
        result = "standard output" if summary.target == STANDARD_OUTPUT else summary.target.name
        facts = replace(
            subject_of(proof.report, summary.model.name, result),
            sizes=(summary.bytes_before, proof.bytes_after),
            opsets=summary.opsets,
            latency=None if summary.lowered else summary.latency,
            **({} if summary.lowered is None else summary.lowered.figures()),
        )
        if facts.latency is not None and summary.latency is not None:
            original = subject.proto if isinstance(subject, Source) else subject
            try:
                facts = measured(facts, original, proof.proto, summary.latency.options)
            except XoptimError as error:  # the model is written all the same
                click.echo(f"xopt: warning: operators not measured: {error}", err=True)
        return report_of(self._recorder.of(proof.builder.model), facts, proof.builder.optimization_options.provider)

    def save(self, page: HtmlReport | None) -> Path | None:
        """Write the page; returns its file."""
        return None if page is None or self._path is None else page.save(self._path)
