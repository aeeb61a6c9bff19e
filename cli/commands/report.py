"""``xopt report A B``: a page about two models."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from xoptim import ValidationOptions, report
from xoptim.bench import BenchOptions

from ..exit_codes import code_of
from ..files import MODEL, default_name, output_option, writable
from ..options import command, common, flag, provider_option, refuse_idle
from ..preparation import assume_from_model_option, assume_option, fitting
from ..progress import Progress
from ..terminal import say
from ..validation import COMPARISON, VALUES, Comparison, verify_option

PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models."""


@dataclass(frozen=True)
class _Choices:
    output: Path | None = output_option(
        "File to write (default: SECOND.html beside it).", metavar="FILE"
    )
    verify: bool = verify_option()
    benchmark: bool = flag("Measure the time of a run of both, and of each operator.")
    provider: str = provider_option()
    comparison: Comparison = field(default_factory=Comparison)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()


@command("report", first=MODEL, second=MODEL)
def report_command(first: Path, second: Path, choices: _Choices) -> int:
    """Draw FIRST and SECOND side by side, with the changes between them, as one HTML file.

    xopt MODEL --report FILE shows each rewrite of an optimization; here, changes are found by
    comparing. Exit code 1 when the results of the models differ.
    """
    target = writable(choices.output or default_name(second.with_name(f"{second.stem}.html")))
    if target.exists() and any(target.samefile(model) for model in (first, second)):
        raise click.UsageError(f"{str(target)!r} is one of the models")
    if not choices.verify:
        measured = () if choices.benchmark else ("provider", *VALUES)
        refuse_idle(dict.fromkeys((*COMPARISON, *measured), "with --no-verify"))
    providers = (choices.provider,)
    refuse_idle(choices.comparison.idle(providers))
    choices = replace(choices, assume=fitting(first, choices.assume))
    read = choices.comparison.read(providers, runs=choices.verify, several=choices.benchmark)
    checks = replace(read, **common(ValidationOptions, choices))
    values = choices.comparison.values.measured()
    bench = BenchOptions(seconds=PATIENCE, **common(BenchOptions, choices), **values)
    with Progress(enabled=True) as progress:
        progress.say("comparing")
        verify, timing = checks if choices.verify else False, bench if choices.benchmark else None
        made = report(first, second, target, verify=verify, bench=timing)
    for each in made.validation:
        say(f"validation  {', '.join(each.providers)}: {each.summary()}")
        if each.assumptions:
            say(f"assumed     {', '.join(each.assumptions)}")
    say(f"written     {target}")
    return code_of(made.validation, doubtful=0)
