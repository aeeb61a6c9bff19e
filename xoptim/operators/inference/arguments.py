"""Reading of attributes and shapes that may be malformed: the functions return ``None`` instead of
raising.
"""

from collections.abc import Callable, Sequence
from typing import Any

from xoptim.facts.attributes import moved
from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.shapes import Info, Shape
from xoptim.operators.inference.types import MAX_RANK
from xoptim.operators.protocols import NodeContext, Results
from xoptim.operators.registry import infers


def integer(ctx: NodeContext, name: str, default: int | None = None) -> int | None:
    """An integer attribute, ``default`` when absent, ``None`` when it is something else (a
    reference, a list).
    """
    value = ctx.attribute(name, default)
    return value if type(value) is int else None


def natural(ctx: NodeContext, name: str, default: int | None = None) -> int | None:
    """As `integer`, and ``None`` for a negative number: an attribute that is a count."""
    value = integer(ctx, name, default)
    return None if value is None or value < 0 else value


def integers(
    ctx: NodeContext, name: str, length: int | None = None, default: int | None = None
) -> list[int] | None:
    """A list of integers, ``None`` when of another type or length.

    When absent, ``length`` times the default, if any.
    """
    value = ctx.attribute(name)
    if value is None and length is not None and default is not None:
        return [default] * length
    if not isinstance(value, (list, tuple)) or (length is not None and len(value) != length):
        return None
    return list(value) if all(type(item) is int for item in value) else None


def text(ctx: NodeContext, name: str, default: str) -> str | None:
    """A text attribute, ``default`` when absent, ``None`` when it is something else."""
    value = ctx.attribute(name, default)
    return value if isinstance(value, str) else None


def shape_of(info: Info | None, rank: int | None = None) -> Shape | None:
    """The shape of a dense tensor.

    ``None`` when absent, unknown, not of a tensor, or not of rank ``rank``.
    """
    if info is None or info.container or info.shape is None:
        return None
    return info.shape if rank is None or len(info.shape) == rank else None


def dtype_of(info: Info | None) -> int:
    """The element type, 0 when absent or unknown."""
    return 0 if info is None or info.container else info.dtype


def dim_of(info: Info | None, axis: int, rank: int | None = None) -> Dim | None:
    """One dimension of a tensor; ``None`` when unknown or when the tensor has no such axis."""
    shape = shape_of(info, rank)
    return shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None


def known(ctx: NodeContext, *dims: Dim | None) -> Dim:
    """The first dimension that is known (a number wins over symbols), else a new anonymous one.

    A negative number is not a dimension: the model is invalid, and the result is unknown.
    """
    candidates = [dim for dim in dims if dim is not None and not (type(dim) is int and dim < 0)]
    if not candidates:
        return ctx.fresh()
    return next((dim for dim in candidates if type(dim) is int), candidates[0])


def agree(a: Dim, b: Dim) -> Dim:
    """The dimension to keep of two that a valid model makes equal: a number, else the one without
    anonymous part.
    """
    if not isinstance(a, SymbolicDim) or a is b:
        return a
    if not isinstance(b, SymbolicDim):
        return b
    return b if a.is_anonymous and not b.is_anonymous else a


def fresh_shape(ctx: NodeContext, rank: int) -> Shape:
    """A shape of unknown dimensions; raises `ValueError` for a rank that no tensor has."""
    if rank > MAX_RANK:
        raise ValueError(f"a tensor of {rank} axes")
    return tuple(ctx.fresh() for _ in range(rank))


def scalar(ctx: NodeContext, index: int) -> Dim | None:
    """The only element of an integer input, number or symbol, when known."""
    values = vector(ctx, index)
    return values[0] if values is not None and len(values) == 1 else None


def vector(ctx: NodeContext, index: int) -> Sequence[Dim] | None:
    """The elements of an integer input of rank 1, numbers or symbols, when known."""
    data = ctx.data(index)
    return data if data is not None else ctx.ints(index)


def place_of(ctx: NodeContext, name: str) -> int | None:
    """Position of the operand that has taken the place of an attribute, ``None`` where it still is
    an attribute.
    """
    operand = moved(ctx.op_type, name, ctx.opset)
    return None if operand is None else operand.place


def is_given(ctx: NodeContext, name: str) -> bool:
    """Whether an attribute, or the operand that has taken its place, is present."""
    place = place_of(ctx, name)
    return (ctx.attribute(name) if place is None else ctx.input(place)) is not None


def listed(ctx: NodeContext, name: str) -> list[int] | None:
    """The integers in an attribute, or in the operand that has taken its place, when they are known
    numbers.
    """
    place = place_of(ctx, name)
    return integers(ctx, name) if place is None else ctx.ints(place)


def listed_dims(ctx: NodeContext, name: str) -> Sequence[Dim] | None:
    """As `listed`, numbers or symbols."""
    place = place_of(ctx, name)
    return integers(ctx, name) if place is None else vector(ctx, place)


def listed_count(ctx: NodeContext, name: str) -> int | None:
    """The number of integers that `listed` reads, which may be known when the integers are not."""
    place = place_of(ctx, name)
    numbers = listed(ctx, name)
    count = (
        len(numbers)
        if numbers is not None
        else None
        if place is None
        else dim_of(ctx.input(place), 0, 1)
    )
    return count if type(count) is int else None


def infers_tensor(
    *op_types: str,
) -> Callable[[Callable[[Any, Info], Results]], Callable[[Any, Info], Results]]:
    """Register a formula that also takes the facts about the first operand.

    If that is not a tensor, there are no results.
    """

    def register(formula: Callable[[Any, Info], Results]) -> Callable[[Any, Info], Results]:
        def infer(ctx: NodeContext) -> Results:
            x = ctx.input(0)
            return () if x is None or x.container else formula(ctx, x)

        infers(*op_types)(infer)
        return formula

    return register


ShapeFormula = Callable[..., Shape | None]
"""Takes a `NodeContext` and the shapes of some operands, returns the shape of the only result."""


def shapes(
    *op_types: str,
    dtype: int = 0,
    typed_by: Sequence[int] = (0,),
    operands: Sequence[int] = (0,),
    domain: str = "",
) -> Callable[[ShapeFormula], ShapeFormula]:
    """Register a formula for the shape of the only result of one or several operators, from the
    shapes of some operands.

    The element type of the result is ``dtype`` or, without one, the first known type of the
    operands ``typed_by``.
    """

    def register(formula: ShapeFormula) -> ShapeFormula:
        def infer(ctx: NodeContext) -> Results:
            result_dtype = dtype or next(filter(None, map(dtype_of, map(ctx.input, typed_by))), 0)
            return (Info(result_dtype, formula(ctx, *map(shape_of, map(ctx.input, operands)))),)

        infers(*op_types, domain=domain)(infer)
        return formula

    return register
