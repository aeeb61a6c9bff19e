"""Range."""

from __future__ import annotations

import math

import numpy as np

from xoptim.facts.dims import Dim, ceil_div, dim_max
from xoptim.inference.arguments import dtype_of
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import DATA_LIMIT, INTEGERS, RANGES, valued, values


@infers("Range")
def range_(ctx: NodeContext) -> Results:
    """As many numbers as ``ceil((limit - start) / delta)``, none when that is negative."""
    dtype = dtype_of(ctx.input(0)) or dtype_of(ctx.input(1)) or dtype_of(ctx.input(2))
    operands = _operands(ctx)
    count: Dim | None = None
    data = None
    if operands is not None and dtype in RANGES:
        start, span, delta = operands
        count = dim_max(ceil_div(span, abs(delta)), 0)
        if dtype not in INTEGERS and (type(span) is not int or span > RANGES[dtype][1]):
            count = None  # the difference of two floating-point numbers is rounded
        elif dtype in INTEGERS and type(count) is int and count <= DATA_LIMIT:
            data = [start + i * delta for i in range(count)]
    if count is None and dtype not in INTEGERS:
        count = _float_count(ctx)
    return (valued(dtype, (ctx.fresh() if count is None else count,), data),)


def _operands(ctx: NodeContext) -> tuple[Dim, Dim, int] | None:
    """The start, the distance to the limit in the direction of the step, and the step, as far as they are integers."""
    start, limit, delta = [_scalar(ctx, index) for index in range(3)]
    if start is None or limit is None or type(delta) is not int or not delta:
        return None
    return start, (limit - start if delta > 0 else start - limit), delta


def _scalar(ctx: NodeContext, index: int) -> Dim | None:
    data = values(ctx, index)
    return data[0] if data is not None and len(data) == 1 else None


def _float_count(ctx: NodeContext) -> int | None:
    """The difference is rounded to the type of the operands, the quotient to 64 bits, as in onnxruntime."""
    arrays = [ctx.constant(index) for index in range(3)]
    start, limit, delta = [array.ravel()[0] if array is not None and array.size == 1 else None for array in arrays]
    if start is None or limit is None or delta is None:
        return None
    with np.errstate(all="ignore"):
        difference, step = float(limit - start), float(delta)
    if not step or not math.isfinite(difference) or not math.isfinite(step):
        return None
    return max(math.ceil(difference / step), 0)
