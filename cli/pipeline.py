"""The steps that all commands that write an optimized model share, and the page of ``xopt MODEL --report FILE``."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import click
import onnx

from xoptim import GraphBuilder, ModelError, OptimizationOptions, XoptimError, installed_patterns, save
from xoptim.api.preparing import Source, lacks_weights, replace_file, serialized
from xoptim.optimizing.proof import Draft, Proof, shared_files
from xoptim.reporting.links import Recorder
from xoptim.reporting.reports import HtmlReport, measured, report_of, subject_of

from .exit_codes import DIFFERENT, NOT_VALIDATED
from .files import STANDARD_OUTPUT, writable
from .options import flag
from .progress import Progress
from .summary import Summary
from .terminal import say


@dataclass(frozen=True)
class Weights:
    """The options that say where the weights of the result are."""

    external_data: bool = flag("Write weights to a file of their own.")
    share_weights: bool = flag("Refer to the file of MODEL's weights instead of copying it.")


def protect_weights(builder: GraphBuilder, target: Path) -> None:
    """Raise for a target that holds weights of the input."""
    places = (tensor.place() for graph in builder.model.graphs() for tensor in graph.initializers.values())
    if target.exists() and any(place is not None and place[0] == target.resolve() for place in places):
        raise click.UsageError(f"{str(target)!r} holds weights of the input; write somewhere else")


def summarize(model: Path, target: Path, proof: Proof) -> Summary:
    """The summary so far."""
    report, after = proof.report, proof.builder.count_types()
    made = {op_type for name, cls in installed_patterns().items() if name in report.applied for op_type in cls.unchecked}
    size = model.stat().st_size + proof.external_before
    return Summary(model, target, proof, report, after, unchecked=sorted(made & set(after)), bytes_before=size)


def drafted(target: Path, weights: Weights, *, dry_run: bool = False, in_place: bool = False) -> Draft:
    """Where the result is kept until it is approved: beside the target, unless it is a stream or a dry run."""
    streams = dry_run or target == STANDARD_OUTPUT
    external = weights.external_data or None
    return Draft(None if streams else target, external=external, share_weights=weights.share_weights, in_place=in_place)


def write(
    proof: Proof, draft: Draft, summary: Summary, progress: Progress, *, strict: bool, dry_run: bool = False
) -> list[Path]:
    """Write the result unless it was refuted, or ``--dry-run`` is given."""
    target = summary.target
    refused = bool(summary.refusal(strict))
    if refused or dry_run:
        summary.bytes_after = None if refused else proof.bytes_after
        return []
    progress.say("writing")
    if target == STANDARD_OUTPUT:
        raw = proof.to_bytes()
        write_stream(raw)
        summary.bytes_after = len(raw)
        return [target]
    written = draft.commit(proof.proto)
    summary.needed = shared_files(proof.proto)
    if target not in written:
        raise ModelError(f"{str(target)!r} was not written")
    summary.bytes_after = proof.bytes_after
    return written


def write_stream(raw: bytes) -> None:
    """Write bytes to standard output; ``sys.stdout`` may be redirected."""
    assert sys.__stdout__ is not None
    sys.__stdout__.buffer.write(raw)
    sys.__stdout__.flush()


def write_whole(proto: onnx.ModelProto, target: Path, model: Path, summary: str) -> None:
    """Write a model, and say so: on standard error where the model goes to standard output.

    Where the weights of the model are missing, the written one refers to the same files.
    """
    is_bare = lacks_weights(proto, model.parent)
    if is_bare:
        click.echo("xopt: warning: the file of weights is missing: the written model refers to it too", err=True)
    if target == STANDARD_OUTPUT:
        write_stream(proto.SerializeToString() if is_bare else serialized(proto, model.parent))
        say(f"{summary}: standard output", err=True)
    elif is_bare:
        replace_file(target, proto.SerializeToString())
        say(f"{summary}: {target}")
    else:
        say(f"{summary}: {', '.join(map(str, save(proto, target, model.parent)))}")


def verdict(summary: Summary, strict: bool) -> int:
    """Return the exit code, and print a line with the reason when it is not 0."""
    reason = summary.refusal(strict)
    if reason:
        say(f"xopt: error: {reason}", err=True)
        return DIFFERENT
    doubtful = next((report for report in summary.proof.reports if not report.ok), None)
    if doubtful is not None:
        say(f"xopt: warning: {doubtful.summary()}", err=True)
        return NOT_VALIDATED
    return 0


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
                say(f"xopt: warning: operators not measured: {error}", err=True)
        return report_of(self._recorder.of(proof.builder.model), facts, proof.builder.optimization_options.provider)

    def save(self, page: HtmlReport | None) -> Path | None:
        """Write the page; returns its file."""
        return None if page is None or self._path is None else page.save(self._path)
