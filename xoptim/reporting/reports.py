"""Reports of an optimization and of two models, each one HTML file that needs nothing else."""

import html
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from xoptim.bench.measure import bench as measure, profile
from xoptim.bench.options import BenchOptions
from xoptim.diagnose.report import OptimizationReport
from xoptim.graph.atomic_write import replace_file
from xoptim.graph.load import load_model
from xoptim.graph.sources import Source, size_of, title_of
from xoptim.reporting.drawing import draw
from xoptim.reporting.libraries import check_libraries
from xoptim.reporting.links import Journal, link, steps_between, twins_of
from xoptim.reporting.reports_facts import ReportSubject, facts_of
from xoptim.reporting.reports_misses import nearest_misses
from xoptim.reporting.reports_page import render
from xoptim.verification.judging.report import VerificationReport
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.protos import ModelLike
from xoptim.verification.verify import verify_models

_HEIGHT: Final = 760
"""Pixels of a report in a notebook."""


@dataclass(frozen=True, slots=True)
class HtmlReport:
    """A page that needs no other file and no network, and the comparisons of the two models."""

    html: str
    verification: tuple[VerificationReport, ...] = ()

    def save(self, path: str | Path) -> Path:
        """Write the page; returns the path.

        Raises `ModelError` when it cannot be written; an existing file is then unchanged.
        """
        target = Path(path)
        replace_file(target, self.html.encode())
        return target

    def _repr_html_(self) -> str:
        """The page in a frame of its own, for notebooks."""
        style = f"width: 100%; height: {_HEIGHT}px; border: 1px solid #8886; border-radius: 6px"
        return f'<iframe srcdoc="{html.escape(self.html)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"HtmlReport({len(self.html)} characters)"


def report_of(journal: Journal, subject: ReportSubject, provider: str = "cpu") -> HtmlReport:
    """The report of an optimization from its record, whose model must be optimized and in memory.

    Raises `XoptimError` when a library of the report is not installed.
    """
    after = draw(journal.model)
    links = link(journal.before, after, journal.steps, journal.folded)
    rewrites = {
        step.rewrite.name(): step.rewrite for step in journal.steps if step.rewrite is not None
    }
    facts = facts_of(subject, journal.before, after)
    page = render(
        facts,
        journal.before,
        after,
        links,
        nearest_misses(journal.model, provider),
        list(rewrites.values()),
    )
    return HtmlReport(page, tuple(subject.verification))


def subject_of(report: OptimizationReport, title: str, result: str) -> ReportSubject:
    """The names and figures of an optimization, from its report."""
    notes = [("dropped", str(culprit)) for culprit in report.dropped]
    notes += [("repeats", str(block)) for block in report.repetitions]
    return ReportSubject(
        title=title,
        result=result,
        exactness=report.exactness,
        verification=report.verification,
        notes=notes,
    )


def _compared(sources: tuple[Source, Source], checks: VerificationOptions) -> VerificationReport:
    """The comparison of two models, each with its external data."""
    first, second = sources
    options = replace(checks, original_dir=first.base_dir, optimized_dir=second.base_dir)
    return verify_models(_file(first), _file(second), options)


def report(
    before: Any,
    after: Any,
    path: str | Path | None = None,
    *,
    verify: bool | VerificationOptions = True,
    bench: BenchOptions | None = None,
    titles: tuple[str, str] | None = None,
) -> HtmlReport:
    """Show two models side by side, with the changes between them.

    Nodes with the same operator, attributes and result names count as unchanged. The metadata that
    ``xoptim.optimize`` writes names the patterns; its ``report="report.html"`` records every
    rewrite. A notebook displays the report, and ``save(path)`` writes it.

    Args:
        before: a model as for `xoptim.optimize`.
        after: another model.
        path: the file to write, if any.
        verify: whether to compare their results, or the options of the comparison.
        bench: options with which to measure both; by default they are not measured.
        titles: names of both; by default their file names.

    Raises:
        ModelError: a model cannot be read, or the page cannot be written.
        ChoiceError: sizes or values of the options do not fit the first model.
        MissingLibraryError: a library of the report is not installed.
        LoadError, FeedError, RunError: a model cannot be measured.
    """
    check_libraries()
    sources = Source(before), Source(after)
    models = [load_model(source.proto, source.base_dir) for source in sources]
    drawings = draw(models[0]), draw(models[1])
    twins = twins_of(*drawings)
    links = link(*drawings, steps_between(*drawings, twins), twins=twins)
    title, result = titles or (title_of(sources[0], "before"), title_of(sources[1], "after"))
    sizes = (size_of(sources[0]), size_of(sources[1]))
    opsets = (models[0].opsets.get("", 0), models[1].opsets.get("", 0))
    subject = ReportSubject(title=title, result=result, sizes=sizes, opsets=opsets)
    if verify is not False:
        checks = verify if isinstance(verify, VerificationOptions) else VerificationOptions()
        subject = replace(subject, verification=[_compared(sources, checks)])
    if bench is not None:
        subject = measured(subject, _file(sources[0]), _file(sources[1]), bench)
    misses = nearest_misses(models[1], "cpu" if bench is None else bench.provider)
    text = render(facts_of(subject, *drawings), *drawings, links, misses)
    page = HtmlReport(text, tuple(subject.verification))
    if path is not None:
        page.save(path)
    return page


def measured(
    subject: ReportSubject, before: ModelLike, after: ModelLike, options: BenchOptions
) -> ReportSubject:
    """The figures, with the times of both models and of each operator.

    Raises `XoptimError` when a model does not run.
    """
    models = {"original": before, "result": after}
    latency = subject.latency or measure(models, replace(options, compare=False, loading=False))
    profiles = profile(models, replace(options, seconds=min(options.seconds, 2.0)))
    return replace(subject, latency=latency, operators=list(profiles.values()))


def _file(source: Source) -> ModelLike:
    return Path(source.original) if source.kind == "path" else source.proto
