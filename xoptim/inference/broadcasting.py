"""Facts that meet: dimensions that a valid model makes equal, and results that share the facts of an operand."""

from __future__ import annotations

from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.info import Info, Shape


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
