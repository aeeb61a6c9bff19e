"""``xopt diff A B``."""

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from xoptim import ValidationOptions, diff, diff_values

from ..exit_codes import DIFFERENT
from ..files import MODEL
from ..options import command, common, flag, json_option, option, providers_option, refuse_idle
from ..preparation import assume_from_model_option, assume_option, fitting, in_force, print_assumed
from ..tables import open_console, print_json
from ..validation import COMPARISON, VALUES, Comparison


@dataclass(frozen=True)
class _Choices:
    values: bool = flag("Run both, and compare the results that have the same name in both.")
    limit: int = option("Most differences to print.", type=click.IntRange(min=1), default=100)
    provider: tuple[str, ...] = providers_option("cpu or cuda, for --values.")
    comparison: Comparison = field(default_factory=Comparison)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    as_json: bool = json_option()


@command("diff", first=MODEL, second=MODEL)
def diff_command(first: Path, second: Path, choices: _Choices) -> int:
    """Compare FIRST and SECOND: nodes by structure and by name, attributes, constants, inputs,
    outputs and operator sets.

    With --values, the first result that differs is the one whose operands are equal. Exit code 1
    when there is a difference.
    """
    unused = dict.fromkeys(
        ("provider", "assume", "assume_from_model", *COMPARISON, *VALUES), "without --values"
    )
    refuse_idle(choices.comparison.idle(choices.provider) if choices.values else unused)
    if choices.as_json:
        refuse_idle({"limit": "with --json, which has all differences"})
    if choices.values:
        choices = replace(choices, assume=fitting(first, choices.assume))
    found: list[Any] = list(
        diff_values(first, second, _checks(choices)) if choices.values else diff(first, second)
    )
    if choices.as_json:
        trusts = choices.assume_from_model
        known = in_force(choices.assume, first, second, from_model=trusts)
        differences = [each.to_json() for each in found]
        print_json({"assumptions": known, "differences": differences})
        return DIFFERENT if found else 0
    if choices.values:
        print_assumed(choices.assume, first, second, from_model=choices.assume_from_model)
    console = open_console()
    for each in found[: choices.limit]:
        console.print(
            f"{'first ' if choices.values and each.is_first else ''}{each}", highlight=False
        )
    more = (
        f"; {len(found) - choices.limit} not shown (--limit)" if len(found) > choices.limit else ""
    )
    if choices.values:
        console.print(f"{len(found) or 'no'} results differ{more}", highlight=False)
    else:
        counts = Counter(each.kind for each in found)
        text = ", ".join(
            f"{counts[kind]} {kind}" for kind in ("added", "removed", "changed") if counts[kind]
        )
        console.print(f"{text or 'no difference'}{more}", highlight=False)
    return DIFFERENT if found else 0


def _checks(choices: _Choices) -> ValidationOptions:
    """The values and tolerances of ``--values``."""
    return replace(choices.comparison.read(choices.provider), **common(ValidationOptions, choices))
