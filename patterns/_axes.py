"""Axes counted from the front."""

from collections.abc import Sequence

from xoptim.facts.dims import Dim
from xoptim.match import GraphView
from xoptim.match.axes import axis_of, permutation

__all__ = ["agree_elsewhere", "axis_of", "bounds_of", "permutation", "size_along"]


def size_along(g: GraphView, name: str, axis: int | None) -> Dim | None:
    """The dimension of a result along an axis, ``None`` when one of them is unknown."""
    shape = g.try_infer_shape(name)
    return shape[axis] if shape is not None and axis is not None and axis < len(shape) else None


def agree_elsewhere(g: GraphView, names: Sequence[str], axis: int) -> bool:
    """Whether tensors are known to have equal shapes but for one axis, as Concat requires.

    onnxruntime concatenates empty tensors of any shape, so a run without an error does not prove that these shapes agree.
    """
    shapes = [g.try_infer_shape(name) for name in names]
    first = shapes[0]
    if first is None:
        return False
    return all(s is not None and s[:axis] == first[:axis] and s[axis + 1 :] == first[axis + 1 :] for s in shapes)


def bounds_of(g: GraphView, names: Sequence[str], axis: int) -> list[Dim]:
    """The positions at which tensors of known shapes begin when they are concatenated, and the end of the last one."""
    bounds: list[Dim] = [0]
    for name in names:
        size = size_along(g, name, axis)
        assert size is not None
        bounds.append(bounds[-1] + size)
    return bounds
