"""Slices of outputs that join quantities of several scales, such as boxes in pixels and scores.

An error that is small for a box may change every score: each slice is measured on its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_low
from typing import Final, TypeAlias

import numpy as np
import onnx

from xoptim.precision.labels import Group, OriginReader, groups_along, joined_outputs
from xoptim.precision.metrics import ErrorMetric, error_of_value, holds_floats, size_by
from xoptim.system.machine import release_memory
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings

_MAX_SLICES: Final = 64  # of an output
_MAX_CHANNELS: Final = 1024
_MIN_ELEMENTS: Final = 32  # of a channel; the largest of fewer elements does not tell the scale
_MIN_SAMPLES: Final = 3
"""With fewer samples, the lower median is the smallest norm, so a typical norm would never be
larger than that of the sample itself.
"""
_SCALE_RATIO: Final = 10.0
"""Channels whose largest values differ by a larger factor are of different scales."""
_STEP_RATIO: Final = math.sqrt(_SCALE_RATIO)
"""Channels are sorted by scale, and split where the scale falls by a larger factor. The scores of
classes stay together this way: they fall to small values in small steps.
"""


Origins: TypeAlias = Mapping[str, Sequence[np.ndarray]]
"""By output, for each sample, the number of the tensor that each element comes from."""


@dataclass(frozen=True, slots=True)
class OutputSlice:
    """A part of an output that has a scale of its own.

    Attributes:
        place: the index of the output.
        output: the name of the output.
        axis: of the output, ``None`` for the whole output.
        indices: the indices along the axis, for each length that the axis has on the samples.
        typical: the lower median of the norms on all samples; 0 with fewer than three samples, or
            if the metric has no norm. Errors of a sample with a smaller norm are relative to it.
        largest: the largest norm on all samples; 0 for a whole output. It replaces ``typical`` on a
            sample of zeros if ``typical`` is 0, as where half of the samples are zeros.
        rank: of the output.
        count: the smallest number of elements on a sample; 0 if the output is no array.
    """

    place: int
    output: str
    axis: int | None = None
    indices: Mapping[int, Group] = field(default_factory=dict)
    typical: float = 0.0
    largest: float = 0.0
    rank: int = 0
    count: int = 0

    def of(self, value: np.ndarray) -> np.ndarray:
        """The elements of the slice, from a value of the output."""
        if self.axis is None:
            return value
        indices = self.indices.get(value.shape[self.axis])
        if indices is None:
            return value
        if indices.size == indices[-1] - indices[0] + 1:
            span = slice(int(indices[0]), int(indices[-1]) + 1)
            return value[(slice(None),) * self.axis + (span,)]
        return np.take(value, indices, self.axis)

    def measured(self, values: Sequence[np.ndarray], metric: ErrorMetric) -> OutputSlice:
        """The slice with its norms by a metric, and its number of elements.

        Args:
            values: of the output, on each sample; empty if the output is no array.
            metric: the error that is measured.
        """
        if not values:
            return self
        norms = [size_by(metric, self.of(value)) for value in values]
        return replace(
            self,
            typical=median_low(norms) if len(norms) >= _MIN_SAMPLES else 0.0,
            largest=max(norms) if self.axis is not None else 0.0,
            count=min(self.of(value).size for value in values),
        )

    def __str__(self) -> str:
        """The output, and the indices of the slice: ``scores, columns 4 to 83``."""
        if self.axis is None:
            return self.output
        ranges = _ranges_text(next(iter(self.indices.values())))
        if self.axis == self.rank - 1:
            return f"{self.output}, columns {ranges}"
        if self.axis == self.rank - 2:
            return f"{self.output}, rows {ranges}"
        return f"{self.output}, {ranges} of axis {self.axis}"


def _ranges_text(indices: Group) -> str:
    """Indices as up to three ranges: ``0 to 3, 8, 10 to 12, ...``."""
    ends = np.flatnonzero(np.diff(indices) != 1)
    starts = [0, *(ends + 1)]
    stops = [*ends, indices.size - 1]
    texts = [
        f"{indices[start]} to {indices[stop]}" if start < stop else f"{indices[start]}"
        for start, stop in zip(starts, stops, strict=True)
    ]
    return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")


@dataclass(frozen=True, slots=True)
class OutputSlices:
    """The slices of all outputs of a model; each element is in one of them."""

    slices: Sequence[OutputSlice]

    @classmethod
    def find(
        cls,
        names: Sequence[str],
        origins: Origins,
        expected: Sequence[Sequence[Value]],
        metric: ErrorMetric,
    ) -> OutputSlices:
        """The slices of the outputs of a model.

        Operands of Concats are slices of the output that joins them, along the axis on which their
        scales differ most. Other outputs are split into channels whose largest values differ by
        more than a factor of 10, unless the metric compares channels with each other.

        Args:
            names: of the outputs.
            origins: of their elements on each sample.
            expected: the outputs on each sample.
            metric: the error that is measured.
        """
        slices: list[OutputSlice] = []
        for place, name in enumerate(names):
            values = [outputs[place] for outputs in expected]
            arrays = [value for value in values if isinstance(value, np.ndarray)]
            is_sliced = len(arrays) == len(values) and all(map(_is_sliceable, arrays))
            parts = _joined(arrays, origins.get(name, [])) if is_sliced else []
            if is_sliced and not parts and metric != "choice":
                parts = _channels(arrays)
            own_slices = [
                OutputSlice(place, name, axis, indices, rank=arrays[0].ndim)
                for axis, indices in parts
            ] or [OutputSlice(place, name)]
            slices += [part.measured(arrays, metric) for part in own_slices]
        return cls(slices)

    def errors(
        self, metric: ErrorMetric, expected: Sequence[Value], actual: Sequence[Value]
    ) -> tuple[float, ...]:
        """The error of each slice, as a fraction; see `error_of_value`."""
        return tuple(
            self._error(part, metric, expected[part.place], actual[part.place])
            for part in self.slices
        )

    def _error(
        self, part: OutputSlice, metric: ErrorMetric, expected: Value, actual: Value
    ) -> float:
        if (
            not isinstance(expected, np.ndarray)
            or not isinstance(actual, np.ndarray)
            or expected.shape != actual.shape
        ):
            return error_of_value(metric, expected, actual)
        expected, actual, typical = part.of(expected), part.of(actual), part.typical
        if not typical and not size_by(metric, expected):
            typical = part.largest
        return error_of_value(metric, expected, actual, typical)


_Part: TypeAlias = tuple[int, dict[int, Group]]
"""An axis, and indices along it for each length that it has."""


def output_origins(
    model: onnx.ModelProto,
    folder: Path | None,
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
) -> Origins:
    """The origins of the elements of outputs that join several tensors, for each sample.

    Empty if the model does not run with inner results as outputs. The model is loaded for this, so
    no other session should hold its weights.
    """
    outputs = joined_outputs(model)
    if not outputs:
        return {}
    try:
        reader = OriginReader(model, folder, outputs, settings)
        by_sample = [reader.origins(sample) for sample in feeds]
    except (LoadError, RunError):
        return {}
    del reader
    release_memory()
    names = set[str]().union(*by_sample).intersection(*by_sample)
    return {name: [origins[name] for origins in by_sample] for name in names}


def _is_sliceable(value: np.ndarray) -> bool:
    return value.ndim > 0 and value.size > 0 and holds_floats(value)


def _joined(values: Sequence[np.ndarray], origins: Sequence[np.ndarray]) -> list[_Part]:
    """The slices by origin of the elements, along the axis on which their scales differ most."""
    if not origins:
        return []
    candidates = [
        (_spread(values, axis, parts), axis, parts)
        for axis in range(values[0].ndim)
        if (parts := _parts_along(origins, axis))
    ]
    if not candidates:
        return []
    _, axis, parts = max(candidates, key=lambda candidate: candidate[:2])
    return [(axis, indices) for indices in parts]


def _parts_along(origins: Sequence[np.ndarray], axis: int) -> list[dict[int, Group]]:
    """The groups of an axis, each with its indices for each length of the axis.

    Empty where samples differ in the number of groups, or in the indices at the same length.
    """
    parts: list[dict[int, Group]] = []
    for array in origins:
        groups = groups_along(array, axis)
        if not 1 < len(groups) <= _MAX_SLICES or len(groups) != len(parts or groups):
            return []
        parts = parts or [{} for _ in groups]
        for part, group in zip(parts, groups, strict=True):
            indices = part.setdefault(array.shape[axis], group)
            if not np.array_equal(indices, group):
                return []
    return parts


def _spread(values: Sequence[np.ndarray], axis: int, parts: Sequence[Mapping[int, Group]]) -> float:
    """The largest scale of slices, divided by the smallest scale above 0."""
    scales = [scale for part in parts if (scale := _scale(values, axis, part))]
    return max(scales) / min(scales) if scales else 0.0


def _scale(values: Sequence[np.ndarray], axis: int, part: Mapping[int, Group]) -> float:
    """The largest finite magnitude of a slice."""
    return max(
        (_magnitude(np.take(value, part[value.shape[axis]], axis)) for value in values),
        default=0.0,
    )


def _magnitude(value: np.ndarray) -> float:
    magnitudes = np.abs(value[np.isfinite(value)])
    return float(magnitudes.max(initial=0.0))


def _channels(values: Sequence[np.ndarray]) -> list[_Part]:
    """The slices of channels of one scale along the axis on which scales differ most."""
    candidates = [
        (groups[0][1] / groups[-1][1], axis, groups)
        for axis in range(1, values[0].ndim)
        if len(groups := _channel_groups(values, axis)) > 1
    ]
    if not candidates:
        return []
    _, axis, groups = max(candidates, key=lambda candidate: candidate[:2])
    length = values[0].shape[axis]
    ordered = sorted((indices for indices, _ in groups), key=lambda indices: int(indices[0]))
    return [(axis, {length: indices}) for indices in ordered]


def _channel_groups(values: Sequence[np.ndarray], axis: int) -> list[tuple[Group, float]]:
    """The groups of channels of one scale, with this scale, the largest first.

    Empty if the axis does not hold channels, if all channels are of one scale, or if there are more
    than `_MAX_SLICES` groups.
    """
    lengths = {value.shape[axis] for value in values if value.ndim > axis}
    length = max(lengths)
    elements = sum(value.size for value in values) // length
    if len(lengths) > 1 or not 1 < length <= _MAX_CHANNELS or elements < _MIN_ELEMENTS:
        return []
    scales = np.zeros(length)
    for value in values:
        magnitudes = np.abs(np.where(np.isfinite(value), value, 0))
        axes = tuple(index for index in range(value.ndim) if index != axis)
        scales = np.maximum(scales, magnitudes.max(axis=axes))
    is_used = scales > 0
    if not is_used.any() or scales.max() <= _SCALE_RATIO * scales[is_used].min():
        return []
    order = np.argsort(-scales, kind="stable")
    order, unused = order[is_used[order]], order[~is_used[order]]
    steps = scales[order[:-1]] / scales[order[1:]]
    groups = np.split(order, np.flatnonzero(steps > _STEP_RATIO) + 1)
    # Channels that are 0 on all samples have no scale.
    groups[-1] = np.concatenate((groups[-1], unused))
    if len(groups) > _MAX_SLICES:
        return []
    return [(np.sort(group), float(scales[group].max())) for group in groups]
