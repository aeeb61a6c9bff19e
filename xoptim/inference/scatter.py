"""Operators that write into a copy of their first input."""

from __future__ import annotations

from xoptim.facts.dims import Dim
from xoptim.inference.arguments import vector
from xoptim.inference.registry import NodeContext, Results, infers
from xoptim.inference.values import valued


@infers("Scatter", "ScatterElements", "ScatterND")
def scatter(ctx: NodeContext) -> Results:
    """Type and shape of the data; the elements of a vector, such as a shape in which one size is replaced."""
    x = ctx.input(0)
    if x is None or x.data is None or x.shape is None:
        return (x,)
    return (valued(x.dtype, x.shape, _written(ctx, list(x.data))),)


def _written(ctx: NodeContext, data: list[Dim]) -> list[Dim] | None:
    """The elements afterwards; ``None`` where a place is not known, or written twice."""
    places, values = ctx.ints(1), vector(ctx, 2)
    is_plain = ctx.op_type != "ScatterND" and ctx.attribute("reduction", "none") == "none"
    if places is None or values is None or len(places) != len(values) or not is_plain:
        return None
    if not all(-len(data) <= place < len(data) for place in places):
        return None
    written = {place % len(data): value for place, value in zip(places, values, strict=True)}
    return [written.get(place, value) for place, value in enumerate(data)] if len(written) == len(places) else None
