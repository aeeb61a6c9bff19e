"""Relative errors of small results, which a Log, a Reciprocal or a Div may read, and quantization
errors.

The usual comparison allows an error in proportion to the typical magnitude in the tensor. Here the
error of each element is compared with its own magnitude, provided that the original computes the
element well, as its run in float64 shows.
"""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any, Final, TypeGuard

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.reference import ReferenceEvaluator

from xoptim.facts.dtypes import Exactness, element_type, is_float, tolerance
from xoptim.testing.feeds import Feeds, Range, is_real, limits
from xoptim.testing.numbers import describe
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import all_nodes
from xoptim.testing.vary_types import retyped
from xoptim.verification.runs.session import Value

_MAX_ULPS: Final = 16
"""Units in the last place by which a good result of the original may differ from float64."""
_MAX_FEEDS: Final = 4
_MAX_ERROR: Final = 0.05
"""Allowed relative error of a result.

Far more than rounding, so that an unlucky sum of rounding errors is not reported.
"""
_WIDE: Final[dict[int, int]] = {
    TensorProto.FLOAT: TensorProto.DOUBLE,
    TensorProto.FLOAT16: TensorProto.DOUBLE,
    TensorProto.BFLOAT16: TensorProto.DOUBLE,
}


def lost_digits(before: onnx.ModelProto, after: onnx.ModelProto, all_feeds: Iterable[Feeds]) -> str:
    """A result that the first model computes well and the second one does not, as text.

    Empty when there is none, or when the first model does not run in float64.
    """
    sessions = [RUNTIME.load(model) for model in (before, after)]
    if any(isinstance(session, str) for session in sessions):
        return ""
    for feeds in islice(all_feeds, _MAX_FEEDS):
        results = [
            RUNTIME.run(session, feeds) for session in sessions if not isinstance(session, str)
        ]
        lists = [result for result in results if not isinstance(result, str)]
        wide = _run_wide(before, feeds) if len(lists) == len(results) else None
        for output, *values in (
            zip(before.graph.output, *lists, wide, strict=True) if wide is not None else ()
        ):
            fault = _fault(*values)
            if fault:
                return f"output {output.name!r}: {fault}\non {describe(feeds)}"
    return ""


def is_better(
    before: onnx.ModelProto, after: onnx.ModelProto, feeds: Feeds, exactness: Exactness
) -> bool:
    """Whether the second model, where it differs from the first, agrees with the first in float64.

    The second model may avoid an overflow or underflow of intermediate results of the first one.
    """
    results = [results_of(before, feeds), results_of(after, feeds), _run_wide(before, feeds)]
    lists = [result for result in results if result is not None]
    return len(lists) == len(results) and all(
        _is_right(values, exactness) for values in zip(*lists, strict=True)
    )


def _comparable(values: tuple[Value, ...]) -> TypeGuard[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Whether results of both models and of the first one in float64 are tensors of one shape, the
    first two of one type.
    """
    before, after, wide = values
    if not (
        isinstance(before, np.ndarray)
        and isinstance(after, np.ndarray)
        and isinstance(wide, np.ndarray)
    ):
        return False
    return before.shape == after.shape == wide.shape and before.dtype == after.dtype


def _is_right(values: tuple[Value, ...], exactness: Exactness) -> bool:
    if not _comparable(values):
        return False
    if not is_real(values[0]):
        return np.array_equal(values[0], values[1])
    dtype = values[0].dtype
    limit = tolerance(element_type(dtype), exactness)
    smallest, _, mantissa = limits(dtype)
    with np.errstate(all="ignore"):
        b, a, w = (x.astype(dtype).astype(np.float64) for x in values)
        near = [
            np.abs(a - x) <= limit.rtol * np.abs(x) + 2 * smallest * 2.0**-mantissa for x in (b, w)
        ]
    same = [(a == x) | (np.isnan(a) & np.isnan(x)) for x in (b, w)]
    return bool(np.all(near[0] | near[1] | same[0] | same[1]))


def results_of(model: onnx.ModelProto, feeds: Feeds) -> list[Value] | None:
    """The results of a model, ``None`` when onnxruntime refuses it or it does not run."""
    session = RUNTIME.load(model)
    results = session if isinstance(session, str) else RUNTIME.run(session, feeds)
    return None if isinstance(results, str) else results


def _run_wide(model: onnx.ModelProto, feeds: Feeds) -> list[Value] | None:
    """Results in float64, by onnx's evaluator where onnxruntime has no kernel."""
    wide = retyped(model, _WIDE)
    results = results_of(wide, _widened(feeds))
    if results is not None:
        return results
    try:
        with np.errstate(all="ignore"):
            outputs: Any = ReferenceEvaluator(wide).run(None, _widened(feeds))
            return outputs  # type: ignore[no-any-return]
    except Exception:  # it raises many types for unknown operators and unexpected operands
        return None


def _widened(feeds: Feeds) -> Feeds:
    return {
        n: v.astype(np.float64) if isinstance(v, np.ndarray) and is_real(v) else v
        for n, v in feeds.items()
    }


def _fault(*values: Value) -> str:
    if not _comparable(values) or not is_real(values[0]):
        return ""
    before, after, wide = values
    smallest, largest, mantissa = limits(before.dtype)
    b, a = before.astype(np.float64), after.astype(np.float64)
    with np.errstate(all="ignore"):
        magnitude = np.abs(wide)
        is_good = (
            (magnitude >= smallest * 4)
            & (magnitude <= largest / 4)
            & (np.abs(b - wide) <= _MAX_ULPS * 2.0**-mantissa * magnitude)
        )
        is_lost = is_good & ~(np.abs(a - wide) <= _MAX_ERROR * magnitude)
    places = np.argwhere(is_lost)
    if not places.size:
        return ""
    place = tuple(int(i) for i in places[0])
    return f"{a[place]} instead of {b[place]} at {list(place)}, and {wide[place]} in 64 bits"


_STEPS = 4
"""Largest error of a sum of products, in units of 2**-bits times the largest sum of magnitudes.

Half a step of a symmetric range is one unit. The two operands add one unit each, and the limit is
twice as large.
"""


def is_within_steps(
    before: onnx.ModelProto, after: onnx.ModelProto, feeds: Feeds, steps: int
) -> bool:
    """Whether all results are 8-bit integers that differ by no more than a number of steps."""
    results = [results_of(model, feeds) for model in (before, after)]
    lists = [result for result in results if result is not None]
    if len(lists) < len(results):
        return False
    return all(
        isinstance(b, np.ndarray)
        and isinstance(a, np.ndarray)
        and b.dtype == a.dtype
        and b.dtype in (np.int8, np.uint8)
        and b.shape == a.shape
        and bool(np.all(np.abs(b.astype(np.int64) - a) <= steps))
        for b, a in zip(*lists, strict=True)
    )


def is_rounding(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    feeds: Feeds,
    ranges: Sequence[Range],
    bits: int,
) -> bool:
    """Whether results differ by no more than the quantization of operands to ``bits`` explains.

    A sum of products of quantized operands moves by a fraction of the sum of magnitudes, which
    cancellation does not reduce. The model itself computes that sum from the magnitudes of its
    numbers: its results must grow with them. Where inputs have ``ranges``, these determine the
    steps instead of the values.
    """
    results = [
        results_of(before, feeds),
        results_of(after, feeds),
        results_of(*_magnitudes(before, feeds, ranges)),
    ]
    lists = [result for result in results if result is not None]
    return len(lists) == len(results) and all(
        _is_near(*values, bits=bits) for values in zip(*lists, strict=True)
    )


def _is_near(before: Value, after: Value, magnitudes: Value, *, bits: int) -> bool:
    if not (
        isinstance(before, np.ndarray)
        and isinstance(after, np.ndarray)
        and isinstance(magnitudes, np.ndarray)
    ):
        return False
    if (
        before.shape != after.shape
        or before.dtype != after.dtype
        or not is_float(element_type(before.dtype))
    ):
        return False
    with np.errstate(all="ignore"):
        errors = np.abs(before.astype(np.float64) - after.astype(np.float64))
        limit = _STEPS * 2.0**-bits * np.max(magnitudes.astype(np.float64), initial=0)
        return bool(np.all((errors <= limit) | ~np.isfinite(before)))


def _magnitudes(
    model: onnx.ModelProto, feeds: Feeds, ranges: Sequence[Range]
) -> tuple[onnx.ModelProto, Feeds]:
    """The model with the magnitudes of its constants, and each input filled with its largest
    magnitude.

    A Clip becomes a Max with its bounds, since steps may be derived from them.
    """
    copy = deepcopy(model)
    for node in copy.graph.node:
        if node.op_type == "Clip" and len(node.input) == 3 and all(node.input):
            node.op_type = "Max"
    tensors = [
        *copy.graph.initializer,
        *(a.t for node in all_nodes(copy) for a in node.attribute if a.name == "value"),
    ]
    for tensor in tensors:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(
                numpy_helper.from_array(np.abs(numpy_helper.to_array(tensor)), tensor.name)
            )
    bounds = {name: max(abs(low), abs(high)) for name, low, high in ranges}
    return copy, {name: _largest(value, bounds.get(name, 0.0)) for name, value in feeds.items()}


def _largest(value: Value, bound: float) -> Value:
    if (
        not isinstance(value, np.ndarray)
        or not is_float(element_type(value.dtype))
        or not value.size
    ):
        return value
    return np.full_like(value, max(bound, np.max(np.abs(value))))
