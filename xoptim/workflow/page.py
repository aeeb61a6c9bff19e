"""The page about an optimization: both graphs, every rewrite, and the figures."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import XoptimError
from xoptim.graph.sources import Source, title_of
from xoptim.optimizing.builder import GraphBuilder
from xoptim.reporting.links import Recorder
from xoptim.reporting.reports import HtmlReport, measured, report_of, subject_of
from xoptim.reporting.reports_facts import ReportSubject
from xoptim.workflow.placing import placing_of

if TYPE_CHECKING:
    from xoptim.workflow.outcome import Outcome

_LOGGER: Final = logging.getLogger("xoptim")


class Page:
    """A page that a job draws, and that `save` writes.

    Args:
        path: the file of the page.
        title: the name of the original; its file by default.
        result: the name of the result.

    Raises:
        MissingLibraryError: a library of the report is not installed.
    """

    def __init__(self, path: Path, *, title: str = "", result: str = "result") -> None:
        self._path = path
        self._title = title
        self._result = result
        self._recorder = Recorder()
        self._html: HtmlReport | None = None

    def listening(self, options: OptimizationOptions) -> OptimizationOptions:
        """The options of the optimization, with a listener that records it for the page."""
        return self._recorder.listening(options)

    def loaded(self, builder: GraphBuilder) -> None:
        """Begin the record of a model, when it is loaded and before any rewrite."""
        self._recorder.loaded(builder.model)

    def draw(self, source: Source | str | Path, outcome: Outcome) -> None:
        """Draw the page about the optimization before quantization; its model must be in memory."""
        floats = outcome.floats
        origin = Source.of(source)
        facts = self._facts(origin, outcome)
        journal = self._recorder.of(floats.builder.model)
        self._html = report_of(journal, facts, floats.builder.optimization_options.provider)

    def _facts(self, origin: Source, outcome: Outcome) -> ReportSubject:
        facts = replace(
            subject_of(outcome.floats.report, self._title or title_of(origin), self._result),
            sizes=(outcome.bytes_before, outcome.verified.bytes_after),
            opsets=outcome.opsets,
        )
        fitting = outcome.fitting
        if fitting is not None:
            placing = placing_of(fitting, outcome.floats.proto)
            facts = replace(
                facts,
                placing=placing,
                notes=[*facts.notes, (f"on {fitting.target.name}", fitting.verdict)],
            )
        if outcome.quantized is not None:
            return replace(facts, **outcome.quantized.figures())
        if outcome.latency is None:
            return facts
        facts = replace(facts, latency=outcome.latency)
        original = Path(origin.original) if origin.kind == "path" else origin.proto
        try:
            return measured(facts, original, outcome.verified.proto, outcome.latency.options)
        except XoptimError as error:  # the model is written without them
            _LOGGER.warning("operators not measured: %s", error)
            return facts

    def save(self) -> Path | None:
        """Write the page, if it was drawn; returns its file."""
        return None if self._html is None else self._html.save(self._path)
