"""Scales of channels that are moved from a tensor to the next weights, so that quantization errs
less.
"""

from typing import Final

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match.block_rounding import BlockFormat, nearest_blocks
from xoptim.match.channel_scales import best_scale
from xoptim.match.quantization import Channels, Numbers

from .._folding import Array

_SHARES: Final = (0.25, 0.5, 0.75)
"""Parts of the differences between channels that weights take over from the tensor."""
_LEAST_GAIN: Final = 0.9
"""Scales are moved only where less than this part of the error is expected to remain."""
_MAX_SCALE: Final = 2.0**12


def scales(channels: Channels, weights: Array) -> Numbers:
    """A number of each channel, 1 at least, by which the tensor is divided, and its weights are
    multiplied.

    As the tensor only becomes smaller, it overflows nowhere. The numbers are expected to leave the
    least error when the tensor is quantized to 8 bits with one scale, and weights with one for each
    column (G. Xiao et al., "SmoothQuant", 2022, section 4). Powers of two, which would change no
    digit, leave more of the error.

    Args:
        channels: of the tensor.
        weights: of all MatMuls that read it, of shape (channels, columns).

    Raises:
        Declined: when no numbers are expected to help.
    """
    sizes, largest = (
        np.maximum(np.abs(channels.low), np.abs(channels.high)),
        np.abs(weights).max(axis=1, initial=0.0),
    )
    counts = (sizes > 0) & (largest > 0)
    if not counts.any():
        raise Declined("every channel is 0")
    sizes, largest = (np.where(counts, each, np.median(each[counts])) for each in (sizes, largest))
    ratios = [sizes**share / largest ** (1 - share) for share in _SHARES]
    candidates = [np.minimum(each / each.min(), _MAX_SCALE) for each in ratios]
    errors = [
        expected_error(channels, weights, each) for each in (np.ones(len(sizes)), *candidates)
    ]
    best = int(np.argmin(errors))
    if not errors[best] < _LEAST_GAIN**2 * errors[0]:
        raise Declined("no scales are expected to reduce the quantization error")
    return candidates[best - 1]


def expected_error(channels: Channels, weights: Array, scale: Numbers) -> float:
    """The expected square of the error of a row of results, for independent rounding errors, up to
    a factor.

    The steps of integers are 1 / 255 of the range of the tensor, and 1 / 127 of the largest weight
    of a column.
    """
    step = (
        (channels.high / scale).max(initial=0.0) - (channels.low / scale).min(initial=0.0)
    ) / 255
    moved = weights * scale[:, None]
    steps = np.abs(moved).max(axis=0) / 127
    return float(
        step**2 * np.square(moved).sum()
        + np.square(steps).sum() * (channels.square / scale**2).sum()
    )


def block_scale(channels: Channels, weights: Array) -> Numbers:
    """The scale of each channel with which weights that are rounded to nearest in blocks are
    expected to err least, for independent channels.

    Args:
        channels: of the tensor.
        weights: of all MatMuls that read it, of shape (channels, columns).

    Raises:
        Declined: when the rows are no multiple of the block size, or no scales are expected to
            help.
    """
    form = BlockFormat()
    if channels.square.shape != (len(weights),) or len(weights) % form.size:
        raise Declined(f"the weights are not in blocks of {form.size} rows")

    def error(scale: Numbers) -> float:
        larger = weights * scale[:, None]
        rest = larger - nearest_blocks(larger.astype(np.float32), form).dequantized(form.size)
        return float((np.square(rest) * (channels.square / scale**2)[:, None]).sum())

    scale = best_scale(np.sqrt(channels.square), error)
    if scale is None:
        raise Declined("no scales are expected to reduce the quantization error")
    return scale
