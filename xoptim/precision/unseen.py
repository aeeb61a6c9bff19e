"""The errors to expect on values that are not among the samples."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_NORMAL_QUANTILE: Final = 1.96
"""97.5 % of a normal distribution lie below this many standard deviations above its mean."""
_TYPICAL_SPREAD: Final = 0.13
"""Standard deviation of the logarithms of the errors of a model, before any is measured: the one
of models whose outputs have many numbers.
"""
_TYPICAL_WEIGHT: Final = 4
"""Number of samples that the typical spread counts for."""
_NARROWEST: Final = 1 / 8
"""Part of the largest error that smaller ones count as: errors near 0 say little about large
ones.
"""


def unseen_errors(errors: Iterable[Sequence[float]], sample_count: int = 0) -> tuple[float, ...]:
    """For each slice, an error that 97.5 % of the values like the samples do not exceed.

    The result is at least the largest error on the samples.

    Args:
        errors: the errors of the slices on each sample that was measured.
        sample_count: the number of samples on which a choice is measured in the end, if that is
            more.
    """
    return tuple(
        _unseen_error(slice_errors, max(sample_count, len(slice_errors)))
        for slice_errors in zip(*errors, strict=True)
    )


def _unseen_error(errors: Sequence[float], sample_count: int) -> float:
    """The upper limit of a prediction interval for one more error.

    Logarithms of errors are taken as normally distributed. Their variance joins a typical one with
    that of the samples, as the mean of its posterior distribution does. An error of 0 says nothing
    about the others.
    """
    largest = max(errors)
    if not 0 < largest < math.inf:
        return largest
    logarithms = [math.log(max(error, _NARROWEST * largest)) for error in errors if error]
    mean = math.fsum(logarithms) / len(logarithms)
    squares = math.fsum((logarithm - mean) ** 2 for logarithm in logarithms)
    weight = _TYPICAL_WEIGHT * _TYPICAL_SPREAD**2
    variance = (weight + squares) / (_TYPICAL_WEIGHT + len(logarithms) - 1)
    quantile = _t_quantile(_TYPICAL_WEIGHT + sample_count - 1)
    distance = quantile * math.sqrt(variance * (1 + 1 / sample_count))
    return max(largest, math.exp(mean + distance))


def _t_quantile(degrees: int) -> float:
    """The quantile of 97.5 % of Student's t distribution.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5, with its first two terms.
    """
    normal = _NORMAL_QUANTILE
    first = (normal**3 + normal) / 4
    second = (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96
    return normal + first / degrees + second / degrees**2
