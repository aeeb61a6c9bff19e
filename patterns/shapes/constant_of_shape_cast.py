from typing import Final

import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.match import (
    ANY,
    EasyPatternOptimization,
    Example,
    GraphView,
    Match,
    PatternBuilder,
    PatternRewriter,
    Symbol,
)

from .._shapes import uniform_value

_FILLED: Final = (
    *(TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)
"""Types that ConstantOfShape supports in all operator sets."""


class ConstantOfShapeCastPattern(EasyPatternOptimization):
    """Cast(ConstantOfShape(s, value)) → ConstantOfShape(s, converted value)

    What: converts the value instead of the tensor. The same for Not and Neg.
    Why: one fewer pass over the tensor.
    Refuses when:
    1. the result has a type that ConstantOfShape does not support in all operator sets, or its
       value cannot be computed.
    """

    interior = "keep"
    min_opset = 9
    derives = ("value",)

    def match_pattern(self, g: PatternBuilder, sizes: Symbol) -> Symbol:
        filled = g.op.ConstantOfShape(sizes, attributes=ANY)
        return getattr(g.op, g.choice("operator", "Cast", "Not", "Neg"))(filled, attributes=ANY)

    def validate_mapping(self, g: GraphView, m: Match) -> bool | None:
        name = m.nodes[-1].output[0]
        value = uniform_value(g, name) if g.try_infer_type(name) in _FILLED else None
        if value is None:  # (1)
            return self.none(
                m.nodes[-1],
                msg="the value is unknown, or ConstantOfShape does not support its type",
            )
        return m.derive(value=value.reshape(1))

    def apply_pattern(self, g: PatternRewriter, sizes: str, value: np.ndarray) -> str:
        return g.op.ConstantOfShape(sizes, value=numpy_helper.from_array(value))

    examples = Example.only(
        "agraph (int64[2] s) => (bool[a,b] y) { c = ConstantOfShape <value = float[1] {1}> (s) "
        "y = Cast <to = 9> (c) }",
        "{ y = ConstantOfShape <value = bool[1] {1}> (s) }",
    )
