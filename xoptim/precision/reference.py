"""The outputs of the float32 model on samples, with which quantized models are compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import onnx

from xoptim.facts.words import abridged, listed, meant
from xoptim.precision.float16_io import with_float16_feeds
from xoptim.precision.options import PrecisionOptions
from xoptim.precision.samples import Samples
from xoptim.precision.slices import Origins, OutputSlices, output_origins
from xoptim.precision.unseen import random_errors, unseen_errors
from xoptim.system.machine import release_memory
from xoptim.verification.errors import ChoiceError
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings


class SliceError(NamedTuple):
    """The error of a slice of an output, and its tolerance, as fractions."""

    name: str
    error: float
    tolerance: float
    is_only: bool = True  # the model has no other slice
    typical: float = 0.0  # see `OutputSlice`


Errors: TypeAlias = tuple[float, ...]
"""The error of each slice, scaled so that the general tolerance applies to all slices."""


def largest_errors(errors: Iterable[Errors]) -> Errors:
    """The largest error of each slice."""
    return tuple(map(max, zip(*errors, strict=True)))


@dataclass(frozen=True, slots=True)
class FloatReference:
    """The outputs of a float32 model on samples.

    Attributes:
        samples: the values of the inputs.
        expected: the outputs, one list for each sample.
        slices: the slices of the outputs whose errors are measured separately.
        precision: the metric, and the tolerances.
        settings: of the sessions.
    """

    samples: Samples
    expected: Sequence[Sequence[Value]]
    slices: OutputSlices
    precision: PrecisionOptions
    settings: SessionSettings

    @classmethod
    def of(
        cls,
        model: onnx.ModelProto,
        folder: Path | None,
        samples: Samples,
        precision: PrecisionOptions,
        settings: SessionSettings,
    ) -> "FloatReference":
        """The outputs of a model on samples."""
        names = [value.name for value in model.graph.output]
        origins = output_origins(model, folder, samples.feeds, settings)
        session = Session(model, settings, base_dir=folder)
        expected = [session.run(feeds) for feeds in samples.feeds]
        del session
        release_memory()
        return cls.from_outputs(names, origins, samples, expected, precision, settings)

    @classmethod
    def from_outputs(
        cls,
        names: Sequence[str],
        origins: Origins,
        samples: Samples,
        expected: Sequence[Sequence[Value]],
        precision: PrecisionOptions,
        settings: SessionSettings,
    ) -> "FloatReference":
        """The reference of a model that has run.

        Raises `ChoiceError` if a tolerance names an output that the model does not have.
        """
        unknown = [name for name in precision.tolerances if name not in names]
        if unknown:
            raise ChoiceError(
                f"the model has no output {abridged(unknown[0])} for a tolerance (it has "
                f"{listed(names)}){meant(unknown[0], names)}"
            )
        slices = OutputSlices.find(names, origins, expected, precision.metric)
        return cls(samples, expected, slices, precision, settings)

    @property
    def count(self) -> int:
        """The number of slices."""
        return len(self.slices.slices)

    def errors(self, index: int, actual: Sequence[Value]) -> Errors:
        """The errors of outputs on one sample."""
        errors = self.slices.errors(self.precision.metric, self.expected[index], actual)
        return tuple(error * factor for error, factor in zip(errors, self._factors(), strict=True))

    def sample_errors(self, model: onnx.ModelProto, folder: Path | None) -> list[Errors]:
        """The errors of a model on each sample."""
        session = Session(model, self.settings, base_dir=folder)
        errors = [
            self.errors(index, session.run(with_float16_feeds(feeds, session.inputs)))
            for index, feeds in enumerate(self.samples.feeds)
        ]
        del session
        release_memory()
        return errors

    def errors_of(self, model: onnx.ModelProto, folder: Path | None) -> Errors:
        """The errors of a model: the largest ones on all samples."""
        return largest_errors(self.sample_errors(model, folder))

    def unseen(self, errors: Iterable[Errors]) -> Errors:
        """Upper bounds of the errors on unseen values like the samples; rarely exceeded.

        Args:
            errors: the errors on each sample that was measured.
        """
        if self.samples.are_random:
            return random_errors(errors, self.samples.count)
        counts = [part.count for part in self.slices.slices]
        return unseen_errors(errors, counts, self.samples.count)

    def unseen_errors_of(self, model: onnx.ModelProto, folder: Path | None) -> Errors:
        """Bounds of the errors of a model on values similar to the samples; see `unseen`."""
        return self.unseen(self.sample_errors(model, folder))

    def unseen_error_of(self, model: onnx.ModelProto, folder: Path | None) -> float:
        """The largest of `unseen_errors_of`."""
        return max(self.unseen_errors_of(model, folder), default=0.0)

    def worst(self, errors: Errors) -> SliceError:
        """The slice that uses most of its tolerance."""
        factors, parts = self._factors(), self.slices.slices
        index = max(range(len(errors)), key=lambda position: errors[position])
        tolerance = self.precision.tolerance / factors[index]
        error = errors[index] / factors[index]
        part = parts[index]
        return SliceError(str(part), error, tolerance, len(parts) == 1, part.typical)

    def _factors(self) -> list[float]:
        """The general tolerance divided by the tolerance of each slice."""
        precision = self.precision
        return [
            precision.tolerance / precision.tolerances.get(part.output, precision.tolerance)
            for part in self.slices.slices
        ]
