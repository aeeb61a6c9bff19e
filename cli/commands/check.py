"""``xopt check MODEL...``: the checks of a commit hook."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from xoptim import GraphBuilder, OptimizationOptions, VerificationOptions
from xoptim.api.preparing import Source
from xoptim.bench import BenchOptions
from xoptim.diagnose.explanation import shell_path
from xoptim.targets import PlacementError, Target, named, place
from xoptim.verification import ProviderUnavailable, library_file

from ..exit_codes import DIFFERENT, UNAVAILABLE
from ..files import MODEL, is_stream
from ..findings import Finding, annotation, sarif
from ..memory import MEMORY_BOUND
from ..options import (
    command,
    duration,
    flag,
    json_option,
    names_of,
    option,
    percentage,
    providers_option,
    refuse_idle,
    target_option,
)
from ..preparation import assume_from_model_option, assume_option, fitting, fix_option
from ..regressions import Limits, against
from ..selection import Selection
from ..settings import source_of
from ..tables import open_console, print_json
from ..targeting import (
    PLACING,
    check_target,
    exceeded,
    fixed_source,
    left_texts,
    max_left_option,
    max_partitions_option,
)
from ..verification import COMPARISON, VALUES, Comparison

_DEFAULT_SHRINK: Final = 5.0
"""Percentage of the nodes by which a model may shrink, if no check is chosen."""


@dataclass(frozen=True)
class _CheckChoices:
    max_shrink: float | None = option(
        "Fail when optimizing would remove more than this share of the nodes.",
        type=percentage,
        metavar="PERCENT",
    )
    against: str | None = option(
        "Fail when a model differs from this git revision.",
        metavar="REVISION",
    )
    max_larger: float | None = option(
        "Fail when a file is larger than at the revision of --against by more than this.",
        type=percentage,
        metavar="PERCENT",
    )
    max_slower: float | None = option(
        "Fail when a model is slower than at the revision of --against by more than this.",
        type=percentage,
        metavar="PERCENT",
    )
    seconds: float = duration("Measuring time per model, for --max-slower.", default=10.0)
    target: str = target_option("Fail when the target does not run every node of a model.")
    max_left: int | None = max_left_option()
    max_partitions: int | None = max_partitions_option()
    fix: tuple[str, ...] = fix_option()
    selection: Selection = field(default_factory=Selection)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    provider: tuple[str, ...] = providers_option()
    comparison: Comparison = field(default_factory=Comparison)
    exact: bool = flag("Require bitwise equal outputs, for --against.")
    as_json: bool = json_option()
    as_sarif: bool = flag("Print failed checks as SARIF 2.1.0, for code scanning.", "--sarif")
    github: bool = flag("Print failed checks as GitHub annotations.")

    @property
    def shrinks_at_most(self) -> float | None:
        """The percentage of ``--max-shrink``, or the default one if no check is chosen."""
        is_any = self.against is not None or bool(self.target)
        return _DEFAULT_SHRINK if self.max_shrink is None and not is_any else self.max_shrink

    @property
    def leaves_at_most(self) -> int | None:
        """The number of ``--max-left``, or 0 if no limit of the placement is chosen."""
        is_any = self.max_left is not None or self.max_partitions is not None
        return self.max_left if is_any else 0

    def checks(self) -> VerificationOptions:
        """The options of the comparison with the revision."""
        return replace(
            self.comparison.read(self.provider, exact=self.exact),
            assume_from_model=self.assume_from_model,
        )

    def limits(self) -> Limits:
        """The limits for the size and the time."""
        measurement = BenchOptions(
            provider=self.provider[0],
            assume_from_model=self.assume_from_model,
            compare=False,
            loading=False,
            seconds=self.seconds,
            **self.comparison.values.measured(),
        )
        return Limits(self.max_larger, self.max_slower, measurement)

    def idle(self) -> dict[str, str]:
        """The parameters that have no effect with others, each with the reason."""
        reasons = self.comparison.idle((*self.provider, self.target))
        if self.against is None:
            shared = PLACING if self.target else ()
            reasons |= dict.fromkeys(
                {*COMPARISON, *VALUES, "max_larger", "max_slower"} - {*shared},
                "without --against REVISION",
            )
        if self.max_slower is None:
            reasons["seconds"] = "without --max-slower"
        if self.shrinks_at_most is None:
            word = "--against" if self.against is not None else "--target"
            names = {*names_of(Selection), "assume"}
            if self.against is not None and not self.selection.selects_more:
                names.remove("include")  # a pack has operators that the comparison needs
            reasons |= dict.fromkeys(names, f"with {word} alone; see --max-shrink")
        if not self.target:
            reasons |= dict.fromkeys(("max_left", "max_partitions", "fix"), "without --target")
        if self.as_json:
            reasons |= dict.fromkeys(("as_sarif", "github"), "with --json")
        elif self.as_sarif:
            reasons["github"] = "with --sarif"
        return reasons


@command("check", models={"type": MODEL, "nargs": -1, "required": True})
def check_command(models: tuple[Path, ...], choices: _CheckChoices) -> int:
    """Fail in CI if MODELS can be optimized or differ from a commit.

    Without --max-shrink, --against and --target, the check is --max-shrink 5%. For --max-slower,
    the models of both revisions run in turn. A difference within the noise does not fail. --target
    checks which nodes of each model run there. Without --max-left and --max-partitions, all must.

    Exit code 1 when a check fails or two models cannot be compared, 2 when a model cannot be read.
    Exit code 3 when the target cannot be used here, or two models differ and their metadata has
    assumptions that were not given.
    """
    refuse_idle(choices.idle())
    check_target(choices.target, choices.provider)
    limit = choices.shrinks_at_most
    regression = None
    if choices.against is not None:  # the files of values are read once for all models
        regression = partial(
            against, revision=choices.against, limits=choices.limits(), checks=choices.checks()
        )
    findings: list[Finding] = []
    for model in models:
        if limit is not None:
            findings.append(_shrunk(model, limit, choices))
        if regression is not None:
            findings += regression(model)
        if choices.target:
            findings.append(_placed(model, named(choices.target), choices))
    _print(findings, choices)
    return min((finding.code for finding in findings if not finding.ok), default=0)


def _print(findings: Sequence[Finding], choices: _CheckChoices) -> None:
    """Print findings in the requested form."""
    if choices.as_json:
        print_json(findings)
        return
    if choices.as_sarif:
        print_json(sarif(findings))
        return
    console = open_console()
    for finding in findings:
        is_annotated = choices.github and not finding.ok
        text = annotation(finding) if is_annotated else str(finding)
        console.print(text, highlight=False, soft_wrap=True, markup=False)


def _shrunk(model: Path, limit: float, choices: _CheckChoices) -> Finding:
    """Optimize a model in memory, and check how many nodes the optimization removes."""
    source, patterns = Source(model), choices.selection.query()
    assume = fitting(source, choices.assume, always=True)
    options = OptimizationOptions(
        patterns=patterns,
        provider=choices.provider[0],
        assume=assume,
        assume_from_model=choices.assume_from_model,
    )
    builder = GraphBuilder(source, optimization_options=options)
    builder.optimize()
    report = builder.report()
    before, after = report.nodes_before, report.nodes_after
    part = 100 * (before - after) / max(before, 1)
    settings = source_of(click.get_current_context(), "max_shrink")
    origin = "" if settings is None else f" by {settings.short_name}"
    detail = f"nodes: {before} → {after}, {part:.1f} % fewer; at most {limit:g} % allowed{origin}"
    advice = (
        "" if part <= limit or is_stream(model) else f"; run `xopt {shell_path(model)} --in-place`"
    )
    assumed = builder.model.assumptions.texts
    return Finding("max-shrink", model, part <= limit, f"{detail}{advice}", assumed, DIFFERENT)


def _placed(model: Path, target: Target, choices: _CheckChoices) -> Finding:
    """Ask a target which nodes of a model it can run, and compare their number with the limits."""
    if not target.is_installed:
        text = f"on {target.name}: not installed: {target.install}"
        return Finding("target", model, False, text, (), UNAVAILABLE)
    source = fixed_source(model, choices.fix)
    values = choices.comparison.values
    MEMORY_BOUND.lift()
    try:
        placement = place(
            source.proto,
            target,
            source.base_dir,
            software_device=values.software_device,
            custom_op_libs=tuple(map(library_file, values.custom_op_lib)),
        )
    except (ProviderUnavailable, PlacementError) as error:
        text = f"on {target.name}: {error}"
        return Finding("target", model, False, text, (), UNAVAILABLE)
    limits = exceeded(placement, choices.leaves_at_most, choices.max_partitions)
    texts = [f"on {placement.summary()}", *limits, *(left_texts(placement) if limits else ())]
    return Finding("target", model, not limits, "; ".join(texts), (), DIFFERENT)
