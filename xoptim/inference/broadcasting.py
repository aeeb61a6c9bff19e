"""Shapes that meet: multidirectional broadcasting, and dimensions that a valid model makes equal."""

from __future__ import annotations

from collections.abc import Iterable

from xoptim.facts.dims import Dim, SymbolicDim, broadcast
from xoptim.facts.info import Info, Shape


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


def agree(a: Dim, b: Dim) -> Dim:
    """Which of two dimensions to keep when a valid model makes them equal: a number, else what has no anonymous part."""
    if not isinstance(a, SymbolicDim) or a is b:
        return a
    if not isinstance(b, SymbolicDim):
        return b
    return b if a.is_anonymous and not b.is_anonymous else a


def elementwise(dtype: int, shape: Shape | None, a: Info, b: Info) -> Info:
    """Facts about a result; one of the operands' own facts where these say the same."""
    if shape is a.shape and dtype == a.dtype and a.data is None:
        return a
    if shape is b.shape and dtype == b.dtype and b.data is None:
        return b
    return Info(dtype, shape)
