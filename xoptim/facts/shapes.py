"""Arithmetic on axes and shapes, for all operators."""

from collections.abc import Collection, Iterable

from xoptim.facts.dims import broadcast
from xoptim.facts.info import Shape


def normalized(axis: int | None, rank: int) -> int | None:
    """A non-negative axis, ``None`` when unknown or out of range."""
    if axis is None or not -rank <= axis < rank:
        return None
    return axis % rank


def all_normalized(axes: Collection[int] | None, rank: int) -> list[int] | None:
    """Non-negative axes, ``None`` when they are unknown, or when one is out of range or occurs twice."""
    found = [axis % rank for axis in axes or () if -rank <= axis < rank]
    return found if axes is not None and len(set(found)) == len(axes) else None


def broadcast_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Shape of an elementwise result over operands of two shapes, ``None`` when one of them is unknown.

    Returns ``a`` or ``b`` itself where the result is equal to it.
    """
    if a is None or b is None:
        return None
    if a is b or a == b:
        return a
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    dims = [x if x is y or y == 1 else broadcast(x, y) for x, y in zip(longer[lead:], shorter, strict=True)]
    shape = (*longer[:lead], *dims)
    return a if shape == a else b if shape == b else shape


def broadcast_all(shapes: Iterable[Shape | None]) -> Shape | None:
    """Shape of an elementwise result over one or more operands, ``None`` when one of them is unknown."""
    result: Shape | None = ()
    for shape in shapes:
        result = broadcast_shapes(result, shape)
    return result
