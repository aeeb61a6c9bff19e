"""Operators that write into a copy of their first input."""

from __future__ import annotations

from xoptim.facts.info import Info
from xoptim.inference.registry import NodeContext, Results, infers


@infers("Scatter", "ScatterElements", "ScatterND")
def scatter(ctx: NodeContext) -> Results:
    """Type and shape of the data."""
    x = ctx.input(0)
    return (x if x is None or x.data is None else Info(x.dtype, x.shape),)
