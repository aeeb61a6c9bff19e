"""Statistics of the channels of tensors on samples."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
import onnx

from xoptim.match.quantization import Channels
from xoptim.verification.runs.session import Value

_AXES: Final = {"MatMul": -1, "Gemm": -1, "FusedMatMul": -1, "Conv": 1}
"""The channel axis of the first operand. If operators of several kinds read one operand, the axis
of Conv counts.
"""


def channel_axes(model: onnx.ModelProto) -> dict[str, int]:
    """The channel axis of each first operand of a MatMul, Gemm or Conv of the main graph."""
    ranked = sorted(
        (node for node in model.graph.node if node.op_type in _AXES),
        key=lambda node: _AXES[node.op_type],
    )
    return {node.input[0]: _AXES[node.op_type] for node in ranked}


class ChannelStatistics:
    """Statistics of the channels of float32 tensors; all samples have the same weight.

    Args:
        axes: the axis of the channels of each tensor.
    """

    def __init__(self, axes: Mapping[str, int]) -> None:
        self._axes = axes
        self._by_sample: dict[str, list[Channels]] = {}

    def add(self, values: Mapping[str, Value]) -> None:
        """Take in the values of one sample."""
        for name, axis in self._axes.items():
            value = values.get(name)
            if (
                isinstance(value, np.ndarray)
                and value.dtype == np.float32
                and value.ndim > max(axis, 1)
            ):
                self._by_sample.setdefault(name, []).append(_channels(value, axis))

    def by_name(self) -> dict[str, Channels]:
        """The statistics, except of tensors that are empty or not finite in a sample, or whose
        number of channels changes.
        """
        return {
            name: joined
            for name, samples in self._by_sample.items()
            if (joined := _joined(samples)) is not None
        }


def _channels(value: np.ndarray, axis: int) -> Channels:
    rows = np.moveaxis(value, axis, -1).reshape(-1, value.shape[axis]).astype(np.float64)
    if not rows.size:
        empty = np.full(value.shape[axis], np.nan)
        return Channels(empty, empty, empty, empty)
    return Channels(
        rows.min(axis=0), rows.max(axis=0), rows.mean(axis=0), np.square(rows).mean(axis=0)
    )


def _joined(samples: Iterable[Channels]) -> Channels | None:
    low, high, mean, square = zip(*samples, strict=True)
    if len({channels.shape for channels in low}) > 1:
        return None
    joined = Channels(
        np.min(low, axis=0), np.max(high, axis=0), np.mean(mean, axis=0), np.mean(square, axis=0)
    )
    return joined if np.isfinite(joined).all() else None
