"""``xopt verify A B``."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from xoptim import PrecisionOptions, VerificationOptions, VerificationReport, proof, verify
from xoptim.api.advice import Advice
from xoptim.api.preparing import Source
from xoptim.integrations.torch.factory import verify_made
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.record import has_record
from xoptim.precision.within import verify_within
from xoptim.targets import named
from xoptim.targets.verifying import verify_on_target
from xoptim.verification.inputs.feeding import warn_of_missing
from xoptim.verification.runs.protos import quantized_operators

from ..exit_codes import DIFFERENT, NOT_VERIFIED, code_of
from ..files import MODEL, readable
from ..guard import note
from ..loosened import loosened_text, warn_of_loosened
from ..memory import MEMORY_BOUND
from ..options import (
    command,
    common,
    flag,
    json_option,
    names_of,
    option,
    providers_option,
    quiet_option,
    refuse_idle,
    target_option,
)
from ..preparation import assume_from_model_option, assume_option, fitting
from ..progress import Progress
from ..selection import operators_option
from ..settings import used_settings
from ..tables import print_json
from ..targeting import provider_there
from ..terminal import say
from ..verification import (
    Comparison,
    check_values_used,
    metric_option,
    read_tolerances,
    tolerance_option,
)

_SAME_PROVIDER: Final = ("rtol", "atol", "ulp", "exact", "tf32", "fewer_inputs")
"""Parameters of a comparison of two models on the same provider."""


@dataclass(frozen=True)
class _VerifyChoices:
    provider: tuple[str, ...] = providers_option()
    target: str = target_option("Run ORIGINAL on the CPU, and OTHER on this target.")
    comparison: Comparison = field(default_factory=Comparison)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    against_torch: str = option(
        "Compare with the torch module that this function returns.",
        default="",
        metavar="PACKAGE.MODULE:FUNCTION",
    )
    tolerance: tuple[str, ...] = tolerance_option("Compare as --precision does, within this error")
    metric: ErrorMetric = metric_option()
    include: tuple[str, ...] = operators_option()
    certificate: Path | None = option(
        "Prove that OTHER equals ORIGINAL by this certificate, without runs.",
        type=MODEL,
        metavar="FILE",
    )
    fewer_inputs: bool = flag("OTHER may lack inputs that do not affect the outputs.")
    exact: bool = flag("Require bitwise equal outputs.")
    as_json: bool = json_option()
    quiet: bool = quiet_option()

    @property
    def has_usual_tolerance(self) -> bool:
        """Whether the default tolerance applies, which allows differences by rounding only."""
        comparison = self.comparison
        usual = comparison.ulp is comparison.rtol is comparison.atol is None
        return usual and not self.exact and not self.tolerance

    def within(self) -> PrecisionOptions:
        """The error that a quantized model may have."""
        values = self.comparison.values
        return PrecisionOptions(
            **read_tolerances(self.tolerance),
            metric=self.metric,
            feeds=values.samples(),
            seed=values.seed,
        )

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        reasons = self.comparison.idle((*self.provider, self.target))
        if self.against_torch:
            reasons |= dict.fromkeys(("target", "fewer_inputs"), "with --against-torch")
        if not self.tolerance:
            reasons["metric"] = "without --tolerance"
        elif self.target or self.against_torch:
            word = "--target" if self.target else "--against-torch"
            reasons |= dict.fromkeys(("tolerance", "metric"), f"with {word}")
        else:
            names = ("ulp", "rtol", "atol", "exact", "fewer_inputs", "test_data")
            reasons |= dict.fromkeys(names, "with --tolerance")
        if self.certificate is not None:
            used = {"certificate", "as_json", "quiet"}
            unused = [name for name in names_of(_VerifyChoices) if name not in used]
            reasons |= dict.fromkeys(unused, "with --certificate, which runs nothing")
        if self.target:
            reasons |= dict.fromkeys(
                _SAME_PROVIDER, "with --target, which has a tolerance of its own"
            )
        return reasons


@command("verify", original=MODEL, other={"type": MODEL, "required": False})
def verify_command(
    context: click.Context, original: Path, other: Path | None, choices: _VerifyChoices
) -> int:
    """Compare two models, or a model with its torch module.

    With --target, OTHER runs on the target, and the first node that differs is named.

    Exit code 1 when the models differ, 2 when a model cannot be read. Exit code 3 when they are not
    verified: ORIGINAL does not run, its outputs are random, or the models differ and their metadata
    has assumptions that were not given.
    """
    refuse_idle(choices.idle())
    if (other is None) != bool(choices.against_torch):
        raise click.UsageError("give two models, or one model and --against-torch")
    if choices.certificate is not None and other is not None:
        return _certified(original, other, choices.certificate, choices)
    uses_first_sizes = bool(choices.target or choices.against_torch)
    if uses_first_sizes and not (choices.quiet or choices.as_json):
        choices.comparison.values.say_first()
    if choices.target and other is not None:
        return _verified_there(original, other, choices)
    choices = replace(choices, assume=fitting(original, choices.assume))
    options = replace(
        choices.comparison.read(choices.provider, exact=choices.exact),
        samples=() if uses_first_sizes else choices.comparison.values.samples()[1:],
        **common(VerificationOptions, choices),
    )
    checks_by_provider = [replace(options, providers=(provider,)) for provider in options.providers]
    with Progress(enabled=not (choices.as_json or choices.quiet)) as progress:
        progress.say("verifying")
        reports = [
            _compared(original, other, choices, checks, progress) for checks in checks_by_provider
        ]
    check_values_used(reports, options)
    is_different = any(report.status == "different" for report in reports)
    if other is not None and is_different:
        _warn_of_difference(original, other, choices)
    if choices.as_json:
        warn_of_loosened()
        print_json(reports)
    else:
        for report in reports:
            say(f"{readable(report.verdict())}{loosened_text()}")
            if report.assumptions:
                say(f"  assumed: {', '.join(report.assumptions)}")
            for line in report.notes:
                say(f"  {line}")
        if used_settings(context) is not None:
            say(f"settings: {used_settings(context)}")
    return code_of(reports)


def _certified(original: Path, other: Path, path: Path, choices: _VerifyChoices) -> int:
    """Check a certificate, and return the exit code."""
    with Progress(enabled=not (choices.as_json or choices.quiet)) as progress:
        check = proof.checking.check_certificate(original, other, path, progress.say)
    if choices.as_json:
        print_json(check)
    else:
        say(readable(check.summary()))
        for label, lines in (("premise", check.premises), ("not proved", check.unproved)):
            for line in lines:
                say(f"  {label}: {readable(line)}")
    return 0 if check.is_proved else NOT_VERIFIED


def _compared(
    original: Path,
    other: Path | None,
    choices: _VerifyChoices,
    checks: VerificationOptions,
    progress: Progress,
) -> VerificationReport:
    if other is None:
        MEMORY_BOUND.lift()
        return verify_made(choices.against_torch, original, checks)
    if choices.tolerance:
        return verify_within(original, other, choices.within(), checks)
    return verify(original, other, checks, on_step=progress.say)


def _warn_of_difference(original: Path, other: Path, choices: _VerifyChoices) -> None:
    """Warn if the reason for a difference may be an option that was left out."""
    if choices.has_usual_tolerance:
        _warn_of_quantization(original, other)
    elif choices.tolerance and choices.comparison.values.feeds is None:
        text = "the inputs were random, but a quantized model has the ranges of its samples"
        remedy = f"give them with {Advice('samples', 'FILE')} or a folder"
        say(f"xopt: warning: {text}; {remedy}", err=True)


def _warn_of_quantization(original: Path, other: Path) -> None:
    """Warn that the error of a quantized model needs a tolerance."""
    before, after = Source(original).proto, Source(other).proto
    operators = quantized_operators(after) - quantized_operators(before)
    if operators or (has_record(after) and not has_record(before)):
        names = f" ({', '.join(sorted(operators))})" if operators else ""
        say(
            f"xopt: warning: {other} is quantized{names}; --tolerance allows for its error",
            err=True,
        )


def _verified_there(original: Path, other: Path, choices: _VerifyChoices) -> int:
    """Run ``original`` on the CPU and ``other`` on a target, and return the exit code."""
    target = named(choices.target)
    if len(choices.provider) > 1:
        raise click.UsageError("--target runs on one provider; give one --provider")
    provider_there(target.name, choices.provider[0])
    MEMORY_BOUND.lift()
    checks = choices.comparison.read(("cpu",))
    checks = replace(
        checks,
        assume=fitting(original, choices.assume),
        assume_from_model=choices.assume_from_model,
    )
    note(f"verifying on {target.name}")
    source = Source(other)
    check = verify_on_target(
        original,
        source.proto,
        target,
        checks,
        source.base_dir,
        software_device=checks.software_device,
    )
    warn_of_missing(original, checks.feeds)
    if choices.as_json:
        warn_of_loosened()
        print_json(check)
    else:
        say(f"{target.name}: {check.summary()}{loosened_text()}")
    return {"equal": 0, "different": DIFFERENT}.get(check.status, NOT_VERIFIED)
