"""The places of the operands of a Concat in its result."""

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.match import GraphView

from .._axes import size_along


def bounds_of(g: GraphView, names: Sequence[str], axis: int) -> list[Dim]:
    """The positions at which tensors begin when they are concatenated along an axis, and the end of the last one.

    Args:
        g: the graph.
        names: the tensors, of known shapes.
        axis: counted from the front.
    """
    bounds: list[Dim] = [0]
    for name in names:
        size = size_along(g, name, axis)
        assert size is not None
        bounds.append(bounds[-1] + size)
    return bounds
