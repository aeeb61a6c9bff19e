"""Operators that move, insert, drop, merge and reduce axes."""

import functools
import math
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Final

from xoptim.facts.dims import (
    Dim,
    before_wrapping,
    bounds,
    dim_max,
    dim_min,
    exact_quotient,
    floor_div,
    is_never_one,
    is_nonnegative,
    multiplied_out,
    opaque,
    product,
)
from xoptim.facts.shapes import REDUCTIONS, Info, Shape, normalized
from xoptim.operators.inference.arguments import (
    dim_of,
    fresh_shape,
    infers_tensor,
    integer,
    integers,
    is_given,
    listed,
    listed_count,
    listed_dims,
    place_of,
    shapes,
)
from xoptim.operators.inference.values import INTEGERS, RANGES, Values, valued, values
from xoptim.operators.protocols import NodeContext, Results

_RULES: Final[dict[str, Callable[[Values], Dim]]] = {
    "ReduceMax": lambda data: dim_max(*data),
    "ReduceMin": lambda data: dim_min(*data),
    "ReduceProd": product,
    "ReduceSum": lambda data: functools.reduce(lambda a, b: a + b, data),
}


@infers_tensor(*REDUCTIONS)
def reduction(ctx: NodeContext, x: Info) -> Results:
    """No axes mean all of them, or none with ``noop_with_empty_axes``, which came when the axes
    became an operand.
    """
    keep = integer(ctx, "keepdims", 1)
    axes, count = (
        (listed(ctx, "axes"), listed_count(ctx, "axes")) if is_given(ctx, "axes") else ([], 0)
    )
    if count == 0 and place_of(ctx, "axes") is not None:
        noop = integer(ctx, "noop_with_empty_axes", 0)
        if noop != 0:
            return (Info(x.dtype, x.shape if noop == 1 else None),)
    shape = None if keep is None else _reduced(ctx, x.shape, axes, count, bool(keep))
    return (valued(x.dtype, shape, None if count is None else _reduced_values(ctx, x)),)


@shapes("QLinearReduceMean", domain="com.microsoft")
# whether its 32-bit sums have a sign is not documented
@shapes("ReduceSumInteger", typed_by=(), domain="com.microsoft")
def reduce_microsoft(ctx: NodeContext, shape: Shape | None) -> Shape | None:
    """A reduction over the axes in the attribute, all of them by default."""
    keep, axes = (
        integer(ctx, "keepdims", 1),
        [] if ctx.attribute("axes") is None else integers(ctx, "axes"),
    )
    return (
        None if keep is None or axes is None else _reduced(ctx, shape, axes, len(axes), bool(keep))
    )


def _reduced(
    ctx: NodeContext, shape: Shape | None, axes: list[int] | None, count: int | None, keep: bool
) -> Shape | None:
    if count == 0 and not keep:
        return ()
    if shape is None:
        return None
    rank = len(shape)
    if count == 0:
        return (1,) * rank
    if axes is None:
        if keep:
            return fresh_shape(ctx, rank)
        # of several, some may be equal
        return fresh_shape(ctx, rank - 1) if count == 1 and rank else None
    dropped = {normalized(axis, rank) for axis in axes}
    if None in dropped:  # an axis is out of range
        return None
    if keep:
        return tuple(1 if axis in dropped else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


def _reduced_values(ctx: NodeContext, x: Info) -> list[Dim] | None:
    """The value of a reduced vector or scalar, which has one axis at most to reduce."""
    rule = _RULES.get(ctx.op_type)
    data = values(ctx, 0) if rule is not None and x.data else None
    if rule is None or not data:
        return None
    if ctx.op_type in ("ReduceProd", "ReduceSum") and not _is_exact(ctx.op_type, x.dtype, data):
        # Inexact, so the sum of the polynomials may be wrong; the same operands still give the same
        # result.
        symbolic = not all(type(value) is int for value in data)
        return [opaque(f"{ctx.op_type}{x.dtype}", data, RANGES[x.dtype])] if symbolic else None
    return [rule(data)]


def _is_exact(op_type: str, dtype: int, data: Values) -> bool:
    """Whether no partial result leaves the integers that doubles and the type itself hold.

    onnxruntime reduces integers in double precision, in an order of its own. Floating-point numbers
    are never exact here: partial results may be inexact although the total is small.
    """
    sizes: list[int] = []
    for low, high in map(bounds, data):
        if low is None or high is None:
            return False
        sizes.append(max(abs(low), abs(high)))
    most = sum(sizes) if op_type == "ReduceSum" else math.prod(max(size, 1) for size in sizes)
    return dtype in INTEGERS and most < min(2**53, RANGES[dtype][1])


@infers_tensor("Transpose")
def transpose(ctx: NodeContext, x: Info) -> Results:
    """Without ``perm`` the axes are reversed."""
    shape = x.shape
    if shape is not None and len(shape) < 2:
        return (x,)
    if ctx.attribute("perm") is None:
        return (Info(x.dtype, None if shape is None else shape[::-1]),)
    order = integers(ctx, "perm")
    if order is None or sorted(order) != list(range(len(order))):
        return (Info(x.dtype),)
    if shape is None:
        return (Info(x.dtype, fresh_shape(ctx, len(order))),)
    return (
        Info(x.dtype, tuple([shape[axis] for axis in order]) if len(order) == len(shape) else None),
    )


@infers_tensor("Squeeze")
def squeeze(ctx: NodeContext, x: Info) -> Results:
    """Drops the axes named or, where none is (an empty list counts as none), all of size 1: unknown
    where a symbol may be 1.
    """
    axes, count = (
        (listed(ctx, "axes"), listed_count(ctx, "axes")) if is_given(ctx, "axes") else ([], 0)
    )
    return (valued(x.dtype, _squeezed(ctx, x.shape, axes, count), x.data),)


def _squeezed(
    ctx: NodeContext, shape: Shape | None, axes: list[int] | None, count: int | None
) -> Shape | None:
    if shape is None or count is None:
        return None
    rank = len(shape)
    if count == 0:
        kept = tuple(dim for dim in shape if dim != 1)
        # even the rank depends on a symbol that may be 1
        return kept if all(is_never_one(dim) for dim in kept) else None
    if axes is None:
        # of several, some may be equal
        return fresh_shape(ctx, rank - 1) if count == 1 and rank else None
    dropped = {normalized(axis, rank) for axis in axes}
    if None in dropped:
        return None
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


@infers_tensor("Unsqueeze")
def unsqueeze(ctx: NodeContext, x: Info) -> Results:
    """Axes are places in the result."""
    axes, count = listed(ctx, "axes"), listed_count(ctx, "axes")
    if x.shape is None or count is None:
        return (Info(x.dtype),)
    rank = len(x.shape) + count
    if axes is None:
        return (valued(x.dtype, fresh_shape(ctx, rank), x.data),)
    places = {normalized(axis, rank) for axis in axes}
    if None in places or len(places) < count:  # out of range, or listed twice
        return (Info(x.dtype),)
    rest = iter(x.shape)
    return (
        valued(
            x.dtype, tuple([1 if axis in places else next(rest) for axis in range(rank)]), x.data
        ),
    )


@infers_tensor("Reshape")
def reshape(ctx: NodeContext, x: Info) -> Results:
    """The elements of the input, in as much of the target shape as is known."""
    target = listed_dims(ctx, "shape")
    if target is not None:
        allow_zero = integer(ctx, "allowzero", 0) if ctx.opset >= 14 else 0
        shape = (
            None if allow_zero is None else _solve(ctx, x.shape, target, copy_zeros=not allow_zero)
        )
    else:
        shape = _unknown_target(ctx, x.shape, dim_of(ctx.input(1), 0, 1))
    return (valued(x.dtype, shape, x.data),)


def _unknown_target(ctx: NodeContext, source: Shape | None, count: Dim | None) -> Shape | None:
    """Result for a target whose length alone is known."""
    if type(count) is not int:
        return None
    if source is not None and count == 1:
        return (product(source),)  # the only axis holds all elements, for any value of the target
    return fresh_shape(ctx, count)


def _solve(
    ctx: NodeContext, source: Shape | None, target: Sequence[Dim], *, copy_zeros: bool
) -> Shape:
    """Dimensions of the result.

    0 copies the dimension of the input at the same place (unless ``allowzero``), -1 stands for the
    remaining factor. A symbolic size that may be negative may be -1 at run time, so it is solved
    for like -1, unless there is a -1 already. A size that is at least 0 is used as it is: at a run
    where it is 0, the copied size would have to be 0 too.
    """
    if source is not None and ctx.assumes("addressable") and ctx.assumes("small_empty"):
        target = _meant(source, target)
    # At most one -1 is allowed, so beside a written one no symbol can be -1.
    rest_is_left = -1 in target
    dims: list[Dim | None] = []
    for index, size in enumerate(target):
        if type(size) is not int:
            dims.append(size if rest_is_left or is_nonnegative(size) else None)
        elif size == 0 and copy_zeros:
            dims.append(source[index] if source is not None and index < len(source) else None)
        else:
            dims.append(size if size >= 0 else None)
    missing = [index for index, dim in enumerate(dims) if dim is None]
    found = None
    if len(missing) == 1 and source is not None:
        found = _left_over(source, [dim for dim in dims if dim is not None])
    return tuple(
        [dim if dim is not None else found if found is not None else ctx.fresh() for dim in dims]
    )


def _meant(source: Shape, target: Sequence[Dim]) -> Sequence[Dim]:
    """The target with the exact sizes in place of those that may wrap around in their element type.

    Where the sizes give the number of elements when they are multiplied, which is less than 2**48,
    one of them at most does not fit 32 bits; the others determine its size. A factor of that number
    fits 64 bits.
    """
    meant = [size if type(size) is int else before_wrapping(size) for size in target]
    if not any(map(is_not, meant, target)):
        return target
    total = product(source)
    # A written 0 copies an axis: the product of the sizes then says nothing about the number of
    # elements.
    if product(meant) == total and all(map(is_nonnegative, meant)) and 0 not in target:
        return meant
    wide = [before_wrapping(size, 64) for size in target]
    fits = [is_nonnegative(size) and exact_quotient(total, size) is not None for size in wide]
    return [a if fit else b for a, b, fit in zip(wide, target, fits, strict=True)]


def _left_over(source: Shape, used: list[Dim]) -> Dim | None:
    """The dimension that, with those used, holds as many elements as the source."""
    rest = list(source)
    divisors: list[Dim] = []
    for dim in used:
        # The same factor on both sides cancels: where it is 0, the tensor is empty for every size.
        if dim in rest and dim != 0:
            rest.remove(dim)
        else:
            divisors.append(dim)
    total, divisor = product(rest), product(divisors)
    if divisor == 0:
        return None  # -1 beside an axis of length 0 has no unique solution
    quotient = exact_quotient(total, divisor)
    if quotient is not None:
        # windows of an axis that was padded to whole ones: put together, they are the axis
        return multiplied_out(quotient)
    # Of two numbers, a remainder proves the model invalid; a symbolic quotient is exact in every
    # run that has a result.
    return None if type(total) is int and type(divisor) is int else floor_div(total, divisor)


@infers_tensor("Flatten")
def flatten(ctx: NodeContext, x: Info) -> Results:
    """A matrix: the axes before ``axis`` and the others."""
    axis = integer(ctx, "axis", 1)
    # valid for Flatten, but not an axis for `normalized`
    if x.shape is not None and axis == len(x.shape):
        return (Info(x.dtype, (product(x.shape), 1)),)
    start = None if x.shape is None else normalized(axis, len(x.shape))
    if x.shape is None or start is None:
        return (Info(x.dtype, fresh_shape(ctx, 2)),)
    return (Info(x.dtype, (product(x.shape[:start]), product(x.shape[start:]))),)
