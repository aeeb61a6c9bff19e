"""``xopt extract DECODER --into ENCODER``: moves what depends on the encoder alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xoptim import VerificationOptions, VerificationReport, save, verify
from xoptim.api.pairing import MovedResult, Pair, pair
from xoptim.api.preparing import Source
from xoptim.diagnose.explanation import JsonResult, counted

from .exit_codes import DIFFERENT, code_of
from .files import MODEL, is_downloaded, is_stream, readable, writable
from .loosened import loosened_text, warn_of_loosened
from .options import common, json_option, names_of, option, providers_option, repeated
from .preparation import assume_option, fitting
from .progress import Progress
from .tables import print_json
from .terminal import say
from .verification import COMPARISON, VALUES, Comparison, check_values_used, verify_option

if TYPE_CHECKING:
    _ParamType = click.ParamType[tuple[str, str]]
else:  # it is not generic in click 8.1
    _ParamType = click.ParamType

_SHOWN = 8
"""Maximum number of results that are listed."""


class _Link(_ParamType):
    """An input of the decoder, and the encoder's name for its value."""

    name = "link"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A pair of names."""
        if isinstance(value, tuple):
            return value
        name, _, source = str(value).partition("=")
        if not name or not source:
            raise click.BadParameter(
                f"{value!r} is not INPUT=OUTPUT, such as encoder_hidden_states=last_hidden_state"
            )
        return name, source


@dataclass(frozen=True, slots=True)
class PairDocument(JsonResult):
    """An encoder with the nodes of its decoder that depend on the encoder alone.

    Attributes:
        links: inputs of the decoder with outputs or inputs of the encoder.
        moved: the results that the encoder computes.
        nodes: the number of nodes that the decoder lost.
        verification: the comparison of both models, run one after the other, with the original
            ones.
        written: the files.
    """

    links: dict[str, str]
    moved: list[MovedResult]
    nodes: int
    verification: list[VerificationReport]
    written: list[str]


@dataclass(frozen=True)
class Pairing:
    """The options for moving results of a decoder into its encoder."""

    into: Path | None = option(
        "Encoder into which results of MODEL move.",
        type=MODEL,
        metavar="ENCODER",
    )
    link: tuple[tuple[str, str], ...] = repeated(
        "Input of MODEL that holds a value of ENCODER (repeatable).",
        type=_Link(),
        metavar="INPUT=OUTPUT",
    )
    provider: tuple[str, ...] = providers_option()
    verify: bool = verify_option()
    comparison: Comparison = field(default_factory=Comparison)
    assume: tuple[str, ...] = assume_option()
    as_json: bool = json_option("Print JSON about the results that --into moved.")

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        if self.into is None:
            return {name: "without --into" for name in names_of(Pairing) if name != "into"}
        reasons = dict.fromkeys(("inputs", "outputs"), "with --into")
        if not self.verify:
            unused = ("provider", "assume", "assume_from_model", *COMPARISON, *VALUES)
            reasons |= dict.fromkeys(unused, "with --no-verify")
        return reasons | self.comparison.idle(self.provider)


def write_pair(
    encoder: Path, decoder: Path, folder: Path, choices: Pairing, *, assume_from_model: bool
) -> int:
    """Write both models to a folder, unless there is nothing to move or the results differ.

    Returns the exit code, and prints what was moved.
    """
    options = choices.comparison.read(choices.provider) if choices.verify else None
    targets = _targets(encoder, decoder, folder)
    sources = Source(encoder), Source(decoder)
    with Progress(enabled=not choices.as_json) as progress:
        progress.say("looking for what depends on the encoder alone")
        before, after = pair(*sources, dict(choices.link))
        if not after.moved:
            say(
                f"xopt: error: {decoder} has no matrix multiplication that depends on "
                f"{', '.join(after.links)} alone; "
                "nothing was written",
                err=True,
            )
            return DIFFERENT
        reports: list[VerificationReport] = []
        if options is not None:
            options = replace(options, assume_from_model=assume_from_model)
            reports = _verified(before, after, sources[0], choices, options, progress)
        code = code_of(reports)
        written: list[Path] = []
        if code != DIFFERENT:
            progress.say("writing")
            # The encoder is written first: the original decoder also works with it.
            for model, target, source in zip(
                (after.encoder, after.decoder), targets, sources, strict=True
            ):
                written += save(model, target, source.base_dir)
    _print(after, reports, written, choices)
    return code


def _targets(encoder: Path, decoder: Path, folder: Path) -> list[Path]:
    """The files to write: in a folder, with the names of the models."""
    if any(is_stream(model) or is_downloaded(model) for model in (encoder, decoder)):
        raise click.UsageError("MODEL and ENCODER must be local files with --into")
    if encoder.name == decoder.name:
        raise click.UsageError(
            f"both models are named {encoder.name!r}; rename one: both are written to one folder"
        )
    if folder.exists() and not folder.is_dir():
        raise click.UsageError(f"{str(folder)!r} is not a folder")
    folder.mkdir(exist_ok=True)
    targets = [folder / model.name for model in (encoder, decoder)]
    for target in filter(Path.exists, targets):
        if any(target.samefile(model) for model in (encoder, decoder)):  # also by a link
            raise click.UsageError(f"{str(target)!r} is an input; write to another folder")
    if len({target.resolve() for target in targets}) < len(targets):
        raise click.UsageError(f"{' and '.join(map(str, targets))} are the same file; remove one")
    return [writable(target) for target in targets]


def _verified(
    before: Pair,
    after: Pair,
    encoder: Source,
    choices: Pairing,
    options: VerificationOptions,
    progress: Progress,
) -> list[VerificationReport]:
    """One comparison for each provider: encoder and decoder run one after the other."""
    first, second = before.joined(), after.joined()
    options = replace(
        options,
        original_dir=encoder.base_dir,
        optimized_dir=encoder.base_dir,
        **common(VerificationOptions, choices),
    )
    options = replace(options, assume=fitting(Source(first), choices.assume))
    progress.say("verifying")
    each_provider = [replace(options, providers=(name,)) for name in options.providers]
    reports = [verify(first, second, checks, on_step=progress.say) for checks in each_provider]
    check_values_used(reports, options)
    return reports


def _print(
    after: Pair,
    reports: list[VerificationReport],
    written: list[Path],
    choices: Pairing,
) -> None:
    if choices.as_json:
        warn_of_loosened()
        names = [str(path) for path in written]
        print_json(
            PairDocument(dict(after.links), [*after.moved], after.node_count, reports, names)
        )
        return
    say(
        f"moved         {counted(len(after.moved), 'result')}; the decoder has "
        f"{counted(after.node_count, 'node')} fewer"
    )
    for result in after.moved[:_SHOWN]:
        say(f"  {result.name}: {readable(result.node)}")
    if len(after.moved) > _SHOWN:
        say(f"  {len(after.moved) - _SHOWN} more (--json lists all)")
    say(f"inputs        {', '.join(value.name for value in after.decoder.graph.input)}")
    for report in reports:
        say(f"verification  {readable(report.verdict())}{loosened_text()}")
    if written:
        say(f"written       {', '.join(map(str, written))}")
    else:
        say("xopt: error: the results differ; nothing was written", err=True)
