from functools import partial

import numpy as np
from onnx import TensorProto

from xoptim.match import Example, GraphView, MatchResult, Node, PatternOptimization, PatternRewriter

from .._nodes import is_op
from ._float16 import float16_of


class Float16DequantizeLinearPattern(PatternOptimization):
    """Cast(DequantizeLinear(w, s, z), to=FLOAT16) → DequantizeLinear(w, s16, z)

    What: dequantizes constant weights to 16 bits, where these hold the scales.
    Why: an operator that computes in 16 bits reads them without a tensor of 32 bits in between.
    The product of an integer of 8 bits and a scale of 16 is exact in 32, so that it is rounded once
    in both forms.
    Refuses when:
    1. the Cast is not to 16 bits, or reads something else than constant integers of 4 or 8 bits
       that are dequantized to 32-bit floats.
    2. something else reads the 32-bit floats.
    3. 16 bits do not hold the scales.
    """

    providers = ("cuda",)
    exactness = "rounding"
    min_opset = 21
    tags = ("float16_compute", "extra")
    anchors = ("Cast",)
    near = ("DequantizeLinear",)
    _integers = (TensorProto.INT4, TensorProto.UINT4, TensorProto.INT8, TensorProto.UINT8)

    def match(self, g: GraphView, node: Node, matched: list[MatchResult]) -> MatchResult | None:
        above = g.node_before(node.input[0])
        if node.get_attribute("to") != TensorProto.FLOAT16 or not is_op(above, "DequantizeLinear"):
            return self.none(node, msg="not a Cast of dequantized weights to float16")  # (1)
        weights, scales = above.input[:2]
        if not g.is_constant(weights) or g.try_infer_type(weights) not in self._integers:  # (1)
            return self.none(above, msg="the weights are not constant 4-bit or 8-bit integers")
        if above.get_attribute("output_dtype") or not g.is_exclusive(node.input[0]):  # (2)
            return self.none(above, msg="the float32 weights have other consumers")
        half = float16_of(g, scales)
        if not isinstance(half, np.ndarray):  # (3)
            return self.none(above, msg="the scales do not fit into float16")
        return MatchResult(self, [above, node], partial(self._replace, half))

    @staticmethod
    def _replace(half: np.ndarray, g: PatternRewriter, above: Node, cast: Node) -> list[Node]:
        scales = g.make_initializer("", half, source=above.input[1])
        names = [above.input[0], scales, *above.input[2:]]
        return [g.make_node("DequantizeLinear", names, cast.output, **above.attribute)]

    _head = "agraph (float16[n,2] x) => (float16[n,2] y)"
    examples = (
        Example(
            f"{_head} <int8[2,2] w = {{1, -2, 3, 127}}, float[2] s = {{0.5, 2}}> {{ "
            "d = DequantizeLinear <axis = 1> (w, s) h = Cast <to = 10> (d) y = MatMul(x, h) }",
            f"{_head} <int8[2,2] w = {{1, -2, 3, 127}}, float16[2] s = {{14336, 16384}}> {{ "
            "h = DequantizeLinear <axis = 1> (w, s) y = MatMul(x, h) }",
            opset=21,
        ),
    )
