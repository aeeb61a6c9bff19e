"""Errors of outputs, each as a fraction."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from xoptim.facts.dtypes import element_type, is_float
from xoptim.verification.runs.session import Value

Metric: TypeAlias = Literal["largest", "rms", "choice", "cosine"]
MetricFunction: TypeAlias = Callable[[np.ndarray, np.ndarray], float]
"""Takes two float64 arrays, the reference and the result, of an output or a slice of it; returns
the error as a fraction.
"""
ErrorMetric: TypeAlias = Metric | MetricFunction


def _largest(expected: np.ndarray, actual: np.ndarray) -> float:
    return _ratio(np.max(np.abs(actual - expected)), np.max(np.abs(expected)))


def _rms(expected: np.ndarray, actual: np.ndarray) -> float:
    return _ratio(
        np.sqrt(np.mean(np.square(actual - expected))), np.sqrt(np.mean(np.square(expected)))
    )


def _choice(expected: np.ndarray, actual: np.ndarray) -> float:
    return float(
        np.mean(np.argmax(np.atleast_1d(expected), -1) != np.argmax(np.atleast_1d(actual), -1))
    )


def _cosine(expected: np.ndarray, actual: np.ndarray) -> float:
    """1 less the cosine of the angle between two vectors."""
    sizes = np.linalg.norm(expected) * np.linalg.norm(actual)
    if not sizes:
        return float(np.any(expected != actual))
    return float(max(0.0, 1 - np.vdot(expected, actual) / sizes))


def _ratio(difference: np.floating, size: np.floating) -> float:
    return float(difference / size) if size else float(difference > 0)


METRICS: Final[Mapping[Metric, MetricFunction]] = {
    "largest": _largest,
    "rms": _rms,
    "choice": _choice,
    "cosine": _cosine,
}


def metric_name(metric: ErrorMetric) -> str:
    """The name of a metric, for people and files."""
    if isinstance(metric, str):
        return metric
    return getattr(metric, "__qualname__", type(metric).__qualname__)


def error(metric: ErrorMetric, expected: Iterable[Value], actual: Iterable[Value]) -> float:
    """The largest error of an output, as a fraction.

    Infinite where an output has another shape, or is not finite where the reference is.

    Where the reference is not finite, numbers do not count. Of outputs that are not floating-point,
    the error is the fraction of elements that differ.
    """
    pairs = zip(expected, actual, strict=True)
    return max((error_of_value(metric, a, b) for a, b in pairs), default=0.0)


def error_of_value(
    metric: ErrorMetric, expected: Value, actual: Value, scale: float = 0.0
) -> float:
    """The error of one output, or of a slice of it; see `error`.

    Where all expected numbers are 0, a metric given by its name takes ``scale`` for their largest
    magnitude, if ``scale`` is not 0.
    """
    measure = METRICS[metric] if isinstance(metric, str) else metric
    if scale and metric != "choice" and isinstance(metric, str) and _is_zero(expected):
        measure = partial(_of_scale, scale)
    return _error(measure, expected, actual)


def _is_zero(value: Value) -> bool:
    return isinstance(value, np.ndarray) and holds_floats(value) and not value.any()


def _of_scale(scale: float, expected: np.ndarray, actual: np.ndarray) -> float:
    return float(np.max(np.abs(actual - expected)) / scale)


def is_measurable(values: Iterable[Value]) -> bool:
    """Whether outputs hold anything that counts: a finite number, or an element of another type."""
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
    fraction = float(measure(a, b))
    return np.inf if np.isnan(fraction) else fraction
