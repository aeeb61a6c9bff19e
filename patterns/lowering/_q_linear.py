"""The base of the patterns that compute operators on 8-bit integers with floats, between
DequantizeLinear and QuantizeLinear.
"""

from typing import ClassVar, Final

import numpy as np
from onnx import TensorProto

from xoptim.facts.dtypes import numpy_dtype
from xoptim.match import GraphView, Match, PatternBuilder, PatternRewriter
from xoptim.match.trace import Optional, Symbol

from ._lowering import _Lowering

_MIN_SCALE: Final = 2.0**-100
"""Lower bound of scales and of their reciprocals."""
BYTES: Final = frozenset((TensorProto.UINT8, TensorProto.INT8))
NOT_ONE: Final = "a scale or zero point may not be a scalar, or their shapes differ"
"""The refusal of scales for which `is_one` is false."""


class _QLinear(_Lowering):
    """An operator on 8-bit integers that stand for floats.

    What: dequantizes the operands, and quantizes the result.
    Why: only ONNX Runtime's own providers run the operator. Others support quantized models by
    QuantizeLinear and DequantizeLinear.
    Refuses when:
    1. the integers do not have 8 bits (checked by the matcher).
    2. a scale is not one constant of moderate magnitude, or its zero point has another shape.

    Class attributes:
        scaled: the names of each scale and of its zero point in the pattern.
    """

    min_opset = 13
    max_opset = 27
    operand_types = {"x": BYTES}  # (1)
    derives: ClassVar[tuple[str, ...]] = ("dtype",)
    scaled: ClassVar[tuple[tuple[str, str], ...]] = (("s", "u"), ("t", "v"))

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        if not all(is_one(g, m[scale], m[zero]) for scale, zero in self.scaled):  # (2)
            return self.none(m.nodes[0], msg=NOT_ONE)
        return m.derive(dtype=g.try_infer_type(m.x))


def symbols(g: PatternBuilder, names: str, optional: str = "") -> list[Symbol]:
    """Operands of a pattern by their names. The operands in ``optional`` may be omitted."""
    kinds = {name: Optional if name in optional.split() else Symbol for name in names.split()}
    return [g.symbol(name, kind) for name, kind in kinds.items()]


def is_one(g: GraphView, scale: str, zero: str) -> bool:
    """Whether a scale is one constant of moderate magnitude.

    Its zero point, if any, must have the same shape.
    """
    shape, number = g.try_infer_shape(scale), g.get_constant_scalar(scale)
    if number is None or not are_moderate(np.asarray(number)):
        return False
    return shape in ((), (1,)) and (not zero or g.try_infer_shape(zero) == shape)


def are_moderate(scales: np.ndarray) -> bool:
    """Whether scales and their reciprocals are far from underflow."""
    return bool(((scales > _MIN_SCALE) & (scales < 1 / _MIN_SCALE)).all())


def quantized(g: PatternRewriter, x: str, scale: str, zero: str, dtype: int) -> str:
    """The numbers as integers of a type.

    QuantizeLinear always gets a zero point, since the zero point gives the type of the result.
    """
    shape = g.static_shape(scale) or ()
    return g.op.QuantizeLinear(x, scale, zero or np.zeros(shape, numpy_dtype(dtype)))
