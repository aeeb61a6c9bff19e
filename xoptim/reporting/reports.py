# ruff: noqa: RUF001 - minus and multiplication signs appear in figures
"""Reports of an optimization and of two models, each one HTML file that needs nothing else."""

import base64
import gzip
import hashlib
import html
import inspect
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from xoptim.bench.measure import OperatorTime, bench as measure, profile
from xoptim.bench.options import BenchOptions
from xoptim.bench.rounds import BenchReport, bytes_text, circumstances, milliseconds
from xoptim.catalogue.discovery import installed_patterns
from xoptim.diagnose.explain import Explainer
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.hints import may_match
from xoptim.diagnose.report import OptimizationReport
from xoptim.facts.dtypes import Exactness
from xoptim.facts.lazy import lazy_module
from xoptim.graph.atomic_write import replace_file
from xoptim.graph.load import load_model
from xoptim.graph.model import Model
from xoptim.graph.sources import Source, size_of, title_of
from xoptim.match.pattern import PatternOptimization
from xoptim.match.rewrite import Rewrite
from xoptim.reporting.drawing import Drawing, draw, scopes_of, to_json
from xoptim.reporting.layout import arrange
from xoptim.reporting.libraries import check_libraries
from xoptim.reporting.links import Journal, Links, link, steps_between, twins_of
from xoptim.reporting.placing import PlacingFacts, sites_json
from xoptim.validate.options import ValidationOptions
from xoptim.validate.protos import ModelLike
from xoptim.validate.report import ValidationReport
from xoptim.validate.validation import validate

_CLEAR: Final = 0.01
"""Part of the time of all operators from which a change of one is coloured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSubject:
    """Facts about two models besides their graphs."""

    title: str  # name of the original
    result: str  # name of the result
    sizes: tuple[int, int] = (0, 0)  # bytes of both, 0 for unknown ones
    opsets: tuple[int, int] = (0, 0)  # operator set of ONNX of both, 0 for none
    exactness: Exactness | None = None  # weakest promise of the rewrites, if it is known
    validation: Sequence[ValidationReport] = ()  # the comparisons; empty when there were none
    latency: BenchReport | None = None  # the times of both, if they were measured
    # the time of each operator in both, if it was measured
    operators: Sequence[Mapping[str, OperatorTime]] = ()
    notes: Sequence[tuple[str, str]] = ()  # label and text of further lines of the proof
    precision: str = ""  # the choice of products with fewer bits, if there was one
    # texts about each of them, by the heads of their columns
    products: Sequence[Mapping[str, str]] = ()
    placing: PlacingFacts | None = None  # where the nodes of both run, if there is a target


@dataclass(frozen=True, slots=True)
class Card:
    """A figure at the head of the page, with a note in small print."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """A row of the table of operators: numbers of nodes and times, before and after.

    ``trend`` is ``less``, ``more`` or nothing.
    """

    name: str
    before: int
    after: int
    change: str
    times: tuple[str, str, str] = ("", "", "")
    trend: str = ""


@dataclass(frozen=True, slots=True)
class PageFacts:
    """The texts of a page."""

    title: str
    subtitle: str
    status: str  # the verdict; ``verdict`` is ``equal``, ``different`` or ``unknown``
    verdict: str
    nodes: tuple[int, int]  # number of nodes before and after
    cards: list[Card]  # figures at the head
    operators: list[OperatorRow]  # the rows of the table of operators, all operators last
    has_times: bool
    times_note: str
    proof: list[tuple[str, str]]  # label and text of each line about the proof
    # output, sizes, largest difference, relative difference and verdict of each comparison
    outputs: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    precision: str = ""
    products: Sequence[Mapping[str, str]] = ()
    placing: PlacingFacts | None = None


def facts_of(subject: ReportSubject, before: Drawing, after: Drawing) -> PageFacts:
    """The texts about two models."""
    doubtful = [report for report in subject.validation if not report.ok]
    worst = min(doubtful, key=lambda report: report.status != "different", default=None)
    status = (
        "not compared" if not subject.validation else "equal" if worst is None else worst.status
    )
    note = ""
    if subject.operators and subject.latency is not None:
        where = circumstances(subject.latency)
        note = (
            "Times of a run by operator, from onnxruntime's profiler, which takes time itself: "
            f"{where}"
        )
    return PageFacts(
        title=subject.title,
        subtitle=f"→ {subject.result}",
        status=status,
        verdict=status if status in ("equal", "different") else "unknown",
        nodes=(len(before.nodes), len(after.nodes)),
        cards=_cards(subject, len(before.nodes), len(after.nodes)),
        operators=_operators(subject, before, after),
        has_times=bool(subject.operators),
        times_note=note,
        proof=_proof(subject),
        outputs=_outputs(subject.validation),
        precision=subject.precision,
        products=subject.products,
        placing=subject.placing,
    )


def _percent(before: float, after: float) -> str:
    if not before or before == after:
        return ""
    change = 100 * (after - before) / before
    return f"{'+' if change > 0 else '−'}{abs(change):.{0 if abs(change) >= 10 else 1}f} %"


def _cards(subject: ReportSubject, before: int, after: int) -> list[Card]:
    cards = [Card("nodes", f"{before} → {after}", _percent(before, after))]
    if all(subject.sizes):
        cards.append(
            Card("size", " → ".join(map(bytes_text, subject.sizes)), _percent(*subject.sizes))
        )
    if subject.latency is not None:
        first, last = subject.latency.models[0], subject.latency.models[-1]
        ratio = (
            "" if last.ratio is None else f"{'× ' if last.ratio.is_difference else ''}{last.ratio}"
        )
        cards.append(
            Card(
                "time of a run",
                f"{milliseconds(first.median)} → {milliseconds(last.median)}",
                ratio,
            )
        )
    largest = [report.largest for report in subject.validation if report.largest is not None]
    if largest:
        found = max(largest, key=lambda each: each.excess)
        limits = "" if found.tolerance is None else "rtol {:g}, atol {:g}".format(*found.tolerance)
        cards.append(
            Card("largest difference", f"{found.max_abs:.2g}" if found.max_abs else "none", limits)
        )
    if subject.exactness is not None:
        cards.append(Card("exactness", subject.exactness))
    if subject.placing is not None:
        cards.append(Card(f"on {subject.placing.target}", subject.placing.counts[-1][1]))
    if all(subject.opsets) and subject.opsets[0] != subject.opsets[1]:
        cards.append(Card("operator set", f"{subject.opsets[0]} → {subject.opsets[1]}"))
    return cards


def _operators(subject: ReportSubject, before: Drawing, after: Drawing) -> list[OperatorRow]:
    """The operators, those with the most nodes, or, where times are known, with the largest change
    first.
    """
    counts = [Counter(node.op_type for node in drawing.nodes) for drawing in (before, after)]
    times = [
        {name: each.seconds for name, each in model.items()} for model in subject.operators
    ] or [{}, {}]
    names = {*counts[0], *counts[1], *times[0], *times[-1]}

    def key(name: str) -> tuple[float, int, str]:
        return -abs(times[0].get(name, 0.0) - times[-1].get(name, 0.0)), -counts[0][name], name

    sums = [sum(model.values()) if subject.operators else None for model in (times[0], times[-1])]
    clear = _CLEAR * (sums[0] or 0.0)
    rows = [
        _row(
            name,
            (counts[0][name], counts[1][name]),
            (times[0].get(name), times[-1].get(name)),
            clear,
        )
        for name in sorted(names, key=key)
    ]
    return [
        *rows,
        _row("all operators", (len(before.nodes), len(after.nodes)), (sums[0], sums[1]), clear),
    ]


def _row(
    name: str, counts: tuple[int, int], times: tuple[float | None, float | None], clear: float
) -> OperatorRow:
    before, after = counts
    change = "" if after == before else f"{'+' if after > before else '−'}{abs(after - before)}"
    if times == (None, None):
        return OperatorRow(name, before, after, change)
    more = (times[1] or 0.0) - (times[0] or 0.0)
    texts = ["" if each is None else f"{1e3 * each:.3f}" for each in times]
    text = f"{'+' if more > 0 else '−'}{abs(1e3 * more):.3f}"
    trend = "" if abs(more) < clear else "more" if more > 0 else "less"
    return OperatorRow(name, before, after, change, (texts[0], texts[1], text), trend)


def _proof(subject: ReportSubject) -> list[tuple[str, str]]:
    lines = []
    for report in subject.validation:
        lines.append((", ".join(report.providers), report.summary()))
        lines += [("", note) for note in report.notes]
    if not subject.validation:
        lines.append(("comparison", "not asked for"))
    if subject.latency is not None:
        lines.append(("times", circumstances(subject.latency)))
    return [*lines, *subject.notes]


def _outputs(reports: Sequence[ValidationReport]) -> list[tuple[str, str, str, str, str]]:
    found = []
    for report in reports:
        for run in report.runs:
            sizes = ", ".join(f"{name}={size}" for name, size in run.dims.items())
            for each in run.comparisons:
                verdict = (
                    each.message or "equal"
                    if each.ok
                    else "rounding noise"
                    if run.accepts(each)
                    else each.message
                )
                relative = f"{each.max_rel:.2g}" if each.max_rel else ""
                found.append(
                    (
                        each.output,
                        sizes,
                        f"{each.max_abs:.2g}" if each.max_abs else "none",
                        relative,
                        verdict,
                    )
                )
    return found


if TYPE_CHECKING:
    import jinja2
else:
    jinja2 = lazy_module("jinja2")

_SCRIPTS: Final = ("geometry.js", "pane.js", "app.js")


def render(
    facts: PageFacts,
    before: Drawing,
    after: Drawing,
    links: Links,
    misses: Sequence[Explanation] = (),
    rewrites: Sequence[Rewrite | type[Rewrite]] = (),
) -> str:
    """The page as text: both drawings and their relation, patterns that almost applied, and the
    rewrites that were applied.

    The data are compressed JSON, so that names cannot be taken for markup; all other texts are
    escaped by the template. A policy in the page lets the browser run no script but its own, and
    load nothing.
    """
    rows, known = [_miss(each, after) for each in misses], installed_patterns()
    about = {each.name: _about(known[each.name]) for each in links.changes if each.name in known}
    placing = facts.placing or PlacingFacts("")
    data = {
        "before": {**_side(before), "runs": sites_json(before, placing.before)},
        "after": {**_side(after), "runs": sites_json(after, placing.after)},
        "links": links.to_json(),
        "patterns": about | {each.name(): _about(each) for each in rewrites},
        "misses": rows,
    }
    packed = gzip.compress(json.dumps(data, separators=(",", ":")).encode(), mtime=0)
    script, style = "".join(map(_text, _SCRIPTS)), _text("page.css")
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).from_string(_text("page.html"))
    return template.render(
        facts=facts,
        misses=rows,
        data=base64.b64encode(packed).decode(),
        script=script,
        style=style,
        script_hash=_hash(script),
        style_hash=_hash(style),
    )


def _text(name: str) -> str:
    return (resources.files("xoptim.reporting") / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _side(drawing: Drawing) -> dict[str, Any]:
    scopes = scopes_of(drawing)
    boxes = [box.to_json() for box in arrange(drawing, scopes)]
    outlines = [(each.path, each.label, each.parent, each.nodes) for each in scopes]
    return {**to_json(drawing), "scopes": outlines, "boxes": boxes}


def _about(rewrite: Rewrite | type[Rewrite]) -> dict[str, Any]:
    """The description of a pattern: the rewrite, its reason, and where its page is."""
    cls = rewrite if isinstance(rewrite, type) else type(rewrite)
    paragraphs = inspect.cleandoc(cls.__doc__ or "").split("\n\n")
    about = {"arrow": cls.arrow(), "exactness": cls.exactness, "phase": cls.phase}
    lines = [line for paragraph in paragraphs[1:] for line in _sentences(paragraph)]
    is_ours = cls.__module__.startswith("xoptim.patterns.")
    return {**about, "doc": lines, "page": f"docs/patterns/{rewrite.name()}.md" if is_ours else ""}


def _sentences(paragraph: str) -> list[str]:
    """The lines of a paragraph of a docstring, a line that continues another one joined to it."""
    found: list[str] = []
    for line in paragraph.splitlines():
        if (found and line.startswith(" ")) or (
            found and not line[:1].isdigit() and ":" not in line[:16]
        ):
            found[-1] += " " + line.strip()
        else:
            found.append(line.strip())
    return found


def _miss(miss: Explanation, after: Drawing) -> dict[str, Any]:
    """A row about a pattern that almost applied, with the numbers of the nodes that fit."""
    numbers = {
        after.values[node.outputs[0]][0]: number
        for number, node in enumerate(after.nodes)
        if node.outputs
    }
    known = installed_patterns().get(miss.pattern)
    culprits = [miss.culprit] if miss.culprit is not None else []
    return {
        "pattern": miss.pattern,
        "arrow": "" if known is None else known.arrow(),
        "reached": miss.reached,
        "reason": miss.reason or "no reason given",
        "place": str(miss.anchor),
        "nodes": [
            numbers[place.outputs[0]]
            for place in miss.matched
            if place.outputs and place.outputs[0] in numbers
        ],
        "culprit": [
            numbers[place.outputs[0]]
            for place in culprits
            if place.outputs and place.outputs[0] in numbers
        ],
    }


_FEWEST: Final = 3
"""Nodes that a pattern has at least: a miss of a smaller one would tell only that another node is
there.
"""
_MOST: Final = 30
"""Misses that are shown."""
_TRIED: Final = 24
"""Nodes at which a pattern is tried, evenly spread: layers repeat."""


def nearest_misses(model: Model, provider: str = "cpu") -> list[Explanation]:
    """For each pattern of three nodes or more that does not match, the place where most of it fits,
    the best ones first.

    A place counts when at least half of the nodes fit, or when the model is too old for a pattern
    whose nodes all fit.
    """
    patterns = [
        cls()
        for cls in installed_patterns().values()
        if issubclass(cls, PatternOptimization) and "extra" not in cls.tags
    ]
    found = [
        miss
        for pattern in patterns
        if may_match(model, [pattern])
        for miss in _misses(model, pattern, provider)
    ]
    found.sort(key=lambda miss: (-_share(miss), -len(miss.matched), miss.pattern))
    return found[:_MOST]


def _misses(model: Model, pattern: PatternOptimization, provider: str) -> Sequence[Explanation]:
    """The nearest miss of a pattern, if it is near enough."""
    explainer = Explainer(model, pattern, provider)
    candidates = explainer.candidates() if explainer.keys else []
    found = [explainer.explain(node) for node in candidates[:: 1 + len(candidates) // _TRIED]]
    if any(each.matches for each in found):
        return ()
    refused = [each for each in found if each.status == "refused"]
    near = [
        each
        for each in refused
        if max(each.total, len(each.matched)) >= _FEWEST and 2 * _share(each) >= 1
    ]
    return sorted(near, key=lambda each: -each.progress)[:1]


def _share(miss: Explanation) -> float:
    return len(miss.matched) / (miss.total or len(miss.matched) or 1)


_HEIGHT: Final = 760
"""Pixels of a report in a notebook."""


@dataclass(frozen=True, slots=True)
class HtmlReport:
    """A report as a page, which needs no other file and no network, with the comparisons of the two
    models.
    """

    html: str
    validation: tuple[ValidationReport, ...] = ()

    def save(self, path: str | Path) -> Path:
        """Write the page; returns the path.

        Raises `ModelError` when it cannot be written; a file that is there is then unchanged.
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
    """The report of an optimization from its record, whose model is optimized by now, and still in
    memory.

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
    return HtmlReport(page, tuple(subject.validation))


def subject_of(report: OptimizationReport, title: str, result: str) -> ReportSubject:
    """The names and figures of an optimization that its report has."""
    notes = [("left out", str(each)) for each in report.left_out]
    notes += [("repeats", str(each)) for each in report.repetitions]
    return ReportSubject(
        title=title,
        result=result,
        exactness=report.exactness,
        validation=report.validation,
        notes=notes,
    )


def _compared(sources: tuple[Source, Source], checks: ValidationOptions) -> ValidationReport:
    """The comparison of two models, each with its external data."""
    first, second = sources
    located = replace(checks, original_dir=first.base_dir, optimized_dir=second.base_dir)
    return validate(_file(first), _file(second), located)


def report(
    before: Any,
    after: Any,
    path: str | Path | None = None,
    *,
    verify: bool | ValidationOptions = True,
    bench: BenchOptions | None = None,
    titles: tuple[str, str] | None = None,
) -> HtmlReport:
    """Show two models side by side, with what changed between them.

    Nodes count as unchanged that have the same operator, attributes and names of results. Patterns
    are named by the metadata that ``xoptim.optimize`` leaves; with ``report="report.html"`` it
    records every rewrite. A notebook displays the report, and ``save(path)`` writes it.

    Args:
        before: a model as for `xoptim.optimize`.
        after: another one.
        path: the file to write, if any.
        verify: whether to compare their results, with which options.
        bench: options with which to measure both; by default they are not measured.
        titles: names of both; their files by default.

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
        checks = verify if isinstance(verify, ValidationOptions) else ValidationOptions()
        subject = replace(subject, validation=[_compared(sources, checks)])
    if bench is not None:
        subject = measured(subject, _file(sources[0]), _file(sources[1]), bench)
    misses = nearest_misses(models[1], "cpu" if bench is None else bench.provider)
    text = render(facts_of(subject, *drawings), *drawings, links, misses)
    made = HtmlReport(text, tuple(subject.validation))
    if path is not None:
        made.save(path)
    return made


def measured(
    subject: ReportSubject, before: ModelLike, after: ModelLike, options: BenchOptions
) -> ReportSubject:
    """The figures with the times of both models, and of each operator in them.

    Raises `XoptimError` when one does not run.
    """
    models = {"original": before, "result": after}
    latency = subject.latency or measure(models, replace(options, compare=False, loading=False))
    found = profile(models, replace(options, seconds=min(options.seconds, 2.0)))
    return replace(subject, latency=latency, operators=list(found.values()))


def _file(source: Source) -> ModelLike:
    return Path(source.original) if source.kind == "path" else source.proto
