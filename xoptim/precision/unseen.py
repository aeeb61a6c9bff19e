"""The errors to expect on values that are not among the samples."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

_NORMAL_QUANTILE: Final = 1.96
"""97.5 % of a normal distribution lie below this many standard deviations above its mean."""
_SPREADS: Final = (0.1, 0.6)
"""Bounds of the standard deviation of the logarithms of the errors of a model, before any is
measured.
"""
_TYPICAL_WEIGHT: Final = 4
"""Number of samples that the typical spread counts for."""
_NARROWEST: Final = 1 / 8
"""Smaller errors count as this part of the largest error: errors near 0 say little about large
ones.
"""
_RANDOM_SHARE: Final = 0.4
"""Part of the allowed error that is kept back with random samples, divided by the square root of
their number.
"""
_LARGEST: Final = 1e300
"""Larger errors, which only a metric of the caller can return, would overflow."""


def random_errors(errors: Iterable[Sequence[float]], sample_count: int) -> tuple[float, ...]:
    """The largest error of each slice, with a reserve.

    Errors on random samples vary with the sizes and magnitudes that were drawn. So their spread
    says nothing about real data.

    Args:
        errors: the errors of the slices on each random sample that was measured.
        sample_count: the number of samples on which a choice is measured in the end.
    """
    allowed_share = 1 - _RANDOM_SHARE / math.sqrt(sample_count)
    return tuple(max(slice_errors) / allowed_share for slice_errors in zip(*errors, strict=True))


def unseen_errors(
    errors: Iterable[Sequence[float]], element_counts: Sequence[int], sample_count: int = 0
) -> tuple[float, ...]:
    """For each slice, an error that 97.5 % of the values like the samples do not exceed.

    The result is at least the largest error on the samples.

    Args:
        errors: the errors of the slices on each sample that was measured.
        element_counts: the number of elements of each slice on a sample; 0 if it is not known.
        sample_count: the number of samples on which a choice is measured in the end, if that is
            more.
    """
    return tuple(
        _unseen_error(slice_errors, typical_spread(count), max(sample_count, len(slice_errors)))
        for slice_errors, count in zip(zip(*errors, strict=True), element_counts, strict=True)
    )


def typical_spread(element_count: int) -> float:
    """The standard deviation of the logarithm of an error that is typical for a number of elements.

    An error is the largest difference, divided by the largest expected number. Where both are drawn
    from normal distributions, the logarithm of this quotient deviates by about
    1.1 / (0.7 + log(count)), as drawing shows. Measured on models: 0.4 to 0.8 for two numbers
    (eight models, 200 samples), 0.2 for a hundred, 0.1 for thousands. The result is smaller, and
    has bounds, as the samples themselves count as well: the whole spread of two numbers would
    reserve nearly all of the tolerance before anything is measured. With the bound 0.4 in place of
    0.6, up to 10.5 % of the samples of models with two logits exceeded the error to expect.
    """
    least, most = _SPREADS
    spread = 0.8 / (0.7 + math.log(element_count)) if element_count else least
    return min(max(spread, least), most)


def _unseen_error(errors: Sequence[float], spread: float, sample_count: int) -> float:
    """The upper limit of a prediction interval for one more error.

    Logarithms of errors are assumed to be normally distributed. Their variance is the mean of the
    typical variance and the variance of the samples, weighted by counts, as in Bayesian estimation.
    An error of 0 says nothing about the others.
    """
    largest = max(errors)
    if not 0 < largest < _LARGEST:
        return largest
    logarithms = [math.log(max(error, _NARROWEST * largest)) for error in errors if error]
    mean = math.fsum(logarithms) / len(logarithms)
    squares = math.fsum((logarithm - mean) ** 2 for logarithm in logarithms)
    degrees = _TYPICAL_WEIGHT + len(logarithms) - 1
    variance = (_TYPICAL_WEIGHT * spread**2 + squares) / degrees
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
