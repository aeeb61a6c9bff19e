"""Choice of channel scales that move from activations to weights, by the activations (AWQ)."""

from collections.abc import Callable
from typing import Final

import numpy as np

from xoptim.match.quantization import Numbers

_STEPS: Final = 10
"""The exponents are the multiples of 1 / 10 up to 1."""
_MAX_WORSE: Final = 2
"""The search ends after this many exponents in a row without a smaller error: apart from noise, the
error has one minimum.
"""
_MAX_ERROR: Final = 0.9
"""Maximal squared error with the best scales, 1 being the error without scales. A limit of 0.98
gave one of seven models 3 % less error, and quantization took twice as long.
"""
_MIN_MAGNITUDE: Final = 1e-3
"""Minimal magnitude of a channel, relative to the largest channel: a channel that is 0, or nearly
0, on all samples may be large on other inputs.
"""


def best_scale(magnitudes: Numbers, error: Callable[[Numbers], float]) -> Numbers | None:
    """The scale of each channel, at least 1, that minimizes the error of the quantized weights.

    The candidates are powers of the magnitudes of the channels (J. Lin et al., "AWQ", 2023,
    section 3.2, equation 5). Activations are divided by the scales, so they never overflow.

    Args:
        magnitudes: magnitude of the activations of each channel, such as the mean of the absolute
            values, of shape (channels,).
        error: the squared error of the outputs with some scales.

    Returns:
        The scales, of shape (channels,); ``None`` if none of them reduces the error enough.
    """
    if not len(magnitudes) or not magnitudes.max() > 0:
        return None
    relative = np.maximum(magnitudes / magnitudes.max(), _MIN_MAGNITUDE)
    limit = _MAX_ERROR * error(np.ones(len(relative)))
    best: Numbers | None = None
    failures = 0
    for step in range(1, _STEPS + 1):
        powers = relative ** (step / _STEPS)
        scale = powers / powers.min()
        squared = error(scale)
        failures += 1
        if squared < limit:
            best, limit, failures = scale, squared, 0
        if failures == _MAX_WORSE:
            break
    return best
