"""Facts about one result, and arithmetic on axes and shapes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from xoptim.facts.dims import Dim, broadcast

Shape: TypeAlias = tuple[Dim, ...]
Container: TypeAlias = Literal["", "sequence", "optional", "map", "sparse", "opaque"]


@dataclass(slots=True, eq=True)
class Info:
    """Facts about one result. Treat it as immutable: the same object is shared by many results."""

    dtype: int = 0  # element type, a value of ``onnx.TensorProto.DataType``; 0 when unknown
    # One entry per axis, an ``int`` or a symbolic dimension; ``None`` when even the rank is
    # unknown. There is no "unknown dimension": a fresh anonymous symbol takes its place
    shape: Shape | None = None
    # Elements, in row-major order, of an integer tensor of rank 0 or 1 that holds dimensions or
    # positions (each an ``int`` or a symbolic expression); ``None`` when unknown or not of interest
    data: tuple[Dim, ...] | None = None
    # ``""`` for a dense tensor, else the kind of value that wraps or replaces it
    container: Container = ""
    # facts about the items of a sequence or about the content of an optional
    element: Info | None = None
    # Serialized ``onnx.TypeProto`` of the kinds that the other fields cannot express (maps, sparse,
    # opaque)
    type_proto: bytes | None = None

    @property
    def rank(self) -> int | None:
        """Number of axes, ``None`` when unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape when every axis is an ``int``, else ``None``."""
        if self.shape is None or not all(type(d) is int for d in self.shape):
            return None
        return self.shape  # type: ignore[return-value]

    @property
    def is_tensor(self) -> bool:
        """Whether this is a dense tensor (of known or unknown type)."""
        return self.container == ""


UNKNOWN = Info()


def normalized(axis: int | None, rank: int) -> int | None:
    """A non-negative axis, ``None`` when unknown or out of range."""
    if axis is None or not -rank <= axis < rank:
        return None
    return axis % rank


def all_normalized(axes: Collection[int] | None, rank: int) -> list[int] | None:
    """Non-negative axes, ``None`` when they are unknown, or when one is out of range or occurs
    twice.
    """
    result = [axis % rank for axis in axes or () if -rank <= axis < rank]
    return result if axes is not None and len(set(result)) == len(axes) else None


def broadcast_shapes(a: Shape | None, b: Shape | None) -> Shape | None:
    """Shape of an elementwise result over operands of two shapes, ``None`` when one of them is
    unknown.

    Returns ``a`` or ``b`` itself where the result is equal to it.
    """
    if a is None or b is None:
        return None
    if a is b or a == b:
        return a
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    dims = [
        x if x is y or y == 1 else broadcast(x, y)
        for x, y in zip(longer[lead:], shorter, strict=True)
    ]
    shape = (*longer[:lead], *dims)
    return a if shape == a else b if shape == b else shape


def broadcast_all(shapes: Iterable[Shape | None]) -> Shape | None:
    """Shape of an elementwise result over one or more operands, ``None`` when one of them is
    unknown.
    """
    result: Shape | None = ()
    for shape in shapes:
        result = broadcast_shapes(result, shape)
    return result
