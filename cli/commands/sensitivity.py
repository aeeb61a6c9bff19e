"""``xopt sensitivity MODEL``."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from xoptim import OptimizationOptions
from xoptim.optimizing.proof import Draft, ProofOptions, prove
from xoptim.precision.lowering import in_floats
from xoptim.precision.measuring import Sensitivity, sensitivity
from xoptim.precision.metrics import Metric
from xoptim.precision.options import SCHEMES, PrecisionOptions, Scheme

from ..files import MODEL
from ..options import command, json_option, option, providers_option
from ..preparation import assume_from_model_option, assume_option, fitting, print_assumed
from ..progress import Progress
from ..selection import SelectionWithRules
from ..tables import Rows, open_console, print_json
from ..terminal import say
from ..validation import Comparison, metric_option


@dataclass(frozen=True)
class _Choices:
    precision: Scheme = option(
        "The number of bits.", type=click.Choice(SCHEMES), default="int8", show_default=True
    )
    metric: Metric = metric_option()
    selection: SelectionWithRules = field(default_factory=SelectionWithRules)
    assume: tuple[str, ...] = assume_option()
    assume_from_model: bool = assume_from_model_option()
    provider: tuple[str, ...] = providers_option()
    comparison: Comparison = field(default_factory=Comparison)
    as_json: bool = json_option()


@command("sensitivity", model=MODEL)
def sensitivity_command(model: Path, choices: _Choices) -> None:
    """Measure each product of MODEL, once optimized, with fewer bits: the error that it alone adds,
    and the time that it saves.

    The first rows save most for their error: --precision takes products in this order.
    """
    values = choices.comparison.values
    precision = PrecisionOptions(
        scheme=choices.precision, metric=choices.metric, feeds=values.samples(), seed=values.seed
    )
    options = OptimizationOptions(
        patterns=choices.selection.with_rules(),
        drop=choices.selection.drop,
        provider=choices.provider[0],
        assume=fitting(model, choices.assume),
        assume_from_model=choices.assume_from_model,
    )
    with Progress(enabled=not choices.as_json) as progress, Draft(None) as draft:
        how = ProofOptions(
            checks=choices.comparison.read(choices.provider),
            whole=False,
            on_step=progress.say,
            draft=draft,
        )
        found = sensitivity(prove(model, in_floats(options), how), options, how, precision)
    if choices.as_json:
        print_json([each.to_json() for each in found.in_order()])
    else:
        print_assumed(options.assume, model, from_model=choices.assume_from_model)
        _print(found, precision)


def _print(found: Sensitivity, precision: PrecisionOptions) -> None:
    texts = [each.texts() for each in found.in_order()]
    rows = Rows(*texts[0], right=set(texts[0]) - {"product", "pattern"})
    for each in texts:
        rows.add(*each.values())
    rows.print(open_console())
    say(
        f"{len({each.result for each in found.products})} products; error: {precision.metric}, of "
        f"{found.samples.summary()}"
    )
