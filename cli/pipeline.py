"""The steps that all commands that write an optimized model share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from xoptim import GraphBuilder, ModelError, installed_patterns
from xoptim.proof import Draft, Proof, shared_files

from .files import STANDARD_OUTPUT
from .progress import Progress
from .summary import Summary

DIFFERENT = 1
NOT_VALIDATED = 3


def protect_weights(builder: GraphBuilder, target: Path) -> None:
    """Raise for a target that holds weights of the input."""
    places = (tensor.place() for graph in builder.model.graphs() for tensor in graph.initializers.values())
    if target.exists() and any(place is not None and place[0] == target.resolve() for place in places):
        raise click.UsageError(f"{str(target)!r} holds weights of the input; write somewhere else")


def summarize(model: Path, target: Path, proof: Proof) -> Summary:
    """The summary so far.

    Args:
        model: the input.
        target: the file of the result.
        proof: the optimized model, and its comparison.
    """
    report, after = proof.report, proof.builder.count_types()
    made = {op_type for name, cls in installed_patterns().items() if name in report.applied for op_type in cls.unchecked}
    return Summary(
        model=model,
        target=target,
        before=proof.before,
        after=after,
        unchecked=sorted(made & set(after)),
        bytes_before=model.stat().st_size + proof.external_before,
        applied=report.applied,
        exactness=report.exactness,
        load_seconds=proof.load_seconds,
        optimize_seconds=proof.optimize_seconds,
        validate_seconds=proof.validate_seconds,
        opsets=(proof.opset_before, proof.builder.model.opsets.get("", 0)),
        reports=proof.reports,
        left_out=proof.left_out,
        unfolded=report.unfolded,
        each=proof.each,
        repetitions=report.repetitions,
        unused_inputs=report.unused_inputs,
        dropped_inputs=report.dropped_inputs,
    )


def drafted(target: Path, choices: dict[str, Any]) -> Draft:
    """Where the result is kept until it is approved: beside the target, or nowhere that stays."""
    streams = choices["dry_run"] or target == STANDARD_OUTPUT
    external = choices["external_data"] or None
    return Draft(None if streams else target, external=external, share_weights=choices["share_weights"])


def write(
    proof: Proof, draft: Draft, target: Path, summary: Summary, choices: dict[str, Any], progress: Progress
) -> list[Path]:
    """Write the result unless it was refuted, or ``--dry-run`` is given."""
    refused = bool(summary.refusal(choices["strict"]))
    if refused or choices["dry_run"]:
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


def verdict(summary: Summary, strict: bool) -> int:
    """Return the exit code, and print a line with the reason when it is not 0."""
    reason = summary.refusal(strict)
    if reason:
        click.echo(f"xopt: error: {reason}", err=True)
        return DIFFERENT
    doubtful = next((report for report in summary.reports if not report.ok), None)
    if doubtful is not None:
        click.echo(f"xopt: warning: {doubtful.summary()}", err=True)
        return NOT_VALIDATED
    return 0
