"""``xopt report A B``: a page about two models."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import click

from xoptim import report
from xoptim.bench import BenchOptions

from ..exit_codes import DIFFERENT
from ..files import MODEL, output_option, writable
from ..options import command, flag, provider_option, refuse_idle
from ..progress import Progress
from ..terminal import say
from ..validation import COMPARISON, VALUES, Comparison, verify_option

PATIENCE: Final = 5.0
"""Seconds of measured runs for each of the two models."""


@dataclass(frozen=True)
class _Choices:
    output: Path | None = output_option("File to write (default: SECOND.html beside it).", metavar="FILE")
    verify: bool = verify_option()
    benchmark: bool = flag("Measure the time of a run of both, and of each operator.")
    provider: str = provider_option()
    comparison: Comparison = field(default_factory=Comparison)


@command("report", first=MODEL, second=MODEL)
def report_command(first: Path, second: Path, choices: _Choices) -> int:
    """Draw FIRST and SECOND side by side, with the changes between them, as one HTML file.

    xopt MODEL --report FILE shows each rewrite of an optimization; here, changes are found by comparing. Exit code 1 when the
    results of the models differ.
    """
    target = writable(choices.output or second.with_name(f"{second.stem}.html"))
    if target.exists() and any(target.samefile(model) for model in (first, second)):
        raise click.UsageError(f"{str(target)!r} is one of the models")
    if not choices.verify:
        measured = () if choices.benchmark else ("provider", *VALUES)
        refuse_idle(dict.fromkeys((*COMPARISON, *measured), "with --no-verify"))
    providers = (choices.provider,)
    refuse_idle(choices.comparison.idle(providers))
    checks = choices.comparison.read(providers, runs=choices.verify, several=choices.benchmark)
    bench = BenchOptions(provider=choices.provider, seconds=PATIENCE, **choices.comparison.values.measured())
    with Progress(enabled=True) as progress:
        progress.say("comparing")
        verify, timing = checks if choices.verify else False, bench if choices.benchmark else None
        made = report(first, second, target, verify=verify, bench=timing)
    for each in made.validation:
        say(f"validation  {', '.join(each.providers)}: {each.summary()}")
    say(f"written     {target}")
    return DIFFERENT if any(each.status == "different" for each in made.validation) else 0
