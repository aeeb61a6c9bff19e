"""Errors of a constant in several forms, estimated from the measured error of one form."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from xoptim.precision.candidates import Candidate, Form
from xoptim.precision.metrics import ErrorMetric
from xoptim.precision.reference import Errors

_LINEAR: Final = 0.1
"""Largest error of an output that is assumed to be in proportion to the error of a constant."""
_PROPORTIONAL: Final = ("largest", "rms")
"""Metrics that double if all differences double."""


def coarsest(candidates: Iterable[Candidate], metric: ErrorMetric) -> list[Candidate]:
    """The form of each constant with the fewest bits; all forms if the metric is not in proportion
    to the differences.
    """
    if metric not in _PROPORTIONAL:
        return [*candidates]
    coarse = dict[str, Candidate]()
    for candidate in candidates:
        form = coarse.setdefault(candidate.weights, candidate)
        if candidate.element_bits < form.element_bits:
            coarse[candidate.weights] = candidate
    return [*coarse.values()]


def scaled_errors(
    measured: Mapping[Form, Errors],
    coarse: Iterable[Candidate],
    candidates: Iterable[Candidate],
    rounding_error: Callable[[Candidate], float],
) -> dict[Form, Errors]:
    """Estimate the errors of the other forms of constants whose coarsest form was measured.

    To first order, outputs change in proportion to the change of a constant. Constants are missing
    if their measured error is large, or if their coarsest form is exact.

    Args:
        measured: the errors of the coarsest forms.
        coarse: the coarsest forms.
        candidates: all forms.
        rounding_error: the root mean square difference between a constant and its form.
    """
    bases = {
        candidate.weights: (measured[candidate.form], rounding_error(candidate))
        for candidate in coarse
        if max(measured.get(candidate.form, (1.0,))) <= _LINEAR
    }
    scaled = dict[Form, Errors]()
    for candidate in candidates:
        errors, loss = bases.get(candidate.weights, ((), 0.0))
        if candidate.form not in measured and loss:
            ratio = rounding_error(candidate) / loss
            scaled[candidate.form] = tuple(ratio * error for error in errors)
    return scaled
