"""The common steps of all commands that write an optimized model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import onnx

from xoptim import GraphBuilder, ModelError, save, workflow
from xoptim.api.preparing import lacks_weights, replace_file, serialized
from xoptim.optimizing.plans import Draft
from xoptim.optimizing.verified import VerifiedModel
from xoptim.workflow.outcome import Outcome

from .exit_codes import DIFFERENT, NOT_VERIFIED
from .files import STANDARD_OUTPUT, writable
from .options import flag
from .terminal import say

if TYPE_CHECKING:
    from xoptim.workflow.page import Page

_PAGE_SUFFIXES: Final = (".html", ".htm")


@dataclass(frozen=True)
class Weights:
    """The options that say in which files the weights of the result are."""

    external_data: bool = flag("Write weights to an external data file.")
    share_weights: bool = flag("Refer to the external data of MODEL instead of copying it.")


def protect_weights(builder: GraphBuilder, target: Path) -> None:
    """Raise if the target is a file with weights of the input: writing would destroy them."""
    locations = (
        tensor.place() for graph in builder.model.graphs() for tensor in graph.initializers.values()
    )
    if target.exists() and any(
        location is not None and location[0] == target.resolve() for location in locations
    ):
        raise click.UsageError(f"{str(target)!r} holds weights of the input; write somewhere else")


def drafted(
    target: Path, weights: Weights, *, dry_run: bool = False, in_place: bool = False
) -> Draft:
    """The draft of a result that is not approved yet.

    Its files are next to the target, except for a stream or a dry run.
    """
    streams = dry_run or target == STANDARD_OUTPUT
    external = weights.external_data or None
    return Draft(
        None if streams else target,
        external=external,
        share_weights=weights.share_weights,
        in_place=in_place,
    )


def writer(
    draft: Draft,
    target: Path,
    extra_files: Callable[[VerifiedModel], Mapping[Path, bytes]] = lambda _: {},
) -> Callable[[VerifiedModel], Sequence[Path]]:
    """A function that writes a result to a file, or to standard output.

    ``extra_files`` gives the contents of further files, which are written together with the result.
    """

    def write(verified: VerifiedModel) -> Sequence[Path]:
        if target == STANDARD_OUTPUT:
            write_stream(verified.to_bytes())
            return [target]
        written = draft.commit(verified.proto, extra_files(verified))
        if target not in written:
            raise ModelError(f"{str(target)!r} was not written")
        return written

    return write


def write_stream(raw: bytes) -> None:
    """Write bytes to standard output; ``sys.stdout`` may be redirected."""
    assert sys.__stdout__ is not None
    sys.__stdout__.buffer.write(raw)
    sys.__stdout__.flush()


def write_whole(proto: onnx.ModelProto, target: Path, model: Path, summary: str) -> None:
    """Write a model, and print a summary: on standard error if the model is on standard output.

    If the files of the weights are missing, the written model refers to the same files.
    """
    is_bare = lacks_weights(proto, model.parent)
    if is_bare:
        click.echo(
            "xopt: warning: the external data file of MODEL is missing; the written model refers "
            "to it as well",
            err=True,
        )
    if target == STANDARD_OUTPUT:
        write_stream(proto.SerializeToString() if is_bare else serialized(proto, model.parent))
        say(f"{summary}: standard output", err=True)
    elif is_bare:
        replace_file(target, proto.SerializeToString())
        say(f"{summary}: {target}")
    else:
        say(f"{summary}: {', '.join(map(str, save(proto, target, model.parent)))}")


def refusal_text(outcome: Outcome) -> str:
    """The reason not to write a result that is refused."""
    refused = outcome.verdict
    if refused.cause == "strict":
        return f"{refused.reason}; nothing was written because of --strict"
    if refused.cause == "different":
        names = ", ".join(outcome.report.applied) or "none"
        return f"{refused.reason}; nothing was written; patterns applied: {names}"
    return f"{refused.reason}; nothing was written"


def evidence_text(outcome: Outcome) -> str:
    """Words about the proofs of a result that no run verified; empty without proofs."""
    proofs = outcome.verified.proofs
    if proofs is None or not (proofs.steps or proofs.passes):
        return ""
    limit = "" if outcome.fitting is None else ", and do not cover the fitting to the target"
    return f"; proofs of the optimization are the only evidence{limit}: {proofs.summary()}"


def verdict(outcome: Outcome) -> int:
    """Return the exit code, and print a line with the reason when the code is not 0."""
    result = outcome.verdict
    if result.status == "refused":
        say(f"xopt: error: {refusal_text(outcome)}", err=True)
        return DIFFERENT
    if result.status == "not verified":
        say(f"xopt: warning: {result.reason}{evidence_text(outcome)}", err=True)
        return NOT_VERIFIED
    return 0


def check_page(path: Path, option: str) -> None:
    """Raise `click.UsageError` when the file of an option does not end in .html."""
    if path.suffix.lower() not in _PAGE_SUFFIXES:
        page = str(path.with_suffix(".html"))
        raise click.UsageError(f"{option} writes HTML: name the file {page!r}, not {str(path)!r}")


def page_of(path: Path | None, model: Path, target: Path) -> Page | None:
    """The page that ``--report FILE`` asks for, ``None`` without this option.

    Raises:
        click.UsageError: when the file cannot be written, is the model or the result, or does not
            end in .html.
        MissingLibraryError: when a library of the report is not installed.
    """
    if path is None:
        return None
    if path.absolute() in (model.absolute(), target.absolute()):
        raise click.UsageError(f"--report {str(path)!r} would replace a model")
    check_page(path, "--report")
    result = "standard output" if target == STANDARD_OUTPUT else target.name
    return workflow.page.Page(writable(path), title=model.name, result=result)
