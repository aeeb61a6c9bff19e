"""Errors of outputs, each as a fraction."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, Literal, SupportsFloat, TypeAlias

import numpy as np

from xoptim.facts.dtypes import element_type, is_float
from xoptim.facts.words import abridged
from xoptim.verification.errors import ChoiceError
from xoptim.verification.runs.session import Value

Metric: TypeAlias = Literal["largest", "rms", "choice", "cosine"]
MetricFunction: TypeAlias = Callable[[np.ndarray, np.ndarray], float]
"""Takes two float64 arrays, the reference and the result, of an output or a slice of it; returns
the error as a fraction.
"""
ErrorMetric: TypeAlias = Metric | MetricFunction


def _magnitude(value: np.ndarray) -> float:
    return float(np.max(np.abs(value), initial=0.0))


def _root_mean_square(value: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(value)))) if value.size else 0.0


def _choice(expected: np.ndarray, actual: np.ndarray) -> float:
    return float(
        np.mean(np.argmax(np.atleast_1d(expected), -1) != np.argmax(np.atleast_1d(actual), -1))
    )


def _cosine(expected: np.ndarray, actual: np.ndarray) -> float:
    """1 less the cosine of the angle between two vectors."""
    norms = np.linalg.norm(expected) * np.linalg.norm(actual)
    if not norms:
        return float(np.any(expected != actual))
    return float(max(0.0, 1 - np.vdot(expected, actual) / norms))


_SIZES: Final[Mapping[Metric, Callable[[np.ndarray], float]]] = {
    "largest": _magnitude,
    "rms": _root_mean_square,
}
"""The norm of an array, for the metrics that divide the norm of the difference by it."""


def _relative(
    size: Callable[[np.ndarray], float], expected: np.ndarray, actual: np.ndarray, typical: float
) -> float:
    """The norm of the difference, divided by the norm of the expected numbers or by ``typical``,
    whichever is larger.
    """
    difference, divisor = size(actual - expected), max(size(expected), typical)
    return difference / divisor if divisor else float(difference > 0)


METRICS: Final[Mapping[Metric, MetricFunction]] = {
    **{name: partial(_relative, size, typical=0.0) for name, size in _SIZES.items()},
    "choice": _choice,
    "cosine": _cosine,
}


def size_by(metric: ErrorMetric, value: np.ndarray) -> float:
    """The norm by which a metric divides differences: the largest magnitude, or the root mean
    square; 0 for other metrics. Numbers that are not finite count as 0.
    """
    size = _SIZES.get(metric) if isinstance(metric, str) else None
    if size is None or not holds_floats(value):
        return 0.0
    return size(np.where(np.isfinite(value), value, 0).astype(np.float64))


def metric_name(metric: ErrorMetric) -> str:
    """The name of a metric, for people and files."""
    if isinstance(metric, str):
        return metric
    return getattr(metric, "__qualname__", type(metric).__qualname__)


def error(metric: ErrorMetric, expected: Iterable[Value], actual: Iterable[Value]) -> float:
    """The largest error of an output, as a fraction.

    Infinite if an output has another shape, or is not finite where the reference is finite.
    Elements that are not finite in the reference are ignored. The error of integers, Booleans and
    strings is the fraction of elements that differ.
    """
    pairs = zip(expected, actual, strict=True)
    return max((error_of_value(metric, a, b) for a, b in pairs), default=0.0)


def error_of_value(
    metric: ErrorMetric, expected: Value, actual: Value, typical: float = 0.0
) -> float:
    """The error of one output, or of a slice of it; see `error`.

    The metrics ``largest`` and ``rms`` divide by ``typical``, the norm of the output on other
    samples, where that is larger than the norm of the expected numbers; see `size_by`.
    """
    size = _SIZES.get(metric) if isinstance(metric, str) else None
    if size is not None:
        return _error(partial(_relative, size, typical=typical), expected, actual)
    return _error(METRICS[metric] if isinstance(metric, str) else metric, expected, actual)


def is_measurable(values: Iterable[Value]) -> bool:
    """Whether outputs hold a finite number, or an element that is not floating-point."""
    return any(map(_counts, values))


def _counts(value: Value) -> bool:
    if isinstance(value, dict):
        return is_measurable(map(np.asarray, value.values()))
    if not isinstance(value, np.ndarray):
        return isinstance(value, list) and is_measurable(value)
    return bool(np.isfinite(value).any()) if holds_floats(value) else value.size > 0


def holds_floats(value: np.ndarray) -> bool:
    """Whether an array has floating-point numbers."""
    return value.dtype.kind not in "OSU" and is_float(element_type(value.dtype))


def _error(measure: MetricFunction, expected: Value, actual: Value) -> float:
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        return max(
            (_error(measure, a, b) for a, b in zip(expected, actual, strict=True)), default=0.0
        )
    if isinstance(expected, dict) and isinstance(actual, dict) and expected.keys() == actual.keys():
        expected, actual = (
            np.array([values[key] for key in expected]) for values in (expected, actual)
        )
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return 0.0 if expected is None and actual is None else np.inf
    if expected.shape != actual.shape:
        return np.inf
    if not expected.size:
        return 0.0
    if not holds_floats(expected):
        return float(np.mean(expected != actual))
    finite = np.isfinite(expected)
    a, b = (np.where(finite, values, 0).astype(np.float64) for values in (expected, actual))
    if not np.isfinite(b).all():
        return np.inf
    fraction = _as_number(measure(a, b), measure)
    return np.inf if np.isnan(fraction) else fraction


def _as_number(value: object, measure: MetricFunction) -> float:
    """The value that a metric returned, as a float; raises `ChoiceError` if it is no number."""
    with suppress(TypeError, ValueError):
        if isinstance(value, SupportsFloat):  # a text has no __float__
            return float(value)
    raise ChoiceError(
        f"the metric {metric_name(measure)} returned {abridged(repr(value))}, which is not a "
        "number; return the error as a fraction, such as 0.01"
    )
