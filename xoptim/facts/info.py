"""Facts about one result: element type, shape, and small integer values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from xoptim.facts.dims import Dim

Shape: TypeAlias = tuple[Dim, ...]
Container: TypeAlias = Literal["", "sequence", "optional", "map", "sparse", "opaque"]


@dataclass(slots=True, eq=True)
class Info:
    """Facts about one result. Treat it as immutable: the same object is shared by many results."""

    dtype: int = 0  # element type, a value of ``onnx.TensorProto.DataType``; 0 when unknown
    # One entry per axis, an ``int`` or a symbolic dimension; ``None`` when even the rank is unknown. There is no "unknown
    # dimension": a fresh anonymous symbol takes its place
    shape: Shape | None = None
    # Elements, in row-major order, of an integer tensor of rank 0 or 1 that holds dimensions or positions (each an ``int`` or
    # a symbolic expression); ``None`` when unknown or not of interest
    data: tuple[Dim, ...] | None = None
    container: Container = ""  # ``""`` for a dense tensor, else the kind of value that wraps or replaces it
    element: Info | None = None  # facts about the items of a sequence or about the content of an optional
    # Serialized ``onnx.TypeProto`` of the kinds that the other fields cannot express (maps, sparse, opaque)
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
