"""Errors of outputs, each as a fraction."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeAlias

import numpy as np

from xoptim.facts.dtypes import element_type, is_float
from xoptim.verification.session import Value

Metric: TypeAlias = Literal["largest", "rms", "choice"]


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


def _ratio(difference: np.floating, size: np.floating) -> float:
    return float(difference / size) if size else float(difference > 0)


METRICS: Final[Mapping[Metric, Callable[[np.ndarray, np.ndarray], float]]] = {
    "largest": _largest,
    "rms": _rms,
    "choice": _choice,
}


def error(metric: Metric, expected: Iterable[Value], actual: Iterable[Value]) -> float:
    """The largest error of an output, as a fraction.

    Infinite where one has another shape, or a number that is not finite.

    Numbers that are not finite in the reference too do not count. Of outputs that are not
    floating-point, the error is the fraction of elements that differ.
    """
    return max(
        (_error(METRICS[metric], a, b) for a, b in zip(expected, actual, strict=True)), default=0.0
    )


def is_measurable(values: Iterable[Value]) -> bool:
    """Whether outputs hold anything that counts: a finite number, or an element of another type."""
    return any(map(_counts, values))


def _counts(value: Value) -> bool:
    if isinstance(value, dict):
        return is_measurable(map(np.asarray, value.values()))
    if not isinstance(value, np.ndarray):
        return isinstance(value, list) and is_measurable(value)
    return bool(np.isfinite(value).any()) if _has_floats(value) else value.size > 0


def _has_floats(value: np.ndarray) -> bool:
    return value.dtype.kind not in "OSU" and is_float(element_type(value.dtype))


def _error(
    measure: Callable[[np.ndarray, np.ndarray], float], expected: Value, actual: Value
) -> float:
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
    if not _has_floats(expected):
        return float(np.mean(expected != actual))
    finite = np.isfinite(expected)
    a, b = (np.where(finite, values, 0).astype(np.float64) for values in (expected, actual))
    return measure(a, b) if np.isfinite(b).all() else np.inf
