"""Merging of facts: dimensions that a valid model makes equal, and results that share the facts of an operand."""

from __future__ import annotations

from xoptim.facts.dims import Dim, SymbolicDim
from xoptim.facts.info import Info, Shape


def agree(a: Dim, b: Dim) -> Dim:
    """The dimension to keep of two that a valid model makes equal: a number, else the one without anonymous part."""
    if not isinstance(a, SymbolicDim) or a is b:
        return a
    if not isinstance(b, SymbolicDim):
        return b
    return b if a.is_anonymous and not b.is_anonymous else a


def elementwise(dtype: int, shape: Shape | None, a: Info, b: Info) -> Info:
    """Facts about a result; the object of an operand's facts where these are equal."""
    if shape is a.shape and dtype == a.dtype and a.data is None:
        return a
    if shape is b.shape and dtype == b.dtype and b.data is None:
        return b
    return Info(dtype, shape)
