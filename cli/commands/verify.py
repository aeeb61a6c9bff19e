"""``xopt verify A B``."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from xoptim import ValidationOptions, verify

from ..exit_codes import code_of
from ..files import MODEL
from ..options import command, common, flag, json_option, providers_option, refuse_idle
from ..preparation import assume_from_model_option, assume_option, fitting
from ..settings import used_settings
from ..tables import print_json
from ..terminal import say
from ..validation import Comparison, check_values_used


@dataclass(frozen=True)
class _Choices:
    provider: tuple[str, ...] = providers_option()
    comparison: Comparison = field(default_factory=Comparison)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    fewer_inputs: bool = flag("OTHER may lack inputs of ORIGINAL, whose values must not matter.")
    exact: bool = flag("Demand equal bits.")
    as_json: bool = json_option()


@command("verify", original=MODEL, other=MODEL)
def verify_command(context: click.Context, original: Path, other: Path, choices: _Choices) -> int:
    """Run ORIGINAL and OTHER on the same values and compare.

    Exit code 1 when they differ, 2 when one of them cannot be read, 3 when they are not validated: ORIGINAL
    does not run, its results are not evidence, or they differ and list assumptions that were not given.
    """
    refuse_idle(choices.comparison.idle(choices.provider))
    choices = replace(choices, assume=fitting(original, choices.assume))
    options = replace(choices.comparison.read(choices.provider, exact=choices.exact), **common(ValidationOptions, choices))
    reports = [verify(original, other, options, providers=(provider,)) for provider in options.providers]
    check_values_used(reports, options)
    if choices.as_json:
        print_json([report.to_json() for report in reports])
    else:
        for report in reports:
            say(f"{', '.join(report.providers)}: {report.summary()}")
            if report.assumptions:
                say(f"  assumed: {', '.join(report.assumptions)}")
            for note in report.notes:
                say(f"  {note}")
        if used_settings(context) is not None:
            say(f"settings: {used_settings(context)}")
    return code_of(reports)
