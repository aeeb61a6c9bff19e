"""Scales of channels that are moved from a tensor to its weights, to reduce quantization errors."""

from typing import Final

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match.block_rounding import BlockFormat, nearest_blocks
from xoptim.match.channel_scales import best_scale
from xoptim.match.quantization import Channels, Numbers

from .._folding import Array

_SHARES: Final = (0.25, 0.5, 0.75)
"""Shares of the differences between channels to move to the weights."""
_LEAST_GAIN: Final = 0.9
"""Scales are moved only if the expected error is below this share of the error without scales."""
_MAX_SCALE: Final = 2.0**12
"""Largest scale of a channel."""


def scales(channels: Channels, weights: Array) -> Numbers:
    """A scale for each channel by which to divide the tensor, and multiply its weights.

    A scale is at least 1, so that the tensor does not overflow. Of three candidates, the scales
    with the least expected error are chosen (G. Xiao et al., "SmoothQuant", 2022, section 4). The
    estimate is for a tensor in 8 bits with one scale, and weights in 8 bits with one scale for each
    column. Powers of two would be exact, but reduce the error less.

    Args:
        channels: statistics of the tensor.
        weights: the weights of all its MatMuls, of shape (channels, columns).

    Raises:
        Declined: when no scales are expected to reduce the error.
    """
    sizes, largest = (
        np.maximum(np.abs(channels.low), np.abs(channels.high)),
        np.abs(weights).max(axis=1, initial=0.0),
    )
    is_used = (sizes > 0) & (largest > 0)
    if not is_used.any():
        raise Declined("every channel is 0")
    sizes, largest = (
        np.where(is_used, magnitudes, np.median(magnitudes[is_used]))
        for magnitudes in (sizes, largest)
    )
    ratios = [sizes**share / largest ** (1 - share) for share in _SHARES]
    candidates: list[Numbers] = [np.minimum(ratio / ratio.min(), _MAX_SCALE) for ratio in ratios]
    errors = [
        expected_error(channels, weights, candidate)
        for candidate in (np.ones(len(sizes)), *candidates)
    ]
    best = int(np.argmin(errors))
    if not errors[best] < _LEAST_GAIN**2 * errors[0]:
        raise Declined("no scales are expected to reduce the quantization error")
    return candidates[best - 1]


def expected_error(channels: Channels, weights: Array, scale: Numbers) -> float:
    """The expected squared error of a row of results, up to a constant factor.

    The errors of elements are assumed to be independent. The quantization steps are 1 / 255 of the
    range of the tensor, and 1 / 127 of the largest weight of a column.
    """
    step = (
        (channels.high / scale).max(initial=0.0) - (channels.low / scale).min(initial=0.0)
    ) / 255
    scaled = weights * scale[:, None]
    steps = np.abs(scaled).max(axis=0) / 127
    return float(
        step**2 * np.square(scaled).sum()
        + np.square(steps).sum() * (channels.square / scale**2).sum()
    )


def block_scale(channels: Channels, weights: Array) -> Numbers:
    """The scale of each channel that minimizes the expected error of block-wise quantized weights.

    Channels are assumed to be independent.

    Args:
        channels: statistics of the tensor.
        weights: the weights of all its MatMuls, of shape (channels, columns).

    Raises:
        Declined: when there are no weights, the rows are not a multiple of the block size, or no
            scales are expected to reduce the error.
    """
    form = BlockFormat()
    if not weights.size:
        raise Declined("the weights are empty")
    if channels.square.shape != (len(weights),) or len(weights) % form.size:
        raise Declined(f"the weights are not in blocks of {form.size} rows")

    def error(scale: Numbers) -> float:
        scaled = weights * scale[:, None]
        error_matrix = scaled - nearest_blocks(scaled.astype(np.float32), form).dequantized(
            form.size
        )
        return float((np.square(error_matrix) * (channels.square / scale**2)[:, None]).sum())

    scale = best_scale(np.sqrt(channels.square), error)
    if scale is None:
        raise Declined("no scales are expected to reduce the quantization error")
    return scale
