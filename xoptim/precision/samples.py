"""The values on which errors are measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx

from xoptim.precision.metrics import is_measurable
from xoptim.precision.options import PrecisionOptions
from xoptim.verification.errors import NothingToQuantizeError
from xoptim.verification.options import VerificationOptions
from xoptim.verification.reference import run_reference
from xoptim.verification.session import Value

_RANDOM_RUNS = 4
_HOLLOW = (
    "no output has a finite value on the samples, so there is no error to measure; give other "
    "samples with --feeds"
)


@dataclass(frozen=True, slots=True)
class Samples:
    """Values of the inputs of a model.

    Attributes:
        feeds: one dictionary for each run.
        are_random: whether some of them were drawn.
        typical: values of sizes as models have them in use, to measure times on; without any, times
            are of the first run.
    """

    feeds: Sequence[Mapping[str, Value]]
    are_random: bool
    typical: Mapping[str, Value] = field(default_factory=dict)

    @property
    def to_time(self) -> Mapping[str, Value]:
        """The values on which times are measured."""
        return self.typical or self.feeds[0]

    @property
    def to_choose(self) -> range:
        """The runs that serve to choose operators, the first half; the others are held out."""
        return range((len(self.feeds) + 1) // 2)

    @property
    def held_out(self) -> range:
        """The other runs, none when there is only one."""
        return range((len(self.feeds) + 1) // 2, len(self.feeds))

    def summary(self) -> str:
        """Where the values come from, in a few words."""
        kind = "random sample" if self.are_random else "sample"
        count = f"{len(self.feeds)} {kind}{'s' if len(self.feeds) > 1 else ''}"
        return f"{count}, {len(self.held_out)} of them held out" if self.held_out else count


def samples_for(
    model: onnx.ModelProto,
    folder: Path | None,
    options: PrecisionOptions,
    checks: VerificationOptions,
) -> Samples:
    """The values of the options, or random ones of several sizes; the model has run on all of them.

    Errors are measured at small random sizes too. Times are not: there, nothing would pay.

    Raises:
        ChoiceError: values do not fit the model.
        NothingToQuantizeError: no output holds a finite number on them.
        RunError, FeedError: the model does not run on them, or no values were found on which it
            runs.
    """
    plain = replace(checks, extremes=False, original_dir=folder, seed=options.seed)
    if options.samples:
        one = [replace(plain, feeds=feeds, assignments=1) for feeds in options.samples]
        runs = [run_reference(model, each).runs[0] for each in one]
    else:
        runs = [*run_reference(model, replace(plain, assignments=_RANDOM_RUNS)).runs]
    if not any(is_measurable(run.results) for run in runs):
        raise NothingToQuantizeError(_HOLLOW)
    are_random = any(run.source == "random" for run in runs)
    draws = are_random and not options.samples
    typical = (
        run_reference(model, replace(plain, assignments=1, typical=True)).runs[0].feeds
        if draws
        else {}
    )
    return Samples([run.feeds for run in runs], are_random, typical)
