"""Comparison of two results of any type: dtype, shape, then values, with one rule of equality.

The rule for floating-point numbers: ``|a - b| <= atol + rtol * (|b| + scale)``, where ``b`` is the
reference and ``scale`` the median magnitude of its finite non-zero elements. A sum in another order
errs by a fraction of the magnitude of its terms, even where they cancel. ``scale`` stands for that
magnitude: as a median, it is not moved by a few huge elements; ``of_largest`` takes the largest
instead. The rule applies to every element, so one wrong element among millions is found. NaN equals
NaN, an infinity equals the infinity of the same sign, and -0 equals 0 unless signed zeros are to
differ. Integers, Booleans and strings must be equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

import numpy as np

from xoptim.facts.dtypes import Tolerance, element_type, tolerance, type_name
from xoptim.facts.json_results import JsonForm, JsonResult
from xoptim.facts.json_values import AnyFloat
from xoptim.verification.inputs.magnitudes import (
    largest_magnitude,
    largest_measured,
    median_magnitude,
)
from xoptim.verification.judging.error_bins import ErrorBin, add_bins, spread
from xoptim.verification.judging.ulps import largest_ulp, ulp_distances
from xoptim.verification.options import ComparisonRules
from xoptim.verification.runs.session import Value

Fault: TypeAlias = Literal["", "missing", "structure", "dtype", "shape", "value"]

_CHUNK: Final = 1 << 20  # elements compared at a time, to bound the memory of the float64 copies

_KINDS_WITHOUT_DISTANCE: Final = "bOSU"  # of numpy's types: Booleans and strings


@dataclass(frozen=True, slots=True)
class Comparison(JsonResult):
    """The comparison of one output with its reference.

    Attributes:
        output: name of the output, with a position or a key for an item of a sequence or map.
        fault: the kind of the difference; empty when there is none.
        message: the difference in words; empty when there is none.
        max_abs: largest absolute difference of finite elements.
        max_ulp: largest distance in units in the last place.
        max_rel: ``max_abs`` relative to the largest finite magnitude of the reference.
        scale: median magnitude of the reference, which the tolerance uses. If a metric compares
            models: the typical size of the output over the samples, 0 with fewer than three
            samples. The metric divides differences by this size, or by the size on the sample if
            that is larger.
        top: largest magnitude of the reference, without numbers close to the type's maximum.
        excess: largest difference in units of the tolerance; above 1 the output differs.
        index: indices of the element that differs most.
        mismatches: number of elements outside the tolerance.
        count: number of elements compared.
        judged: number of compared elements whose reference is finite.
        tolerance: the tolerance; ``None`` where none applies.
        finite: whether the reference has a finite element, or no element.
        error_bins: the differences by the magnitude of the reference, for floating-point numbers
            that differ.
        whole: for an item of a sequence or map, the name of the output; else empty.
    """

    __json__ = JsonForm(
        "output equal=ok fault message max_abs max_ulp max_rel scale top excess index mismatches",
        "count tolerance",
    )
    output: str
    fault: Fault = ""
    message: str = ""
    max_abs: AnyFloat = 0.0
    max_ulp: AnyFloat = 0.0
    max_rel: AnyFloat = 0.0
    scale: AnyFloat = 0.0
    top: AnyFloat = 0.0
    excess: AnyFloat = 0.0
    index: tuple[int, ...] = ()
    mismatches: int = 0
    count: int = 0
    judged: int = 0
    tolerance: Tolerance | None = None
    finite: bool = True
    error_bins: Mapping[int, ErrorBin] = field(default_factory=dict)
    whole: str = ""

    @property
    def ok(self) -> bool:
        """Whether the output is equal to the reference within the tolerance."""
        return not self.fault


def compare_values(
    output: str, expected: Value, actual: Value, rules: ComparisonRules
) -> list[Comparison]:
    """Compare a value with a reference under the name of an output.

    A sequence or map gives one comparison per item.
    """
    if isinstance(expected, np.ndarray) and isinstance(actual, np.ndarray):
        return [_compare_arrays(output, expected, actual, rules)]
    if type(expected) is not type(actual):
        return [Comparison(output, "structure", f"{_kind(actual)} instead of {_kind(expected)}")]
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [
                Comparison(output, "structure", f"{len(actual)} items instead of {len(expected)}")
            ]
        pairs = zip(expected, actual, strict=True)
        return _items(output, ((f"[{i}]", e, a) for i, (e, a) in enumerate(pairs)), rules)
    if isinstance(expected, dict) and isinstance(actual, dict):
        if expected.keys() != actual.keys():
            return [
                Comparison(output, "structure", f"keys {_few(actual)} instead of {_few(expected)}")
            ]
        return _items(output, ((f"[{k!r}]", e, actual[k]) for k, e in expected.items()), rules)
    if expected is None:
        return [Comparison(output)]
    reference, result = _scalars(expected, actual)
    return [_compare_arrays(output, reference, result, rules)]


def _items(
    output: str, items: Iterable[tuple[str, Value, Value]], rules: ComparisonRules
) -> list[Comparison]:
    return [
        replace(c, whole=output)
        for at, e, a in items
        for c in compare_values(f"{output}{at}", e, a, rules)
    ]


def _scalars(*values: Value) -> list[np.ndarray]:
    """Scalars of maps as arrays, in float32 where that is exact: onnxruntime returns float32 and
    float64 alike as Python floats.
    """
    arrays = [np.asarray(value) for value in values]
    fits_float32 = all(
        a.dtype == np.float64 and np.array_equal(a.astype(np.float32), a, equal_nan=True)
        for a in arrays
    )
    return [a.astype(np.float32) for a in arrays] if fits_float32 else arrays


def _compare_arrays(
    output: str, expected: np.ndarray, actual: np.ndarray, rules: ComparisonRules
) -> Comparison:
    element, actual_element = element_type(expected.dtype), element_type(actual.dtype)
    if element != actual_element:
        return Comparison(
            output, "dtype", f"{type_name(actual_element)} instead of {type_name(element)}"
        )
    if expected.shape != actual.shape:
        return Comparison(
            output, "shape", f"shape {list(actual.shape)} instead of {list(expected.shape)}"
        )
    if tolerance(element, "rounding") == (0.0, 0.0):
        return _compare_discrete(output, expected, actual, rules)
    if rules.signed_zeros and expected.dtype.kind != "c":
        places = np.argwhere(_other_zeros(expected, actual))
        if len(places):
            index = tuple(map(int, places[0]))
            size = expected.size
            text = _describe(expected[index], actual[index], index, len(places), size)
            message = f"the sign of a zero differs: {text}"
            return Comparison(
                output,
                "value",
                message,
                index=index,
                mismatches=len(places),
                count=size,
                judged=size,
                excess=np.inf,
            )
    return _compare_floats(output, expected, actual, rules, rules.tolerance(element))


def _other_zeros(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """The elements that are 0 in both arrays, with different signs, as a Boolean array."""
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    differs: np.ndarray = (e == 0) & (a == 0) & (np.signbit(e) != np.signbit(a))
    return differs


def _compare_discrete(
    output: str, expected: np.ndarray, actual: np.ndarray, rules: ComparisonRules
) -> Comparison:
    """Compare integers, Booleans and strings: equal, except for what the rules allow."""
    e, a = expected.reshape(-1), actual.reshape(-1)
    places = np.flatnonzero(np.asarray(e != a))
    distances = _distances(e[places], a[places])
    has_distance = e.dtype.kind not in _KINDS_WITHOUT_DISTANCE
    atol = rules.integer_atol if has_distance else 0
    mismatches = int(np.count_nonzero(distances > atol))
    if not places.size:
        return Comparison(output, count=e.size, judged=e.size)
    worst = int(np.argmax(distances))
    largest, index = float(distances[worst]), _position(int(places[worst]), expected.shape)
    accepted = mismatches <= rules.allow_flips * e.size
    place = places[worst]
    return Comparison(
        output=output,
        fault="" if accepted else "value",
        message="" if accepted else _describe(e[place], a[place], index, mismatches, e.size),
        max_abs=largest,
        max_rel=(
            largest / max(1.0, float(np.max(np.abs(e.astype(np.float64)))))
            if has_distance
            else largest
        ),
        excess=0.0 if accepted else largest / max(atol, 0.5),
        index=index,
        mismatches=mismatches,
        count=e.size,
        judged=e.size,
    )


def _distances(expected: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """Distances between unequal integers, 1 for types without a distance."""
    if expected.dtype.kind in _KINDS_WITHOUT_DISTANCE:
        return np.ones(expected.shape)
    if expected.dtype == np.uint64:
        low, high = np.minimum(expected, actual), np.maximum(expected, actual)
    else:
        a, b = expected.astype(np.int64), actual.astype(np.int64)
        low, high = np.minimum(a, b).view(np.uint64), np.maximum(a, b).view(np.uint64)
    distances: np.ndarray = (high - low).astype(np.float64)  # modulo 2**64 the difference is exact
    return distances


def _compare_floats(
    output: str, expected: np.ndarray, actual: np.ndarray, rules: ComparisonRules, limits: Tolerance
) -> Comparison:
    """Compare real and complex numbers, by the rule of this module."""
    e, a = expected.reshape(-1), actual.reshape(-1)
    scale = (largest_magnitude if rules.of_largest else median_magnitude)(e)
    floor = _floor(e, limits, scale, is_by_type=rules.keeps_small)
    judged = 0
    max_abs = largest = top = worst = max_ulp = 0.0
    place, mismatches, finite_seen = 0, 0, e.size == 0
    error_bins: dict[int, ErrorBin] = {}
    limit, differs = largest_measured(e.dtype), not np.array_equal(e, a)
    for start, error, magnitude, excess in _chunks(e, a, floor, limits.rtol, rules):
        finite = np.isfinite(magnitude)
        judged += int(np.count_nonzero(finite))
        finite_seen = finite_seen or bool(finite.any())
        max_abs = max(max_abs, float(np.max(error, initial=0.0, where=np.isfinite(error))))
        largest = max(largest, float(np.max(magnitude, initial=0.0, where=finite)))
        top = max(top, float(np.max(magnitude, initial=0.0, where=magnitude < limit)))
        mismatches += int(np.count_nonzero(excess > 1.0))
        if error.any():
            max_ulp = max(
                max_ulp, largest_ulp(e[start : start + _CHUNK], a[start : start + _CHUNK])
            )
        if differs:
            add_bins(error_bins, spread(magnitude, error, excess))
        local = int(np.argmax(excess))
        if excess[local] > worst:
            worst, place = float(excess[local]), start + local
    index = _position(place, expected.shape) if worst else ()
    return Comparison(
        output=output,
        fault="value" if mismatches else "",
        message=_describe(e[place], a[place], index, mismatches, e.size) if mismatches else "",
        max_abs=max_abs,
        max_ulp=max_ulp,
        max_rel=max_abs / largest if largest else 0.0,
        scale=scale,
        top=top,
        excess=worst,
        index=index,
        mismatches=mismatches,
        count=e.size,
        judged=judged,
        tolerance=limits,
        finite=finite_seen,
        error_bins=error_bins if max_abs else {},
    )


def _floor(expected: np.ndarray, limits: Tolerance, scale: float, *, is_by_type: bool) -> float:
    """The part of the tolerance that is the same for all elements.

    The absolute tolerance of a type is meant for results of about 1. With ``is_by_type``, it is at
    most the relative tolerance times the largest result.
    """
    largest = largest_magnitude(expected) if is_by_type else 0.0
    atol = min(limits.atol, limits.rtol * largest) if largest else limits.atol
    return atol + limits.rtol * scale


def excesses(expected: np.ndarray, actual: np.ndarray, rules: ComparisonRules) -> np.ndarray:
    """The differences of two arrays of floats, in units of the tolerance of each element.

    Above 1 the rule is broken.
    """
    e, a = expected.reshape(-1), actual.reshape(-1)
    limits = rules.tolerance(element_type(expected.dtype))
    scale = (largest_magnitude if rules.of_largest else median_magnitude)(e)
    floor = _floor(e, limits, scale, is_by_type=rules.keeps_small)
    parts = [excess for _, _, _, excess in _chunks(e, a, floor, limits.rtol, rules)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _chunks(
    expected: np.ndarray, actual: np.ndarray, floor: float, rtol: float, rules: ComparisonRules
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """Start, differences, magnitudes of the reference, and differences in units of the tolerance,
    piece by piece.
    """
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    for start in range(0, expected.size, _CHUNK):
        e, a = (x[start : start + _CHUNK].astype(wide) for x in (expected, actual))
        with np.errstate(all="ignore"):
            error, magnitude = np.abs(a - e), np.abs(e)
            is_equal = (e == a) | (np.isnan(e) & np.isnan(a))
            excess = np.where(is_equal, 0.0, error / (floor + rtol * magnitude))
        # An infinity or a NaN that the other side does not have breaks the rule.
        excess[~is_equal & ~(np.isfinite(e) & np.isfinite(a))] = np.inf
        if rules.ulp is not None:
            distances = ulp_distances(
                expected[start : start + _CHUNK], actual[start : start + _CHUNK]
            )
            # 0.5, so that 0 demands equality and a distance of 1 breaks the rule
            excess = distances / max(rules.ulp, 0.5)
        if rules.only_finite:
            excess[~np.isfinite(e)] = 0.0
            error[~np.isfinite(e)] = 0.0
        yield start, error, magnitude, excess


def _describe(
    expected: object, actual: object, index: tuple[int, ...], wrong: int, count: int
) -> str:
    place = f" at {list(index)}" if index else ""
    return f"{actual!s} instead of {expected!s}{place}; {wrong} of {count} elements differ"


def _position(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(place, shape)) if shape else ()


def _kind(value: Value) -> str:
    names = {list: "a sequence", dict: "a map", np.ndarray: "a tensor", type(None): "nothing"}
    return names.get(type(value), type(value).__name__)


def _few(keys: Iterable[object]) -> str:
    listed = sorted(map(repr, keys))
    return ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
