"""Transpose."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.arguments import fresh_shape, integers
from xoptim.inference.registry import NodeContext, Results, infers


@infers("Transpose")
def transpose(ctx: NodeContext) -> Results:
    """Without ``perm`` the axes are reversed."""
    x = ctx.input(0)
    if x is None or x.container:
        return ()
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
    return (Info(x.dtype, tuple([shape[axis] for axis in order]) if len(order) == len(shape) else None),)
