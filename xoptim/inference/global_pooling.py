"""Pools over all spatial axes at once."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.arguments import dtype_of, shape_of
from xoptim.inference.registry import NodeContext, Results, infers


@infers("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(ctx: NodeContext) -> Results:
    """(N, C, ...) becomes (N, C, 1, ...)."""
    x = ctx.input(0)
    shape = shape_of(x)
    if shape is None or len(shape) < 2:
        return [Info(dtype_of(x))]
    return [Info(dtype_of(x), (*shape[:2], *[1] * (len(shape) - 2)))]
