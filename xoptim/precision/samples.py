"""The values on which errors are measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from xoptim.facts.advice import Advice
from xoptim.precision.metrics import holds_floats, is_measurable
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.sources import sample_name
from xoptim.verification.errors import FeedError, NothingToQuantizeError, RunError
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Value

_RANDOM_RUNS = 4
_MAX_MULTIPLICATIONS: Final = 4_000_000_000
"""Maximum number of multiplications of all runs that rank one candidate: 0.3 s on one core for
YOLOv8n at 640 x 640. One run is always made.
"""
_MIN_SAMPLES: Final = 10
"""Fewer samples do not bound the error on other data. With a tolerance of 2 %, models with two
logits had errors of up to 13 % on other data after two samples (relative to each sample). After
ten, the errors were up to 2.7 % (relative to the typical norm, if that is larger).
"""


class SampleError(RunError):
    """A model fails on a sample.

    Attributes:
        feeds: the sample.
    """

    def __init__(self, name: str, feeds: Mapping[str, Value], reason: str, model: str) -> None:
        super().__init__(f"{name}: the {model} model fails on it: {reason}")
        self._name, self.feeds, self._reason = name, feeds, reason

    def of(self, model: str) -> "SampleError":
        """The same error of another model."""
        return SampleError(self._name, self.feeds, self._reason, model)


@dataclass(frozen=True, slots=True)
class Samples:
    """Values of the inputs of a model.

    Attributes:
        feeds: one dictionary for each run.
        are_random: whether some of them were drawn.
        typical: values of shapes that are typical in use, to measure times on; where empty, times
            are measured on the first run.
    """

    feeds: Sequence[Mapping[str, Value]]
    are_random: bool
    typical: Mapping[str, Value] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of samples."""
        return len(self.feeds)

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
        """The runs that are not in `to_choose`."""
        return range((len(self.feeds) + 1) // 2, len(self.feeds))

    @property
    def are_few(self) -> bool:
        """Whether more samples would be needed to bound the error on other data."""
        return not self.are_random and len(self.feeds) < _MIN_SAMPLES

    def to_rank(self, multiplications: int) -> range:
        """The runs by which candidates are ranked: `to_choose`, or fewer where a run takes long, as
        there is a run for each candidate.

        Random samples have several shapes, and all of them count.

        Args:
            multiplications: of one run.
        """
        if self.are_random:
            return self.to_choose
        affordable = max(_MAX_MULTIPLICATIONS // max(multiplications, 1), 1)
        return self.to_choose[:affordable]

    def summary(self) -> str:
        """The number and the source of the values, in a few words."""
        kind = "random sample" if self.are_random else "sample"
        count = f"{len(self.feeds)} {kind}{'s' if len(self.feeds) > 1 else ''}"
        return f"{count}, {len(self.held_out)} of them held out" if self.held_out else count


def samples_for(
    model: onnx.ModelProto,
    folder: Path | None,
    options: PrecisionOptions,
    checks: VerificationOptions,
) -> Samples:
    """The samples of the options, or random samples of several shapes; the model runs on all.

    Errors are also measured on small random shapes; times are not, as nothing is faster on them.

    Raises:
        SampleError: the model does not run on a sample of the options.
        ChoiceError: values do not fit the model.
        NothingToQuantizeError: no output holds a finite number on them.
        RunError, FeedError: the model does not run on them, or no values were found on which it
            runs.
    """
    plain = replace(checks, extremes=False, original_dir=folder, seed=options.seed)
    if options.samples:
        runs = [
            _run(model, plain, feeds, sample_name(index, feeds))
            for index, feeds in enumerate(options.samples)
        ]
    else:
        runs = [*run_reference(model, replace(plain, assignments=_RANDOM_RUNS)).runs]
    if not any(is_measurable(run.results) for run in runs):
        raise NothingToQuantizeError(
            "no output has a finite value on the samples, so there is no error to measure; give "
            f"other samples with {Advice('samples')}"
        )
    are_random = any(run.source == "random" for run in runs)
    are_drawn = are_random and not options.samples
    typical = (
        run_reference(model, replace(plain, assignments=1, typical=True)).runs[0].feeds
        if are_drawn
        else {}
    )
    return Samples([run.feeds for run in runs], are_random, typical)


def samples_to_search(
    model: onnx.ModelProto,
    folder: Path | None,
    options: PrecisionOptions,
    checks: VerificationOptions,
) -> Samples:
    """The samples on which to choose what is quantized; see `samples_for`.

    Samples in which all inputs are 0 come last, as the first samples serve to choose: a MatMul of
    zeros has no error, whatever its weights are.

    Raises:
        NothingToQuantizeError: all inputs are 0 in all samples.
        ChoiceError, RunError, FeedError: see `samples_for`.
    """
    samples = samples_for(model, folder, options, checks)
    ordered = sorted(samples.feeds, key=_is_zero)
    if _is_zero(ordered[0]):
        raise NothingToQuantizeError(
            "all inputs are 0 in the samples, so they do not show the error of quantization; give "
            f"other samples with {Advice('samples')}"
        )
    return replace(samples, feeds=ordered)


def _is_zero(feeds: Mapping[str, Value]) -> bool:
    """Whether all numbers of a sample are 0, some of them floating-point numbers."""
    arrays = [value for value in feeds.values() if isinstance(value, np.ndarray)]
    return (
        len(arrays) == len(feeds)
        and any(map(holds_floats, arrays))
        and all(array.dtype.kind not in "OSU" and not array.any() for array in arrays)
    )


def _run(
    model: onnx.ModelProto, checks: VerificationOptions, feeds: Mapping[str, Value], name: str
) -> ReferenceRun:
    """The run on one sample; errors name the sample."""
    try:
        return run_reference(model, replace(checks, feeds=feeds, assignments=1)).runs[0]
    except FeedError as error:
        raise type(error)(f"{name}: {error}") from error
    except RunError as error:
        raise SampleError(name, feeds, str(error), "optimized") from error
