"""Scales of channels that are moved from the constants before a tensor to those behind it, so that rounding costs less."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from xoptim.facts.errors import Declined
from xoptim.match.rounding import Channels, Numbers

from .._folding import Array

_SHARES: Final = (0.25, 0.5, 0.75, 1.0)
"""Parts of the differences between channels that weights take over from the tensor."""
_LEAST_GAIN: Final = 0.9
"""An error that is not expected to become smaller than this part stays as it is."""
_MOST: Final = 12
"""Scales are at most two to this power."""


def scales(channels: Channels, readers: Sequence[Array]) -> Numbers:
    """Powers of two, one for each channel and 1 at least: the tensor is divided by them, and the weights multiplied.

    Powers of two change no digit; and as the tensor only becomes smaller, nothing overflows. Those are taken that are expected
    to leave the least error when the tensor is rounded to 8 bits with one scale, and weights with one for each output
    (G. Xiao et al., "SmoothQuant", 2022; M. Nagel et al., "Data-free quantization through weight equalization", 2019).

    Args:
        channels: of the tensor.
        readers: weights of all that reads it, of shape (groups, outputs of a group, channels of a group, taps).

    Raises:
        Declined: when none is expected to help.
    """
    sizes = np.maximum(np.abs(channels.low), np.abs(channels.high))
    weights = np.max([np.abs(each).max(axis=(1, 3)).reshape(-1) for each in readers], axis=0)
    counts = (sizes > 0) & (weights > 0)
    if not counts.any():
        raise Declined("no channel has numbers other than 0")
    candidates = [_powers(sizes, weights, counts, share) for share in _SHARES]
    errors = [expected_error(channels, readers, each) for each in (np.ones(len(sizes)), *candidates)]
    best = int(np.argmin(errors))
    if not errors[best] < _LEAST_GAIN**2 * errors[0]:
        raise Declined("no scales are expected to make the error of rounding smaller")
    return candidates[best - 1]


def _powers(sizes: Array, weights: Array, counts: Array, share: float) -> Numbers:
    logarithms = share * np.log2(sizes, where=counts, out=np.zeros(len(sizes)))
    logarithms -= (1 - share) * np.log2(weights, where=counts, out=np.zeros(len(sizes)))
    mean = logarithms[counts].mean()
    whole = np.rint(np.where(counts, logarithms - mean, 0.0))
    return np.exp2(np.minimum(whole - whole.min(), _MOST))


def expected_error(channels: Channels, readers: Iterable[Array], scale: Numbers) -> float:
    """The expected square of the error of all results at one position, up to a factor, for independent rounding errors.

    The steps of integers are 1 / 255 of the range of the tensor, and 1 / 127 of the largest weight of an output.
    """
    high, low = (channels.high / scale).max(initial=0.0), (channels.low / scale).min(initial=0.0)
    step, squares, error = (high - low) / 255, channels.square / scale**2, 0.0
    for each in readers:
        groups, _, inputs, taps = each.shape
        moved = each * scale.reshape(groups, 1, inputs, 1)
        steps = np.abs(moved).max(axis=(2, 3)) / 127
        read = taps * squares.reshape(groups, inputs).sum(axis=1, keepdims=True)
        error += float(step**2 * np.square(moved).sum() + (steps**2 * read).sum())
    return error
