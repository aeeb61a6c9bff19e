"""The base of the patterns of the phase ``lower``, and the types that they support."""

from typing import ClassVar, Final

from onnx import TensorProto

from xoptim.facts.dtypes import Exactness
from xoptim.match import EasyPatternOptimization
from xoptim.match.by_definition import HALVES as HALVES, narrowed as narrowed, widened as widened

COMPUTED: Final = frozenset((*HALVES, TensorProto.FLOAT, TensorProto.DOUBLE))
"""The floating-point types that operators compute with."""
WIDE_FLOATS: Final = frozenset((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16))
"""The floating-point types of 16 bits or more that onnxruntime's CPU provider computes with."""
ATTENTION_FLOATS: Final = frozenset((TensorProto.FLOAT, TensorProto.FLOAT16))
"""The floating-point types for which attention and rotary embeddings are lowered."""
WIDE: Final = frozenset((TensorProto.INT64, TensorProto.UINT64, TensorProto.DOUBLE))
"""The types of 64 bits, which several providers lack."""


class _Lowering(EasyPatternOptimization):
    """An operator written with simpler ones.

    Lowerings are in no preset. A target selects them for the nodes that its provider does not run.
    """

    phase = "lower"
    exactness: ClassVar[Exactness] = "rounding"


def axes_from(axis: int, rank: int | None) -> list[int] | None:
    """All axes from ``axis`` on, counted from the end; ``None`` if an unknown rank is needed."""
    if axis < 0:
        return list(range(axis, 0))
    if rank is None:
        return None
    return list(range(axis - rank, 0))
