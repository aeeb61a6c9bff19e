"""``xopt apply MODEL PATTERN``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter

from xoptim import Explanation, GraphBuilder, NoMatchError, apply_at, verification
from xoptim.diagnose.explanation import JsonResult
from xoptim.optimizing.verified import VerifiedModel, compare_each_provider
from xoptim.workflow.outcome import Outcome

from ..exit_codes import DIFFERENT
from ..files import MODEL, output_option, target_of
from ..loosened import loosened_text, warn_of_loosened
from ..options import command, flag, json_option, option, providers_option, refuse_idle
from ..pipeline import Weights, drafted, protect_weights, verdict, writer
from ..preparation import assume_from_model_option
from ..progress import Progress
from ..selection import AT, WORD, operators_option
from ..summary import Summary, print_summary
from ..tables import print_json
from ..verification import COMPARISON, VALUES, Comparison, check_values_used, verify_option
from .explain import print_explanation


@dataclass(frozen=True, slots=True)
class NoMatch(JsonResult):
    """The reasons why a pattern was not applied.

    Attributes:
        explanations: why the pattern does not match, the nearest miss first.
    """

    explanations: list[Explanation]


@dataclass(frozen=True)
class _ApplyChoices:
    at: str = option(AT, required=True, metavar="NODE")
    output: Path = output_option("File to write.", required=True)
    provider: tuple[str, ...] = providers_option()
    include: tuple[str, ...] = operators_option()
    assume_from_model: bool = assume_from_model_option()
    verify: bool = verify_option()
    comparison: Comparison = field(default_factory=Comparison)
    weights: Weights = field(default_factory=Weights)
    strict: bool = flag("Fail when the model cannot be verified.")
    as_json: bool = json_option("Print the summary as JSON.")


@command("apply", model=MODEL, pattern=WORD)
def apply_command(model: Path, pattern: str, choices: _ApplyChoices) -> int:
    """Apply PATTERN at one node of MODEL, and verify the result.

    Exit code 1 when PATTERN does not match there, or the result differs and is not written, 3 when
    it is written but not verified.
    """
    if not choices.verify:
        refuse_idle(dict.fromkeys(("strict", *COMPARISON, *VALUES), "with --no-verify"))
    refuse_idle(choices.comparison.idle(choices.provider))
    target = target_of(model, choices.output, False)
    checks = choices.comparison.read(choices.provider, runs=choices.verify)
    start = perf_counter()
    builder = GraphBuilder(model, assume_from_model=choices.assume_from_model)
    checks = replace(checks, assume=builder.model.assumptions.texts)
    loaded = perf_counter()
    protect_weights(builder, target)
    before, opset = builder.count_types(), builder.model.opsets.get("", 0)
    try:
        apply_at(builder, pattern, choices.at, provider=choices.provider[0])
    except NoMatchError as error:
        _print_misses(error, choices)
        return DIFFERENT
    optimized = perf_counter() - loaded
    with drafted(target, choices.weights) as draft, Progress(enabled=False) as progress:
        verified = VerifiedModel(
            builder, draft.export(builder.model), draft.folder, before, loaded - start, optimized
        )
        verified.opset_before = opset
        if choices.verify:
            progress.say("verifying")
            start = perf_counter()
            verified.reports = compare_each_provider(model, verified, checks)
            verified.verify_seconds = perf_counter() - start
            verification.warn_of_missing(model, checks.feeds)
            check_values_used(verified.reports, checks)
        size = model.stat().st_size + verified.external_before
        outcome = Outcome.of(verified, is_strict=choices.strict, bytes_before=size)
        if outcome.refusal is None:
            progress.say("writing")
            outcome = replace(outcome, written=writer(draft, target)(verified))
    summary = Summary(model, outcome, loosened=loosened_text())
    if choices.as_json:
        warn_of_loosened()
        print_json(summary.document())
    else:
        print_summary(summary)
    return verdict(outcome)


def _print_misses(error: NoMatchError, choices: _ApplyChoices) -> None:
    """Print the reasons why the pattern does not match."""
    if choices.as_json:
        print_json(NoMatch(error.explanations))
        return
    for explanation in error.explanations:
        print_explanation(explanation)
