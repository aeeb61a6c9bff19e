"""Second moments of the activations that are multiplied by constant weights."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from xoptim.match.block_rounding import WeightKey
from xoptim.match.quantization import LARGEST, Numbers
from xoptim.precision.calibration import Probe
from xoptim.precision.error_feedback import Curvature, curvature_of
from xoptim.precision.weight_matrices import Activations, WeightMatrices
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings

_MAX_ROWS: Final = 8192
"""Weights of more rows have no Hessian: it would take more than half a gigabyte."""
_MAX_HESSIAN_BYTES: Final = 2**29
"""Bytes of the Hessians that one pass over the samples collects."""


class Moments:
    """Second moments of the activations that are multiplied by one constant.

    Args:
        rows: of the weights, which is the number of channels of the activations.

    Attributes:
        count: number of rows of activations.
        squares: sums of the squares of each channel, of shape (rows,).
        hessian: XᵀX of all rows X of activations; ``None`` where it would be too large.
        is_fit: whether all values are finite, with the channels on the last axis.
    """

    def __init__(self, rows: int) -> None:
        self.count = 0
        self.squares: Numbers = np.zeros(rows)
        self.hessian: Numbers | None = np.zeros((rows, rows)) if rows <= _MAX_ROWS else None
        self.is_fit = True

    def add(self, value: Value) -> None:
        """Take in the activations of a sample, with the channels on the last axis."""
        rows = len(self.squares)
        if not isinstance(value, np.ndarray) or not value.ndim or value.shape[-1] != rows:
            self.is_fit = False
            return
        activations = value.reshape(-1, rows).astype(np.float64)
        # a NaN fails the comparison
        self.is_fit = self.is_fit and bool((np.abs(activations) < LARGEST).all())
        if not self.is_fit:
            return
        self.count += len(activations)
        self.squares += np.square(activations).sum(axis=0)
        if self.hessian is not None:
            self.hessian += activations.T @ activations

    @cached_property
    def curvature(self) -> Curvature | None:
        """The curvature for error feedback; ``None`` without a Hessian, or if `curvature_of` gives
        none.
        """
        return None if self.hessian is None else curvature_of(self.hessian, self.count)

    def divided(self, scale: Numbers) -> "Moments":
        """The moments of the activations divided by a scale of each channel, of shape (rows,)."""
        moments = Moments(0)
        moments.count, moments.is_fit = self.count, self.is_fit
        moments.squares = self.squares / scale**2
        if self.hessian is None or self.curvature is None:
            moments.hessian = None
            return moments
        moments.hessian = self.hessian / np.outer(scale, scale)
        # The damping stays the same: scaling activations adds no information about them.
        moments.curvature = self.curvature.divided(scale)
        return moments


def batches(
    sources: Mapping[Activations, Sequence[WeightKey]], matrices: WeightMatrices
) -> Iterator[dict[Activations, int]]:
    """The activations of a few weights at a time, with their numbers of channels, so that the
    Hessians fit into memory.
    """
    batch, total = dict[Activations, int](), 0
    for names, keys in sources.items():
        rows = matrices.rows(keys[0])
        size = rows**2 * 8 if rows <= _MAX_ROWS else 0
        if batch and total + size > _MAX_HESSIAN_BYTES:
            yield batch
            batch, total = {}, 0
        batch[names] = rows
        total += size
    if batch:
        yield batch


def collected_moments(
    model: onnx.ModelProto,
    folder: Path | None,
    batch: Mapping[Activations, int],
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
) -> dict[Activations, Moments]:
    """The second moments of some activations on the samples."""
    moments = {names: Moments(rows) for names, rows in batch.items()}
    results = {name for node in model.graph.node for name in node.output}
    probe = Probe(model, folder, {name for names in batch for name in names} & results, settings)
    for sample in feeds:
        values = probe.run(sample)
        for names, sums in moments.items():
            for name in names:
                sums.add(values[name])
    return moments
