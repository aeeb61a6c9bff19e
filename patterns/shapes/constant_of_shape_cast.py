"""A tensor full of one number that is converted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from .._shapes import uniform_value

_FILLED: Final = (
    *(TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)
"""Types of ConstantOfShape in every operator set."""


class ConstantOfShapeCastPattern(PatternOptimization):
    """Cast(ConstantOfShape(s, value)) → ConstantOfShape(s, converted value), the same for Not and Neg

    What: converts one number instead of a tensor full of it.
    Why: one pass over the tensor less.
    Refuses when:
    1. the operand is not made by ConstantOfShape.
    2. the result has a type that ConstantOfShape does not have in every operator set, or its number cannot be computed.
    """

    anchors = ("Cast", "Not", "Neg")
    near = ("ConstantOfShape",)
    min_opset = 9

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        """Convert the number."""
        maker = g.node_before(node.input[0])
        if not is_op(maker, "ConstantOfShape"):  # (1)
            return self.none(node, msg="the operand is not full of one number")
        value = uniform_value(g, node.output[0]) if g.try_infer_type(node.output[0]) in _FILLED else None
        if value is None:  # (2)
            return self.none(node, msg="the number is not known, or its type is not one of ConstantOfShape")
        return MatchResult(self, [node], partial(self._fill, maker.input[0], value))

    def _fill(self, sizes: str, value: np.ndarray, g: PatternRewriter, node: Node) -> list[Node]:
        return [g.make_node("ConstantOfShape", [sizes], node.output, value=numpy_helper.from_array(value.reshape(1)))]

    @classmethod
    def examples(cls) -> Sequence[Example]:
        """A mask of ones."""
        return (
            Example(
                "agraph (int64[2] s) => (bool[a,b] y) { c = ConstantOfShape <value = float[1] {1}> (s) y = Cast <to = 9> (c) }",
                "agraph (int64[2] s) => (bool[a,b] y) { y = ConstantOfShape <value = bool[1] {1}> (s) }",
            ),
        )
