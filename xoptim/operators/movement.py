"""Operators that move elements: Identity, Transpose, Reshape and other views."""

from collections.abc import Sequence
from operator import is_not
from typing import Final

import numpy as np

from xoptim.facts.dims import (
    Dim,
    before_wrapping,
    exact_quotient,
    floor_div,
    is_never_one,
    is_nonnegative,
    multiplied_out,
    product,
)
from xoptim.facts.shapes import Info, Shape, normalized
from xoptim.operators.axes import (
    Axes,
    AxesView,
    Numbers,
    Shapes,
    axes_mixed,
    axes_of_first,
    named_axes,
    permutation,
)
from xoptim.operators.costs import CostKind, no_operations
from xoptim.operators.evaluate.kernel_table import (
    checked_axes,
    checked_axis,
    copy_in_blocks,
    flag,
    ints_of,
    kernel,
    optional,
    required,
)
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
)
from xoptim.operators.inference.shared import like_first, like_first_operand
from xoptim.operators.inference.values import valued
from xoptim.operators.protocols import (
    Array,
    EvaluationNode,
    Lengths,
    NodeContext,
    NodeView,
    Results,
)
from xoptim.operators.registry import (
    Trait,
    carries,
    costs,
    counts,
    describes,
    infers,
    register,
    steers,
    takes,
)

_VIEWS: Final = ("Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze")
register(Trait.VIEW, *_VIEWS)
register(Trait.MOVES, *_VIEWS, "Transpose")
register(Trait.KEEPS_FINITE, *_VIEWS, "Transpose", "Trilu")
register(Trait.SAME_SHAPE, "ReverseSequence", "Trilu")
register(Trait.KEEPS_FLOAT16, *_VIEWS, "Transpose", "Trilu")
register(Trait.KEEPS_NUMBER, *_VIEWS, "Transpose")
register(
    Trait.TAKES_EMPTY,
    *("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Trilu", "Unsqueeze"),
)
register(Trait.BOUNDS, "Trilu")
register(Trait.BOUNDS, "Trilu", domain="com.microsoft")
takes({1: "keep"}, "Reshape")
takes({1: "axes"}, "Squeeze", "Unsqueeze")
takes({1: Lengths(0, "time_axis")}, "ReverseSequence")
takes({1: "zero"}, "Trilu")
takes({1: "zero"}, "ExpandDims", "Trilu", domain="com.microsoft")
carries(*_VIEWS, "Transpose", "Trilu")
carries("Trilu", domain="com.microsoft")
steers(1, "Reshape", "Trilu")
steers(1, "Trilu", domain="com.microsoft")
# no Flatten: `xoptim.passes.repeated`, which reads these, never stacks it
costs(CostKind.VIEW, "Identity", "Reshape", "Squeeze", "Unsqueeze")
costs(CostKind.COPIED, "Transpose")
counts(*_VIEWS, "Transpose", "Trilu")(no_operations)


@infers("Identity")
def identity(ctx: NodeContext) -> Results:
    """All facts about the input, sequences and optionals included."""
    return (ctx.input(0),)


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
    """Drops ``axes`` or, without any (an empty list counts as none), all of size 1; the shape is
    unknown where a symbol may be 1.
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
        dims = tuple(dim for dim in shape if dim != 1)
        # even the rank depends on a symbol that may be 1
        return dims if all(is_never_one(dim) for dim in dims) else None
    if axes is None:
        # several unknown axes may be equal, so their number does not give the rank
        return fresh_shape(ctx, rank - 1) if count == 1 and rank else None
    dropped = {normalized(axis, rank) for axis in axes}
    if None in dropped:
        return None
    return tuple(dim for axis, dim in enumerate(shape) if axis not in dropped)


@infers_tensor("Unsqueeze")
def unsqueeze(ctx: NodeContext, x: Info) -> Results:
    """``axes`` are axes of the result."""
    axes, count = listed(ctx, "axes"), listed_count(ctx, "axes")
    if x.shape is None or count is None:
        return (Info(x.dtype),)
    rank = len(x.shape) + count
    if axes is None:
        return (valued(x.dtype, fresh_shape(ctx, rank), x.data),)
    places = {normalized(axis, rank) for axis in axes}
    if None in places or len(places) < count:  # out of range, or listed twice
        return (Info(x.dtype),)
    dims = iter(x.shape)
    return (
        valued(
            x.dtype, tuple([1 if axis in places else next(dims) for axis in range(rank)]), x.data
        ),
    )


@infers_tensor("Reshape")
def reshape(ctx: NodeContext, x: Info) -> Results:
    """The elements of the input, and the target shape as far as it is known."""
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
    """Shape for a target of which only the length is known."""
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
    for like -1, unless there is a -1 already. A size that is at least 0 is used as it is: in a run
    where it is 0, the copied dimension has to be 0 as well.
    """
    if source is not None and ctx.assumes("addressable") and ctx.assumes("small_empty"):
        target = _exact_target(source, target)
    # At most one -1 is allowed: where it is written, no symbol can be -1.
    has_minus_one = -1 in target
    dims: list[Dim | None] = []
    for index, size in enumerate(target):
        if type(size) is not int:
            dims.append(size if has_minus_one or is_nonnegative(size) else None)
        elif size == 0 and copy_zeros:
            dims.append(source[index] if source is not None and index < len(source) else None)
        else:
            dims.append(size if size >= 0 else None)
    missing = [index for index, dim in enumerate(dims) if dim is None]
    missing_dim = None
    if len(missing) == 1 and source is not None:
        missing_dim = _left_over(source, [dim for dim in dims if dim is not None])
    return tuple(
        [
            dim if dim is not None else missing_dim if missing_dim is not None else ctx.fresh()
            for dim in dims
        ]
    )


def _exact_target(source: Shape, target: Sequence[Dim]) -> Sequence[Dim]:
    """The target with exact sizes in place of sizes that may wrap around in their element type.

    If the sizes multiply to the number of elements, which is below 2**48, at most one of them does
    not fit 32 bits, and the other sizes determine it. Factors of that number fit 64 bits.
    """
    exact = [size if type(size) is int else before_wrapping(size) for size in target]
    if not any(map(is_not, exact, target)):
        return target
    total = product(source)
    # A written 0 copies an axis: the product of the sizes then says nothing about the number of
    # elements.
    if product(exact) == total and all(map(is_nonnegative, exact)) and 0 not in target:
        return exact
    wide = [before_wrapping(size, 64) for size in target]
    fits = [is_nonnegative(size) and exact_quotient(total, size) is not None for size in wide]
    return [a if fit else b for a, b, fit in zip(wide, target, fits, strict=True)]


def _left_over(source: Shape, used: list[Dim]) -> Dim | None:
    """The dimension that, multiplied by ``used``, gives as many elements as the source has."""
    remaining = list(source)
    divisors: list[Dim] = []
    for dim in used:
        # The same factor on both sides cancels: where it is 0, the tensor is empty for every size.
        if dim in remaining and dim != 0:
            remaining.remove(dim)
        else:
            divisors.append(dim)
    total, divisor = product(remaining), product(divisors)
    if divisor == 0:
        return None  # -1 next to a dimension of size 0 has no unique solution
    quotient = exact_quotient(total, divisor)
    if quotient is not None:
        # such as an axis that is padded to a multiple of n, split into windows of n, and joined
        return multiplied_out(quotient)
    # Of two numbers, a remainder shows that the model is invalid; a symbolic quotient is exact in
    # every run that has a result.
    return None if type(total) is int and type(divisor) is int else floor_div(total, divisor)


@infers_tensor("Flatten")
def flatten(ctx: NodeContext, x: Info) -> Results:
    """A matrix: the axes before ``axis`` become its rows, the axes from ``axis`` on its columns."""
    axis = integer(ctx, "axis", 1)
    # valid for Flatten, but not an axis for `normalized`
    if x.shape is not None and axis == len(x.shape):
        return (Info(x.dtype, (product(x.shape), 1)),)
    start = None if x.shape is None else normalized(axis, len(x.shape))
    if x.shape is None or start is None:
        return (Info(x.dtype, fresh_shape(ctx, 2)),)
    return (Info(x.dtype, (product(x.shape[:start]), product(x.shape[start:]))),)


infers("ReverseSequence", "Trilu")(like_first_operand)
infers("Trilu", domain="com.microsoft")(like_first)


@describes("Squeeze")
def squeezed_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """The result has no axes that are in ``axes``; without any, the sizes decide which it has."""
    axes = named_axes(g, node, len(shapes[0]))
    if not axes:
        return None
    return axes_mixed(node, shapes, axes, {"axes": frozenset(axes)}, drops=True)


@describes("Unsqueeze")
def unsqueezed_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """Only the result has the axes that are in ``axes``."""
    axes, rank = g.get_argument(node, "axes"), len(shapes[0])
    added = named_axes(g, node, rank + len(axes)) if isinstance(axes, list) else None
    if added is None or len({*added}) < len(added):
        return None
    old, new = iter(range(rank)), iter(range(rank, rank + len(added)))
    result = tuple(next(new if axis in added else old) for axis in range(rank + len(added)))
    return axes_of_first(node, shapes, result, names={"axes": frozenset(result) - {*range(rank)}})


@describes("Transpose")
def transposed_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """The axes of the operand in another order."""
    perm = tuple(permutation(g, node) or ())
    return (
        axes_of_first(node, shapes, perm, names={"perm": perm})
        if sorted(perm) == [*range(len(shapes[0]))]
        else None
    )


@describes("Reshape")
def reshaped_axes(g: AxesView, node: NodeView, shapes: Shapes) -> Axes | None:
    """Leading axes of equal size stay; the elements of the axes after them are mixed.

    With ``allowzero``, the elements of all axes are mixed.
    """
    result, target = g.try_infer_shape(node.output[0]), g.get_argument(node, "shape")
    if result is None or not isinstance(target, list) or len(target) != len(result):
        return None
    rank, kept = len(shapes[0]), None if node.get_attribute("allowzero") else 0
    pairs = enumerate(zip(shapes[0], result, strict=False))
    equal = next((axis for axis, (a, b) in pairs if a != b or kept is None), min(rank, len(result)))
    labels = (*range(equal), *range(rank, rank + len(result) - equal))
    numbers = Numbers(dict(zip(labels, target, strict=True)), kept)
    return axes_of_first(
        node,
        shapes,
        labels,
        range(equal, rank),
        last=len(result) - equal,
        numbers={"shape": numbers},
    )


@kernel("Identity")
def identity_kernel(_node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The input itself."""
    return [required(inputs, 0)]


@kernel("Reshape")
def reshape_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The elements in another shape: 0 copies a dimension (unless ``allowzero``), -1 means the
    remaining factor.
    """
    data = required(inputs, 0)
    dims = ints_of(node, "shape", inputs)
    # runtimes refuse models with other types
    typed = all(array is None or array.dtype == np.int64 for array in inputs[1:])
    if dims is None or min(dims, default=0) < -1 or not typed:
        return None
    if not flag(node, "allowzero"):
        dims = [data.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
    if -1 in dims and 0 in dims:
        return None
    return [data.reshape(dims)]


@kernel("Squeeze")
def squeeze_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The data without some axes of size 1 (all of them by default; onnxruntime reads an empty list
    in this way).
    """
    data = required(inputs, 0)
    axes = ints_of(node, "axes", inputs)
    if not axes:
        return [data.reshape([dim for dim in data.shape if dim != 1])]
    dropped = {checked_axis(axis, data.ndim) for axis in axes}
    if any(data.shape[axis] != 1 for axis in dropped):
        return None
    return [data.reshape([dim for axis, dim in enumerate(data.shape) if axis not in dropped])]


@kernel("Unsqueeze")
def unsqueeze_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The data with axes of size 1 at positions of the result."""
    data = required(inputs, 0)
    axes = ints_of(node, "axes", inputs)
    if axes is None:
        return None
    rank = data.ndim + len(axes)
    added = set(checked_axes(axes, rank))
    dims = iter(data.shape)
    return [data.reshape([1 if axis in added else next(dims) for axis in range(rank)])]


@kernel("Transpose")
def transpose_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """Axes permuted, reversed by default."""
    data = required(inputs, 0)
    perm = node.attribute("perm")
    if perm is not None and sorted(perm) != list(range(data.ndim)):
        return None
    view = data.transpose(perm)
    result = np.empty(view.shape, view.dtype)
    copy_in_blocks(view, result)
    return [result]


@kernel("Trilu")
def trilu_kernel(node: EvaluationNode, inputs: list[Array | None]) -> list[Array] | None:
    """The upper (default) or lower triangle of each matrix, zeros elsewhere."""
    data, offset = required(inputs, 0), optional(inputs, 1)
    if data.ndim < 2:
        return None
    k = 0 if offset is None else int(offset.reshape(()))
    rows, columns = data.shape[-2:]
    k = min(max(k, -rows - 1), columns + 1)
    distance = np.arange(columns) - np.arange(rows)[:, None]
    mask = distance >= k if flag(node, "upper", True) else distance <= k
    return [np.where(mask, data, np.zeros((), data.dtype))]
