"""``xopt bisect MODEL``: find the rewrite that changes the results of a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import click

from xoptim import Culprit, OptimizationOptions, Suspect, save
from xoptim.diagnose.explanation import JsonForm, JsonResult, counted, within

from ..exit_codes import DIFFERENT, NOT_VERIFIED
from ..files import MODEL, checked_default, is_stream, output_option, writable
from ..loosened import warn_of_loosened
from ..options import command, flag, json_option, opset_option, providers_option, refuse_idle
from ..preparation import assume_from_model_option, assume_option, fitting, print_assumed
from ..selection import SelectionWithRules
from ..tables import print_json
from ..terminal import say
from ..verification import Comparison


@dataclass(frozen=True, slots=True)
class BisectDocument(JsonResult):
    """The rewrite or step that changes the results of a model, and a model that shows the change.

    Attributes:
        culprit: the rewrite or step.
        model: the small model that was written; ``None`` when no part shows the change.
    """

    __json__ = JsonForm(*within("culprit", Culprit), "model", name="Bisect")
    culprit: Culprit
    model: Path | None


@dataclass(frozen=True)
class _BisectChoices:
    output: Path | None = output_option("File to write (default: MODEL.bisect.onnx).")
    selection: SelectionWithRules = field(default_factory=SelectionWithRules)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    opset: int | Literal["newest"] | None = opset_option()
    provider: tuple[str, ...] = providers_option("Execution provider: cpu or cuda.")
    comparison: Comparison = field(default_factory=Comparison)
    inline: bool = flag("Inline local functions.")
    as_json: bool = json_option()


@command("bisect", model=MODEL)
def bisect_command(model: Path, choices: _BisectChoices) -> int:
    """Find the rewrite that makes MODEL differ.

    Writes a small model that shows the difference.

    Exit code 0 when the optimized model is equal, 1 when it differs, 3 when that cannot be
    decided.
    """
    refuse_idle(choices.comparison.idle(choices.provider))
    warn_of_loosened()
    if choices.output is None and is_stream(model):
        raise click.UsageError("MODEL is a stream: give a file to write with -o FILE")
    default = model.with_name(f"{model.stem}.bisect.onnx")
    target = writable(choices.output or checked_default(default))
    choices = replace(choices, assume=fitting(model, choices.assume))
    options = OptimizationOptions(
        patterns=choices.selection.with_rules(),
        drop=choices.selection.drop,
        provider=choices.provider[0],
        opset=choices.opset,
        assume=choices.assume,
        assume_from_model=choices.assume_from_model,
    )
    trusts = choices.assume_from_model
    checks = replace(
        choices.comparison.read(choices.provider), assume=choices.assume, assume_from_model=trusts
    )
    suspect = Suspect(model, options, checks, inline=choices.inline)
    culprit = suspect.find_culprit()
    if not choices.as_json:
        print_assumed(choices.assume, model, from_model=trusts)
    if culprit is None:
        say("null" if choices.as_json else "found no rewrite that changes an output")
        if suspect.report is not None and not suspect.report.ok:
            say(f"xopt: warning: {suspect.report.summary()}", err=True)
            return NOT_VERIFIED
        return 0
    small = suspect.minimal_model(culprit)
    if small is not None:
        save(small, target, model.parent)
    if choices.as_json:
        print_json(BisectDocument(culprit, None if small is None else target))
    else:
        _print(culprit, target, 0 if small is None else len(small.graph.node))
    return DIFFERENT


def _print(culprit: Culprit, target: Path, nodes: int) -> None:
    say(str(culprit))
    say(f"found in {counted(culprit.runs, 'verification')}")
    if nodes:
        say(f"written to {target}: a model of {counted(nodes, 'node')} that shows the difference")
    else:
        say("no subgraph shows the difference alone; nothing was written")
