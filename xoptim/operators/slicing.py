"""Slice."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from xoptim.facts.dims import Dim, bounds, ceil_div, dim_max, dim_min, is_nonnegative
from xoptim.facts.shapes import Info, all_normalized
from xoptim.operators.axes import (
    Axes,
    AxesView,
    Labels,
    Shapes,
    axes_mixed,
    label_range,
    named_axes,
)
from xoptim.operators.costs import CostKind, no_operations
from xoptim.operators.evaluate.kernel_table import (
    checked_axes,
    ints,
    ints_of,
    kernel,
    optional,
    required,
)
from xoptim.operators.inference.arguments import (
    fresh_shape,
    infers_tensor,
    is_given,
    listed,
    listed_count,
    listed_dims,
)
from xoptim.operators.inference.values import valued
from xoptim.operators.protocols import Array, EvaluationNode, NodeContext, NodeView, Results
from xoptim.operators.registry import (
    Trait,
    carries,
    costs,
    counts,
    describes,
    kinks,
    register,
    steers,
    takes,
)

register(Trait.MOVES, "Slice")
register(Trait.KEEPS_FINITE, "Slice")
register(Trait.KEEPS_FLOAT16, "Slice")
register(Trait.KEEPS_NUMBER, "Slice")
register(Trait.BOUNDS, "Slice")
register(Trait.TAKES_EMPTY, "Slice")
kinks("Slice", "starts", "ends")
takes({1: "zero", 2: "all", 3: "axes", 4: "one"}, "Slice")
carries("Slice")
steers(1, "Slice")
costs(CostKind.COPIED, "Slice")
counts("Slice")(no_operations)

Span: TypeAlias = tuple[Dim, Dim, int]
"""Start, end and step as written."""
OPEN_END: Final = 2**31 - 1
"""Positions from here on mean the end of the axis: exporters write the largest 32- or 64-bit
integer.
"""
LAST_END: Final = 2**63 - 1
"""No axis is longer: a Slice to this end takes the rest of an axis."""


@infers_tensor("Slice")
def slice_(ctx: NodeContext, x: Info) -> Results:
    """The size of a sliced axis follows from start, end and step; other axes stay."""
    if x.shape is None:
        return (Info(x.dtype),)
    rank = len(x.shape)
    axes = _axes(ctx, rank)
    if axes is None:
        return (Info(x.dtype, fresh_shape(ctx, rank)),)
    spans = _spans(ctx, len(axes))
    if spans and ctx.assumes("open_ends"):
        spans = [(_outermost(start), _outermost(end), step) for start, end, step in spans]
    dims = list(x.shape)
    for index, axis in enumerate(axes):
        size = None if spans is None else sliced(dims[axis], spans[index])
        dims[axis] = ctx.fresh() if size is None else size
    if x.data is None:
        return (Info(x.dtype, tuple(dims)),)
    return (valued(x.dtype, tuple(dims), _elements(x.data, spans)),)


def _axes(ctx: NodeContext, rank: int) -> list[int] | None:
    if not is_given(ctx, "axes"):
        count = listed_count(ctx, "starts")
        return list(range(count)) if count is not None and count <= rank else None
    return all_normalized(listed(ctx, "axes"), rank)


def _spans(ctx: NodeContext, count: int) -> list[Span] | None:
    """Return the span along each axis, ``None`` when one of them is unknown."""
    starts, ends = listed_dims(ctx, "starts"), listed_dims(ctx, "ends")
    steps = listed(ctx, "steps") if is_given(ctx, "steps") else [1] * count
    if (
        starts is None
        or ends is None
        or steps is None
        or not len(starts) == len(ends) == len(steps) == count
    ):
        return None
    return list(zip(starts, ends, steps, strict=True))


def _elements(data: Sequence[Dim], spans: list[Span] | None) -> Sequence[Dim] | None:
    if spans is None or len(spans) != 1:
        return data if spans == [] else None
    start, end, step = spans[0]
    # The data of a vector have one axis, so there is one span at most.
    if type(start) is not int or type(end) is not int or not _is_sound(end, step):
        return None
    return [data[position] for position in _positions(len(data), start, end, step)]


def _outermost(position: Dim) -> Dim:
    """A position; one that means the end of the axis is replaced by the outermost one."""
    return (
        position
        if type(position) is not int or abs(position) < OPEN_END
        else LAST_END
        if position > 0
        else -LAST_END
    )


def _is_sound(end: Dim, step: int) -> bool:
    """Whether the end is defined: a negative step to the largest integer is an empty range by the
    specification, and the complete axis in onnxruntime.
    """
    return step > 0 or (step < 0 and not (type(end) is int and end >= OPEN_END))


def _positions(size: int, start: int, end: int, step: int) -> range:
    """Return the positions taken from an axis.

    Unlike in Python, a negative step from before the first position takes the first.
    """
    # -1 is the end past the first position
    lowest, highest = (0, size) if step > 0 else (-1, size - 1)
    first = min(max(start + size if start < 0 else start, 0), highest)
    stop = min(max(end + size if end < 0 else end, lowest), highest)
    return range(first, stop, step) if size else range(0)


def sliced(size: Dim, span: Span) -> Dim | None:
    """Number of positions that a span takes from an axis, ``None`` when unknown.

    A negative position counts from the end, one out of range is clamped.
    """
    start, end, step = span
    if not _is_sound(end, step):
        return None
    if type(size) is int and type(start) is int and type(end) is int:
        return len(_positions(size, start, end, step))
    # Checked before bounds are analyzed: this form is frequent, and the result is the same object.
    if step == 1 and type(start) is int and not start and type(end) is int and end >= LAST_END:
        return size
    count = _ascending(size, start, end) if step > 0 else _descending(size, start, end)
    return count if count is None or step == 1 else ceil_div(count, abs(step))


def _is_negative(position: Dim) -> bool | None:
    if type(position) is int:
        return position < 0
    low, high = bounds(position)
    if low is not None and low >= 0:
        return False
    return True if high is not None and high < 0 else None


def _is_beyond(position: Dim) -> bool:
    return type(position) is int and abs(position) >= LAST_END


def _is_clamped(size: Dim, position: Dim) -> bool:
    """Whether a position of unknown sign, where it is negative, lies before the axis or at its
    beginning.

    With ``size - position <= 2``, a position of -1 or less plus the size is at most 0.
    """
    high = bounds(size - position)[1]
    return high is not None and high <= 2


def _ascending(size: Dim, start: Dim, end: Dim) -> Dim | None:
    """Number of positions between start and end, both clamped to ``[0, size]``; at least 0."""
    negative = _is_negative(end)
    if negative:
        # It may lie before the axis: the maximum with 0 below covers that.
        last: Dim = 0 if _is_beyond(end) else size + end
    elif negative is not None or _is_clamped(size, end):
        last = size if _is_beyond(end) else dim_min(end, size)
    else:
        return None
    negative = _is_negative(start)
    if negative:
        first = 0 if _is_beyond(start) else size + start
        return dim_max(dim_min(last - first, last), 0)
    if negative is None:
        if is_nonnegative(-start - size):
            return dim_max(last, 0)
        if not _is_clamped(size, start):
            return None
        start = dim_max(start, 0)
    # A start beyond the axis is beyond the end too, so there is no need to clamp it.
    return 0 if _is_beyond(start) else dim_max(last - start, 0)


def _descending(size: Dim, start: Dim, end: Dim) -> Dim | None:
    """Number of positions from the start down to the end, without the end; it is -1 if it lies
    before the axis.
    """
    negative_start, negative_end = _is_negative(start), _is_negative(end)
    if negative_start is None or negative_end is None:
        return None
    # the number of positions from the beginning of the axis to the start, and to the end
    if negative_start:
        to_start: Dim = dim_min(size, 1 if _is_beyond(start) else dim_max(size + start + 1, 1))
    else:
        to_start = size if _is_beyond(start) else dim_min(start + 1, size)
    if negative_end:
        to_end: Dim = 0 if _is_beyond(end) else dim_max(size + end + 1, 0)
    else:
        to_end = size if _is_beyond(end) else dim_min(end + 1, size)
    return dim_max(to_start - to_end, 0)


@describes("Slice")
def slice_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """By default the first axes, as many as there are starts."""
    axes = _sliced_axes(g, node, shapes)
    return axes_mixed(node, shapes, axes, {"axes": axes} if axes else {})


def _sliced_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Labels | None:
    if g.get_argument(node, "axes") is not None:
        return named_axes(g, node, len(shapes[0]))
    starts = g.get_argument(node, "starts")
    count = len(starts) if isinstance(starts, list) else shapes[1][0]
    return label_range(count) if isinstance(count, int) else None


@kernel("Slice")
def slice_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Ranges of some axes, with steps of either sign."""
    data = required(inputs, 0)
    ranges = slice_ranges(node, inputs, data.shape)
    return None if ranges is None else [data[tuple(ranges)].copy()]


def slice_ranges(
    node: EvaluationNode, inputs: list[Array | None], shape: Sequence[int]
) -> list[slice] | None:
    """The range of each axis that a Slice takes, as Python counts it; ``None`` when unsupported.

    The data, the first of the inputs, is not read; ``shape`` is its shape.
    """
    starts = ints_of(node, "starts", inputs)
    ends = ints_of(node, "ends", inputs)
    if starts is None or ends is None or len(starts) != len(ends):
        return None
    axes = ints_of(node, "axes", inputs)
    step_values = optional(inputs, 4)
    axes = checked_axes(range(len(starts)) if axes is None else axes, len(shape))
    steps = [1] * len(starts) if step_values is None else ints(step_values)
    if len(axes) != len(starts) or len(steps) != len(starts) or 0 in steps:
        return None
    if not all(map(_is_sound, ends, steps)):
        return None
    ranges = [slice(None)] * len(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        ranges[axis] = _range_of(start, end, step, shape[axis])
    return ranges


def _range_of(start: int, end: int, step: int, length: int) -> slice:
    """The Python slice of an ONNX range: a negative end below ``-length`` means "before the
    first".
    """
    start = start + length if start < 0 else start
    end = end + length if end < 0 else end
    if step > 0:
        return slice(min(max(start, 0), length), min(max(end, 0), length), step)
    end = min(max(end, -1), length - 1)
    return slice(min(max(start, 0), max(length - 1, 0)), None if end < 0 else end, step)
