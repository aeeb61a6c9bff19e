"""Range."""

from __future__ import annotations

import math
from typing import Final

from xoptim.facts.dims import LARGEST_SIZE, Dim, bounds, ceil_div, dim_max, opaque
from xoptim.inference.arguments import dtype_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import DATA_LIMIT, INTEGERS, Values, valued, values

_EXACT: Final = 2**52
_SMALL_STEP: Final = 8


@infers("Range")
def range_(ctx: NodeContext) -> Results:
    """As many numbers as ``ceil((limit - start) / delta)``, none when that is negative.

    Source: onnxruntime converts the three numbers, which are of one type, to double precision and computes there (before
    version 1.32 integers too).
    """
    dtype = dtype_of(ctx.input(0)) or dtype_of(ctx.input(1)) or dtype_of(ctx.input(2))
    numbers = [_number(ctx, index) for index in range(3)]
    start, limit, delta = numbers
    if start is not None and limit is not None and delta is not None:
        count: Dim | None = range_length(start, limit, delta)
    else:
        count = _symbolic_count(ctx) if dtype in INTEGERS else None
    data: list[Dim] | None = None
    if dtype in INTEGERS and type(count) is int and count <= DATA_LIMIT:
        data = _elements(ctx, count)
    return (valued(dtype, (ctx.fresh() if count is None else count,), data),)


def range_length(start: float, limit: float, delta: float) -> int | None:
    """Number of elements, ``None`` where there is none, or where it depends on the version of the runtime.

    A step of 0 and operands that are not finite have none. onnxruntime counts in double precision, and from version 1.32 on
    with integers where the operands are: where these differ, the number is not known.
    """
    span, step = float(limit) - float(start), float(delta)
    if not step or not math.isfinite(span) or not math.isfinite(step) or not math.isfinite(span / step):
        return None
    count = max(math.ceil(span / step), 0)
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return count if count == max(-((start - limit) // delta), 0) else None
    return count


def _scalar(ctx: NodeContext, index: int) -> Dim | None:
    data: Values | None = values(ctx, index)
    return data[0] if data is not None and len(data) == 1 else None


def _number(ctx: NodeContext, index: int) -> float | None:
    """An operand that is known to be a number."""
    value = _scalar(ctx, index)
    if value is not None:
        return value if type(value) is int else None
    array = ctx.constant(index)
    if array is None or array.size != 1 or array.dtype.kind not in "iuf":
        return None
    element = array.reshape(()).item()
    return element if isinstance(element, (int, float)) else None


def _symbolic_count(ctx: NodeContext) -> Dim | None:
    start, limit, delta = [_scalar(ctx, index) for index in range(3)]
    if start is None or limit is None or type(delta) is not int or not delta:
        return None
    # A limit that a double does not hold exactly is so large that no tensor is that long, unless the steps are large.
    if not _is_exact(start) or not (_is_exact(limit) or abs(delta) <= _SMALL_STEP):
        return opaque("Range", (start, limit, delta), (0, LARGEST_SIZE))
    span = limit - start if delta > 0 else start - limit
    return dim_max(ceil_div(span, abs(delta)), 0)


def _is_exact(value: Dim) -> bool:
    """Whether doubles hold the value and its distance to another such value, and round no fraction of that to an integer."""
    low, high = bounds(value)
    return low is not None and high is not None and low > -_EXACT and high < _EXACT


def _elements(ctx: NodeContext, count: int) -> list[Dim] | None:
    start, delta = _scalar(ctx, 0), _scalar(ctx, 2)
    return None if start is None or type(delta) is not int else [start + i * delta for i in range(count)]
